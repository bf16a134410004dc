"""Constants and sizes that a release sets in a policy."""

import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Tuning
from surescale.policies.answer import PolicyFailed, RawAnswer
from surescale.policies.policy import ask
from surescale.policies.question import Question
from surescale.policies.registry import Unavailable, load_policy
from surescale.policies.rules.ds2 import GatedDS2
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.sure.policy import SurePolicy
from surescale.policies.tuned import tuned_policy
from tests.support.builders import JOB, window_at

QUESTION = Question.of(window_at(600), JobSettings(job=JOB), 0)


def test_rules_take_the_constants_that_calibration_finds() -> None:
    """Utilisation, need and saving of a gate, and the estimate of the load where the rule has one."""
    gate = Tuning(constants={"utilisation": 0.6, "need": 0.3, "saving": 0.2, "estimate": "p90"})
    rule = tuned_policy(load_policy("ds2-gate"), gate)
    assert isinstance(rule, GatedDS2)
    assert (rule.utilisation, rule.need, rule.saving, rule.estimate) == (0.6, 0.3, 0.2, "p90")
    other = tuned_policy(load_policy("target-utilisation"), gate)
    assert isinstance(other, TargetUtilisation)
    assert (other.sizing.utilisation, other.estimate, other.sizing.catch_up_minutes) == (0.6, "p90", 30.0)
    forecast = tuned_policy(load_policy("forecast"), Tuning(constants={"utilisation": 0.5}))
    assert isinstance(forecast, ForecastRule)
    assert forecast.base.sizing.utilisation == 0.5


def test_sizes_are_for_static_alone() -> None:
    """Every task gets the size that the release names."""
    answer = ask(tuned_policy(load_policy("static"), Tuning(sizes={"map": 5})), QUESTION)
    assert isinstance(answer, RawAnswer)
    assert answer.wanted.tolist() == [1, 5, 1]
    assert isinstance(tuned_policy(load_policy("ds2-gate"), Tuning(sizes={"map": 5})), Unavailable)


def test_sure_takes_a_margin_and_a_hurdle() -> None:
    """The scenarios of its plan widen, and a change must gain more; its name and hash stay."""
    shipped = load_policy("sure")
    tuned = tuned_policy(shipped, Tuning(constants={"margin": 2.0, "hurdle": 4.0}))
    assert isinstance(shipped, SurePolicy)
    assert isinstance(tuned, SurePolicy)
    before, after = shipped.card.base.planning, tuned.card.base.planning
    assert after.scenarios == tuple(2.0 * each for each in before.scenarios)
    assert (after.gain_min, after.later_restart) == (4.0 * before.gain_min, 4.0 * before.later_restart)
    assert (tuned.name, tuned.sha256) == (shipped.name, shipped.sha256)
    assert isinstance(ask(tuned, QUESTION), RawAnswer)


@pytest.mark.parametrize(
    ("policy", "constants"),
    [
        ("ds2-gate", {"utilisation": 2.0}),
        ("ds2-gate", {"utilisation": "much"}),
        ("ds2-gate", {"estimate": "guess"}),
        ("target-utilisation", {"utilization": 0.7}),
        ("hold", {"need": 0.1}),
        ("static", {"need": 0.1}),
        ("sure", {"margin": 0.0}),
    ],
)
def test_constants_that_a_policy_cannot_have_are_told_and_the_rule_takes_over(policy: str, constants: dict[str, float]) -> None:
    """A record of a newer build, or a damaged one, never ends an agent."""
    wrong = tuned_policy(load_policy(policy), Tuning(constants=constants))
    assert isinstance(wrong, Unavailable)
    answer = ask(wrong, QUESTION)
    assert isinstance(answer, PolicyFailed)
    assert next(iter(constants)) in answer.reason or policy in answer.reason


def test_nothing_set_leaves_the_policy_as_it_is() -> None:
    """An empty record is the policy as it ships."""
    shipped = load_policy("forecast")
    assert tuned_policy(shipped, Tuning()) is shipped
