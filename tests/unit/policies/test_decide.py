"""The whole way from a window to a decision."""

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.decisions import Candidates, ChangeScore, Decision, SampledMinute
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.wire import decode, encode
from surescale.policies.answer import Answer, NotReady, PolicyFailed, RawAnswer, answer_in_ratios
from surescale.policies.decide import decide
from surescale.policies.policy import is_span_end
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.rules.fixed import Hold, Static
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import END_MS, WindowMaker

SIZES = np.array([1, 4, 2, 1])
SCORES = ChangeScore(subtasks=9, score=np.inf, present_subtasks=8, present_score=0.2, gain_needed=0.01, unit="reward")
LATE = msgspec.structs.replace(
    SCORES, score=0.3, candidates=Candidates(subtasks=(8, 9), late_minutes=(np.nan, 0.0), minutes=60, late_seconds=30.0)
)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # figures beyond all bounds overflow on their way


@dataclass(frozen=True)
class Fixed:
    """A policy that always gives the same answer."""

    given: Answer
    name: str = "fixed"
    sha256: str = "cafe"
    span_minutes: int = 10
    floor_applies: bool = True

    def answer(self, question: Question) -> Answer:
        """Return it."""
        return self.given


@dataclass(frozen=True)
class InRatios:
    """A policy that always answers the same ratios."""

    values: tuple[float, ...]
    name: str = "fixed"
    sha256: str = "cafe"
    span_minutes: int = 10
    floor_applies: bool = True

    def answer(self, question: Question) -> Answer:
        """Return them as sizes."""
        return answer_in_ratios(np.array(self.values), question.current, "Because.")


def ratios(*values: float) -> InRatios:
    """Return a policy with these ratios."""
    return InRatios(values)


def desired(decision: Decision) -> list[int]:
    """Return the desired parallelism of all tasks."""
    return [task.desired for task in decision.tasks]


def test_a_ratio_of_one_and_a_half_rounds_half_up(make_window: WindowMaker, settings: JobSettings) -> None:
    """Three times 1.5 is 4.5, which rounds to five."""
    decision = decide(make_window(parallelism=(3, 2)), ratios(1, 1.5, 1.25, 1), settings, seed=0)
    assert desired(decision) == [1, 5, 3, 1]
    assert decision.action == "act"


def test_an_unchanged_job_is_a_hold(make_window: WindowMaker, settings: JobSettings) -> None:
    """A decision is made and recorded even when nothing changes."""
    decision = decide(make_window(), ratios(1, 1, 1, 1), settings, seed=0)
    assert decision.action == "hold"
    assert decision.decision_id == f"sim/chain@{END_MS}/fixed"


def test_the_way_from_ratio_to_desired_is_recorded(make_window: WindowMaker) -> None:
    """Raw ratio, rounded proposal, floor and amendments stand side by side."""
    task = decide(make_window(load=150.0), ratios(1, 0.5, 1, 1), JobSettings(job="sim/chain"), seed=0).tasks[1]
    assert (task.current, task.ratio, task.proposed, task.floor, task.desired) == (4, 0.5, 2, 3, 3)
    assert [amendment.rule for amendment in task.amendments] == ["floor"]


def test_a_decision_is_the_same_bytes_every_time(make_window: WindowMaker, settings: JobSettings) -> None:
    """It carries nothing but what follows from window, policy, settings and seed."""
    first, second = (decide(make_window(load=170.0), TargetUtilisation(), settings, seed=7) for _ in range(2))
    assert encode(first) == encode(second)
    assert decode(encode(first), Decision) == first


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RawAnswer(np.array([1, np.nan, 1, 1]), ""), "not a whole number"),
        (RawAnswer(np.array([1, 2.5, 1, 1]), ""), "not a whole number"),
        (RawAnswer(np.array([1, -1, 1, 1]), ""), "below 0"),
        (RawAnswer(np.array([1, 2**60, 1, 1]), ""), "beyond all bounds"),
        (RawAnswer(SIZES, "", ratios=np.array([1, np.inf, 1, 1])), "ratio that is not a number"),
        (RawAnswer(SIZES, "", ratios=np.ones(3)), "ratio that is not a number"),
        (RawAnswer(SIZES[:3], ""), "4 tasks"),
        (RawAnswer(SIZES, "", looked_at=((), ())), "explained 2 of 4 tasks"),
        (
            RawAnswer(SIZES, "", looked_at=((SampledMinute(minute_end_ms=0, weight=np.nan),), (), (), ())),
            "a figure that is not a number",
        ),
        (RawAnswer(SIZES, "", compared=SCORES), "a figure that is not a number"),
        (RawAnswer(SIZES, "", compared=LATE), "a figure that is not a number"),
        (PolicyFailed("the model is broken"), "the model is broken"),
    ],
)
def test_the_rule_takes_over_from_a_policy_that_fails(
    make_window: WindowMaker, settings: JobSettings, answer: Answer, reason: str
) -> None:
    """Wrong numbers or an admitted failure: target utilisation decides, and the decision says so."""
    window = make_window(load=180.0)
    decision = decide(window, Fixed(answer), settings, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert decision.policy.asked == "fixed"
    assert reason in (decision.policy.fallback_reason or "")
    assert decision.decision_id.endswith("/fixed")
    assert desired(decision) == desired(decide(window, TargetUtilisation(), settings, seed=0))


@pytest.mark.parametrize("said", ["Because of this and that. " * 40, "", "wordlessly" * 200])
def test_whatever_a_policy_says_fits_its_record(make_window: WindowMaker, settings: JobSettings, said: str) -> None:
    """A reason longer than its field, or none, would have the rescaler refuse the decision; own words give way to the facts."""
    answer = RawAnswer(np.array([1, 8, 4, 1]), said)
    decision = decide(make_window(), Fixed(answer), JobSettings(job="sim/chain", total_limit=9), seed=0)
    assert decode(encode(decision), Decision) == decision
    facts = "a and 1 more are 50% busy, no record waits, 100 records come a minute: 6 -> 9 subtasks. "
    assert decision.reason.startswith(facts + (said[:150] or "The policy gave no reason."))
    assert decision.reason.endswith(" Amended by total_limit.")


def test_figures_beyond_all_bounds_still_make_a_decision_that_can_be_read(
    make_window: WindowMaker, settings: JobSettings
) -> None:
    """A counter gone wild asks for more subtasks than a number holds: the floor is the largest parallelism, no negative one."""
    window = make_window(load=3e38, service_minutes=(1e9, 0.01))
    decision = decide(window, TargetUtilisation(), settings, seed=0)
    assert decode(encode(decision), Decision).tasks == decision.tasks
    assert decision.tasks[1].floor == 1_000_000
    assert desired(decision) == [1, 10, 10, 1]


def test_a_missing_model_is_no_crash(make_window: WindowMaker, settings: JobSettings, tmp_path) -> None:
    """A policy that does not exist decides by the rule and says which file is missing."""
    decision = decide(make_window(), load_policy("nosuch", str(tmp_path)), settings, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert "nosuch/card.json cannot be read" in (decision.policy.fallback_reason or "")


@pytest.mark.parametrize("name", ["", "../sure", ".hidden"])
def test_a_policy_name_is_no_path(name: str) -> None:
    """Names from settings never leave the folder of packages."""
    assert "not the name of a policy" in load_policy(name).reason


@pytest.mark.parametrize(("known", "ready"), [(0, False), (4, False), (5, True), (60, True)])
def test_below_five_known_minutes_everything_holds(
    make_window: WindowMaker, settings: JobSettings, known: int, ready: bool
) -> None:
    """A window with too little history is a hold that counts what is missing."""
    decision = decide(make_window(load=250.0, known=known), TargetUtilisation(), settings, seed=0)
    assert decision.minutes_known == known
    assert decision.completeness == pytest.approx(known / 60)
    assert (decision.action == "act") == ready
    assert ("Not ready" in decision.reason) == (not ready)


@pytest.mark.parametrize(("missing", "needed"), [(12, "12 more minutes of figures are"), (1, "1 more minute of figures is")])
def test_a_policy_may_ask_for_more_history(make_window: WindowMaker, settings: JobSettings, missing: int, needed: str) -> None:
    """Not ready is an answer and no failure: the rule does not take over."""
    decision = decide(make_window(), Fixed(NotReady(missing_minutes=missing)), settings, seed=0)
    assert (decision.action, decision.policy.name) == ("hold", "fixed")
    assert f"Not ready: {needed} needed." in decision.reason


@pytest.mark.parametrize(("engine", "said"), [("flink", True), ("simulated", False)])
def test_a_decision_without_a_policys_answer_says_so(make_window: WindowMaker, engine: str, said: object) -> None:
    """On a real engine, so that nobody takes sizes that stay for what is needed; the simulated one's records stay as they are."""
    window = make_window()
    window = replace(window, topology=msgspec.structs.replace(window.topology, engine=engine))
    settings = JobSettings(job=window.job)
    assert decide(window, Fixed(NotReady(missing_minutes=12)), settings, seed=0).undecided is said
    assert decide(window, TargetUtilisation(), settings, seed=0).undecided is False


def test_static_leads_back_to_what_the_author_configured(make_window: WindowMaker, settings: JobSettings) -> None:
    """Whatever the load, every task goes to its configured parallelism, at most doubling at once."""
    decision = decide(make_window(load=250.0, configured=(5, 6)), Static(), settings, seed=0)
    assert desired(decision) == [1, 5, 4, 1]


def test_hold_never_changes_anything(make_window: WindowMaker, settings: JobSettings) -> None:
    """Not even under overload."""
    assert decide(make_window(load=500.0), Hold(), settings, seed=0).action == "hold"


def test_target_utilisation_sizes_tasks_for_the_measured_load(make_window: WindowMaker, settings: JobSettings) -> None:
    """180 records a minute at .02 and .01 minutes over three quarters are 4.8 and 2.4 subtasks."""
    decision = decide(make_window(load=180.0, parallelism=(3, 2)), TargetUtilisation(), settings, seed=0)
    assert desired(decision) == [1, 5, 3, 1]


def test_target_utilisation_leaves_small_changes_undone(make_window: WindowMaker, settings: JobSettings) -> None:
    """One subtask more for a task that is 80 % busy is not worth stopping the job."""
    decision = decide(make_window(load=160.0), TargetUtilisation(), settings, seed=0)
    assert decision.action == "hold"
    assert "close enough" in decision.reason


def test_a_silent_source_is_said_to_be_silent(make_window: WindowMaker, settings: JobSettings) -> None:
    """Tasks that report while no source does leave the load unknown: hold."""
    window = make_window()
    window.figures[:, 0] = np.nan
    decision = decide(window, TargetUtilisation(), settings, seed=0)
    assert (decision.action, decision.load_records_per_minute) == ("hold", None)
    assert "No source has reported" in decision.reason


def test_spans_end_at_multiples_of_the_epoch() -> None:
    """A policy of ten minutes decides at :00, :10, ..."""
    assert is_span_end(END_MS, 10)
    assert not is_span_end(END_MS + 60_000, 10)


def test_a_decision_says_why_more_subtasks_would_not_help(make_window: WindowMaker, settings: JobSettings) -> None:
    """As the source has recognised it; the bounds keep the task from growing."""
    window = make_window(load=10.0)
    words = "partition orders[0] has not moved from offset 40 for 3 minutes while 10 records wait"
    tasks = tuple(
        msgspec.structs.replace(spec, useful_max=spec.parallelism, hindrance=words) if spec.task == "a" else spec
        for spec in window.topology.tasks
    )
    stuck = replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks))
    decision = decide(stuck, ratios(1.0, 2.0, 1.0, 1.0), settings, seed=0)
    assert desired(decision) == [1, 4, 2, 1]
    facts = "a, the busiest of 2 tasks, is 5% busy, no record waits, 10 records come a minute: 6 subtasks stay."
    assert decision.reason == f"{facts} a: {words}. Because. Amended by bounds."


def test_a_decision_says_until_when_there_were_figures(make_window: WindowMaker, settings: JobSettings) -> None:
    """The end of the newest minute in which any task reported; none without figures, and never after the span."""
    window = make_window()
    assert decide(window, Hold(), settings, seed=0).figures_until_ms == END_MS
    figures = window.figures.copy()
    figures[-3:] = np.nan
    late = decide(replace(window, figures=figures), Hold(), settings, seed=0)
    assert late.figures_until_ms == END_MS - 3 * 60_000
    assert decide(replace(window, figures=np.full_like(figures, np.nan)), Hold(), settings, seed=0).figures_until_ms is None
    with pytest.raises(ValueError, match="figures_until_ms: it is after span_end_ms"):
        msgspec.structs.replace(late, figures_until_ms=END_MS + 1)
