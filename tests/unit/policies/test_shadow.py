"""A shadow policy beside the decision that was made: what differs, and what is no answer."""

import pytest
from msgspec.structs import replace

from surescale.contracts.decisions import Decision, ShadowDecision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.wire import decode, encode
from surescale.policies.decide import decide
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable, load_policy
from surescale.policies.shadow import ShadowRun, is_asked
from tests.support.builders import JOB, window_at

WINDOW, SETTINGS = window_at(600), JobSettings(job=JOB)


def decided(policy: str) -> Decision:
    """Return a rule's decision: one task of three can be scaled, and is overloaded on two subtasks."""
    return decide(WINDOW, load_policy(policy), SETTINGS, seed=7)


def beside(served: str, shadow: str, own: Decision | None = None) -> ShadowDecision:
    """Return a shadow's answer beside a decision."""
    return ShadowRun(shadow, "", decided(served), 3.0).answered(WINDOW, own or decided(shadow), 4.0)


def test_two_answers_are_compared_task_by_task() -> None:
    """Holding leaves the task as overloaded as it is; the rule's larger size spreads its work."""
    found = beside("hold", "target-utilisation")
    compared = found.comparison
    assert compared is not None
    (task,) = compared.differences
    assert (task.task, task.served, task.shadow) == ("map", 2, compared.shadow.subtasks)
    assert (compared.tasks, compared.served.action, compared.shadow.action) == (1, "hold", "act")
    assert compared.shadow.utilisation == pytest.approx(float(compared.served.utilisation or 0) * 2 / task.shadow)
    assert (found.served.policy, found.served.took_ms, compared.took_ms) == ("hold", 3.0, 4.0)
    assert decode(encode(found), ShadowDecision) == found


def test_equal_answers_differ_in_nothing() -> None:
    """The same figures, no task named."""
    compared = beside("target-utilisation", "target-utilisation").comparison
    assert compared is not None
    assert compared.differences == ()
    assert compared.served == compared.shadow


def test_no_rule_stands_in_for_a_policy_in_the_shadow() -> None:
    """What a rule would answer in its place says nothing about the policy."""
    own = decide(WINDOW, Unavailable("sure", "the model answered NaN"), SETTINGS, seed=7)
    found = beside("hold", "sure", own)
    assert (found.status, found.reason, found.comparison) == ("failed", "the model answered NaN", None)


def test_a_decision_cannot_be_read_from_a_shadows_record_nor_the_other_way_round() -> None:
    """Even on the topic of decisions the rescaler would refuse it."""
    with pytest.raises(RecordRejected, match="shadow-decision/1"):
        decode(encode(beside("hold", "target-utilisation")), Decision)
    with pytest.raises(RecordRejected, match="decision/1"):
        decode(encode(decided("hold")), ShadowDecision)


def test_a_policy_is_asked_at_the_ends_of_its_own_spans_and_only_if_enough_is_known() -> None:
    """A policy with a span of 15 minutes has no answer at minute 600 + 10."""
    slow: Policy = load_policy("hold", span_minutes=15)
    asked = [is_asked(slow, window_at(minute), SETTINGS) for minute in (600, 610, 630)]
    assert asked == [True, False, True]
    assert not is_asked(load_policy("hold"), WINDOW, replace(SETTINGS, minutes_known_min=60))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "answered", "comparison": None},
        {"status": "late"},
        {"shadow_id": "sim/clicks@0/x~"},
        {"sha256": "ab" * 32},
        {"job": "other/job"},
    ],
)
def test_a_record_that_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    """An answer without a comparison or a comparison without an answer, an identity that follows from nothing."""
    with pytest.raises((RecordRejected, ValueError)):
        decode(encode(replace(beside("hold", "target-utilisation"), **change)), ShadowDecision)
