"""The record of a shadow policy: shares, differences and what they would cost."""

from surescale.contracts.decisions import Comparison, ServedDecision, ShadowDecision, TaskDifference, Verdict
from surescale.contracts.ids import shadow_id
from surescale.contracts.messages import Host
from surescale.services.state import metrics
from surescale.services.state.fleet_documents import answer_of
from surescale.services.state.read.shadows import dollars_per_unit_minute, summaries
from tests.support.builders import JOB
from tests.support.shadow_records import answer

MINUTE_MS = 60_000


def test_agreement_is_the_share_of_decisions_and_of_tasks_that_are_equal() -> None:
    """One answer of two differs, in one of two tasks; windows without an answer do not count."""
    (found,) = summaries([answer(10), answer(20, shadow=6), answer(30, status="late")], {})
    assert (found.decisions_equal, found.tasks_equal) == (0.5, 0.75)
    assert (found.answered, found.late, found.acts, found.served_acts) == (2, 1, 1, 0)
    assert (found.from_ms, found.to_ms, found.newest_problem) == (10 * MINUTE_MS, 30 * MINUTE_MS, "because")
    assert (found.took_ms, found.took_ms_max, found.served_took_ms) == (15.0, 20.0, 20.0)


def test_cost_is_the_difference_in_subtask_minutes_of_all_jobs_at_the_price_of_a_unit() -> None:
    """Two jobs with one more subtask on the average each: 2 x 1,440 minutes a day, at 1 cent."""
    asked = [answer(10), answer(20, shadow=6), answer(10, shadow=5, job="sim/other")]
    (found,) = summaries(asked, {"sim": 0.01})
    assert (found.subtask_minutes_per_day, found.dollars_per_day) == (2880.0, 28.8)
    assert found.subtasks_difference == 1.0
    assert summaries(asked, {})[0].dollars_per_day is None


def test_predicted_utilisation_tells_overload() -> None:
    """Four subtasks' work on three is more than they can do; on eight it is half."""
    (found,) = summaries([answer(10, served=3, shadow=8)], {})
    assert (found.utilisation, found.overloaded, found.served_overloaded) == (0.5, 0.0, 1.0)


def test_a_record_does_not_depend_on_the_order_of_its_answers_and_each_policy_has_its_own() -> None:
    """As they lie in the view."""
    asked = [answer(minute, shadow=minute, policy=policy) for minute in (1, 2, 3) for policy in ("ds2", "lag")]
    assert summaries(asked, {}) == summaries(reversed(asked), {})
    assert [each.policy for each in summaries(asked, {})] == ["ds2", "lag"]


def test_a_policy_that_never_answered_has_a_record_without_figures() -> None:
    """Its problem is the record."""
    (found,) = summaries([answer(10, status="failed")], {"sim": 1.0})
    assert (found.answered, found.failed, found.tasks_equal, found.dollars_per_day) == (0, 1, None, None)
    assert {each.metric for each in metrics.of_shadows([found])} == {metrics.SHADOW_ANSWERED}


def test_the_price_of_a_unit_is_that_of_all_hosts_over_their_units() -> None:
    """A host without a price says nothing; where the engine places, its slots count."""
    dear, cheap = Host(host="a", units=(1, 2), price_per_s=0.02), Host(host="b", slots=2, price_per_s=0.01)
    assert dollars_per_unit_minute([dear, cheap, Host(host="c", units=(5,))]) == 60 * 0.03 / 4
    assert dollars_per_unit_minute([Host(host="c", units=(5,))]) is None


def test_of_many_differences_the_view_keeps_the_largest() -> None:
    """And how many there were."""
    tasks = tuple(TaskDifference(task=f"t{number}", current=1, served=1, shadow=1 + number) for number in range(1, 6))
    verdict = Verdict(action="hold", subtasks=5)
    compared = Comparison(served=verdict, shadow=verdict, took_ms=1.0, tasks=9, differences=tasks)
    record = ShadowDecision(
        shadow_id=shadow_id(JOB, 0, "ds2", ""), job=JOB, span_end_ms=0, policy="ds2", sha256="",
        served=ServedDecision(decision_id="d", policy="sure", took_ms=1.0), status="answered", reason="r", comparison=compared,
    )  # fmt: skip
    kept = answer_of(record).comparison
    assert kept is not None
    assert (kept.differing, [each.task for each in kept.largest]) == (5, ["t5", "t4", "t3"])
    assert kept.served.utilisation is None
