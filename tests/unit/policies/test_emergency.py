"""Plain overload is answered at once, on little evidence but clear evidence; noise, restarts and slow sinks are not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, TaskLimits
from surescale.contracts.windows import FIGURE, Window
from surescale.contracts.wire import decode, encode
from surescale.policies.decide import decide, decide_if_due
from surescale.policies.emergency import emergency_of, present_need
from surescale.policies.hidden import hidden_load
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.rules.fixed import Static
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import END_MS, MINUTE_MS, chain_window

SERVICE = 0.01  # minutes: a subtask of a gets through 100 records a minute
POLICY = TargetUtilisation()


def flink_window(loads: tuple[float, ...], *, subtasks: int = 1, off_span: bool = True, **bent: Any) -> Window:
    """Return a window of a Flink job, source -> a -> b -> sink, whose last minutes had these arrivals.

    Task a gets through 100 records a minute for each subtask, and what it does not get through waits at the source. Before, the
    load was the first of them.
    """
    window = chain_window(load=loads[0], service_minutes=(SERVICE, SERVICE / 10), parallelism=(subtasks, 1))
    figures, waiting = window.figures.copy(), 0.0
    figures[:, 0, FIGURE["arrived"]] = loads[0]
    figures[:, 1:, FIGURE["queued_records_last"]] = np.nan
    for back, load in zip(range(len(loads), 0, -1), loads, strict=True):
        done = min(waiting + load, subtasks / SERVICE)
        waiting += load - done
        fill(figures[-back], load, done, waiting, subtasks)
    for name, value in bent.items():
        figures[-1, 1, FIGURE[name]] = value
    topology = msgspec.structs.replace(window.topology, engine="flink")
    return replace(window, figures=figures, topology=topology, window_end_ms=END_MS + MINUTE_MS * off_span)


def fill(row: np.ndarray, load: float, done: float, waiting: float, subtasks: int, busy: float | None = None) -> None:
    """Write one minute into a row [N, F]: arrivals, records done, records waiting at the source, busy share of a."""
    busy = done * SERVICE / subtasks if busy is None else busy
    row[:, FIGURE["records_in"]] = row[:, FIGURE["records_out"]] = done
    row[0, FIGURE["arrived"]], row[0, FIGURE["queued_records_last"]] = load, waiting
    row[1, FIGURE["busy_ms"]] = busy * subtasks * MINUTE_MS
    row[1, FIGURE["idle_ms"]] = (1.0 - busy) * subtasks * MINUTE_MS
    row[2, FIGURE["busy_ms"]] = done * SERVICE / 10 * MINUTE_MS


def decided(window: Window, settings: JobSettings | None = None, **given: Any) -> Decision | None:
    """Return what is decided on a window."""
    return decide_if_due(window, POLICY, settings or JobSettings(job=window.job, **given), seed=0)


def sizes(decision: Decision | None) -> list[int]:
    """Return the desired sizes of a and b."""
    assert decision is not None
    return [task.desired for task in decision.tasks[1:3]]


def test_a_load_beyond_capacity_is_answered_before_the_end_of_the_span() -> None:
    """Sized for the newest minute's load, not for the mean of ten: 280 a minute at 100 each, 75 % busy, and the backlog."""
    decision = decided(flink_window((70.0, 280.0)))
    assert sizes(decision) == [4, 1]
    assert decision is not None
    assert [amendment.rule for amendment in decision.tasks[1].amendments] == ["emergency"]
    assert decision.emergency == msgspec.structs.replace(decision.emergency, task="a", grown_records=180.0)
    assert "Emergency: 180 more records wait for a than a minute ago; at least 280 a minute come now." in decision.reason
    assert "Amended by emergency." in decision.reason
    assert decode(encode(decision), Decision) == decision
    assert decision.undecided is True, "no policy was asked what b needs"


@pytest.mark.parametrize(("restart_ms", "after"), [(None, 1), (1_000, 1), (60_000, 2), (120_000, 3)])
def test_growth_is_paid_for_once_as_much_waits_as_comes_during_a_restart(restart_ms: int | None, after: int) -> None:
    """A burst of a minute is over before a restart of a minute is; a load that stays is answered a minute later."""
    for minutes in range(1, 4):
        window = flink_window((50.0, *[300.0] * minutes))
        window = replace(window, topology=msgspec.structs.replace(window.topology, restart_ms=restart_ms))
        assert (decided(window) is not None) is (minutes >= after)
        assert (decided(window, restart_seconds=0.0) is not None) is True


def busy_window(loads: tuple[float, ...], *, restart_ms: int = 10_000, **of_a: Any) -> Window:
    """Return the same of a job with a hundred times as many records, each as much shorter; ``of_a`` is announced of task a."""
    window = flink_window(loads, subtasks=of_a.get("parallelism", 1))
    for name in ("records_in", "records_out", "arrived", "queued_records_last"):
        window.figures[..., FIGURE[name]] *= 100.0
    source, a, *others = window.topology.tasks
    tasks = (source, msgspec.structs.replace(a, **of_a), *others)
    return replace(window, topology=msgspec.structs.replace(window.topology, restart_ms=restart_ms, tasks=tasks))


@pytest.mark.parametrize("times", [1.11, 1.15, 1.2, 1.25, 1.3, 1.35, 1.5, 2.0])
def test_growth_waits_until_records_would_be_late_if_the_next_minute_decided(times: float) -> None:
    """A restart of ten seconds begins a minute after its decision; a minute later records would wait for longer than a minute.

    The record that a task is about to take came when as many had come as it has got through.
    """
    minutes = next(n for n in range(1, 20) if decided(busy_window((70.0, *[100.0 * times] * n))) is not None)
    waits_s = [60.0 * n * (times - 1.0) / times + 10.0 for n in (minutes + 1, minutes + 2)]
    assert waits_s[1] >= 59.0
    assert waits_s[0] < 60.0 or minutes == 1
    paid_for = busy_window((70.0, *[100.0 * times] * 2))  # as much waits as comes during a restart
    assert decided(paid_for, objective="latency") is not None, "its owner wants none to wait"


@pytest.mark.parametrize("objective", ["balanced", "latency"])
@pytest.mark.parametrize("busy", [1.0, 0.87])
def test_records_that_are_nearly_late_are_an_emergency_however_slowly_they_gather(busy: float, objective: str) -> None:
    """Three in a hundred more come than four subtasks get through, of which the fullest never rests, and the others do."""
    waiting, answered = 0.0, []
    window = busy_window((300.0,) * 59, parallelism=4, useful_max=128)
    for minute in range(1, 50):
        waiting += 0.03 * 400.0 * busy
        row = np.array(window.figures[-1])
        fill(row, 1.03 * 400.0 * busy, 400.0 * busy, waiting, 4, busy)
        for name in ("records_in", "records_out", "arrived", "queued_records_last"):
            row[..., FIGURE[name]] *= 100.0
        row[1, FIGURE["busy_ms_max"]] = MINUTE_MS
        window = replace(window, figures=np.concatenate([window.figures[1:], row[None]]))
        if decided(window, objective=objective) is not None:
            answered.append(minute)
    assert answered[0] == pytest.approx((50.0 / 60.0) / 0.03, abs=1.0)


def test_of_a_group_only_the_members_with_most_partitions_fall_behind() -> None:
    """Of twelve partitions on eight members four have two: what waits is theirs, and waits the longer."""
    window = busy_window((700.0, 970.0), restart_ms=1_000, parallelism=8, useful_max=12)
    assert decided(window) is None
    assert decided(replace(window, topology=msgspec.structs.replace(window.topology, engine="kafka"))) is not None


@pytest.mark.parametrize(("burst", "restart_ms", "kept"), [(125.0, 10_000, 1), (125.0, 60_000, 1), (150.0, 10_000, 2)])
def test_a_burst_that_makes_no_record_late_keeps_no_size(burst: float, restart_ms: int, kept: int) -> None:
    """One subtask gets through 100 a minute; of 125 a minute a quarter waits for a quarter of a minute."""
    window = busy_window((70.0,) * 20 + (burst,) + (70.0,) * 4, restart_ms=restart_ms, parallelism=4)
    assert present_need(Question.of(window, JobSettings(job=window.job), 0))[1] == kept


@pytest.mark.parametrize(("restart_ms", "looks_ahead", "kept"), [(10_000, True, 3), (10_000, False, 4), (90_000, True, 4)])
def test_a_policy_that_looks_ahead_chooses_its_own_room(restart_ms: int, looks_ahead: bool, kept: int) -> None:
    """Three subtasks carry 270 a minute, four with room. Where a restart alone makes records late, the room stays."""
    window = busy_window((270.0,) * 25, restart_ms=restart_ms, parallelism=6)
    question = Question.of(window, JobSettings(job=window.job), 0)
    assert present_need(question, looks_ahead=looks_ahead)[1] == kept


def test_at_the_end_of_a_span_it_adds_to_what_the_policy_wants() -> None:
    """A mean of ten minutes has not seen the step yet; the policy was asked, and its wish was amended."""
    decision = decided(flink_window((70.0, 280.0), off_span=False))
    assert sizes(decision) == [4, 1]
    assert decision is not None
    assert decision.tasks[1].proposed < 4


def test_a_stalled_service_is_not_told_as_a_higher_load() -> None:
    """As many come as ever, 5 of 70 get through. The full work of a minute and what waits would be 165."""
    window = flink_window((70.0, 70.0))
    fill(window.figures[-1], load=70.0, done=5.0, waiting=65.0, subtasks=1, busy=1.0)
    decision = decided(window)
    assert decision is not None
    assert "Emergency: 65 more records wait for a than a minute ago; at least 70 a minute come now." in decision.reason
    assert decision.emergency is not None
    assert decision.emergency.load_records_per_minute == 70.0


def test_a_rise_within_the_minute_is_more_than_its_mean() -> None:
    """The task rested for half of the minute, so all that waits came in the other half: the load now is above capacity."""
    window = flink_window((40.0, 40.0))
    fill(window.figures[-1], load=105.0, done=70.0, waiting=35.0, subtasks=1, busy=0.7)
    found = emergency_of(Question.of(window, JobSettings(job=window.job), 0))
    assert found is not None
    assert found.load == pytest.approx(100.0 + 35.0 / 0.7, rel=0.02)
    assert sizes(decided(window)) == [3, 1]


def test_where_the_load_before_is_unknown_the_tasks_own_input_says_whether_it_rose() -> None:
    """As in the second minute of a job, whose source had read nothing yet in the first."""
    for taken_before, answered in ((0.0, True), (60.0, False)):
        window = flink_window((40.0, 40.0))
        fill(window.figures[-1], load=105.0, done=70.0, waiting=35.0, subtasks=1, busy=0.7)
        window.figures[:-1, 0, [FIGURE["arrived"], FIGURE["queued_records_last"]]] = np.nan
        window.figures[:-1, :, FIGURE["records_in"]] = taken_before
        assert (decided(window) is not None) is answered


@pytest.mark.parametrize(("times", "answered"), [(0.1, False), (10.0, True)])
def test_few_records_that_gather_by_chance_are_no_emergency(times: float, answered: bool) -> None:
    """Eight a minute, and 13 in the last: four of them wait. With a hundred times as many it is plain."""
    window = flink_window((80.0 * times, 80.0 * times))
    busy = np.full(len(window.figures), 0.8)
    for minute, row in enumerate(window.figures):
        fill(row, load=80.0 * times, done=80.0 * times, waiting=0.0, subtasks=1, busy=float(busy[minute]))
    fill(window.figures[-1], load=130.0 * times, done=90.0 * times, waiting=40.0 * times, subtasks=1, busy=0.9)
    assert (decided(window) is not None) is answered


def test_work_that_waits_while_nothing_is_busy_is_no_emergency() -> None:
    """A slow service behind an asynchronous sink: the load is as before, and more subtasks would wait as well."""
    window = flink_window((70.0, 70.0))
    fill(window.figures[-1], load=70.0, done=40.0, waiting=30.0, subtasks=1)
    assert decided(window) is None


def test_a_source_whose_queue_was_unknown_tells_by_what_it_did_not_take() -> None:
    """As in the first minutes of a job: what came less what was taken is what waits."""
    window = flink_window((70.0, 280.0))
    window.figures[-2, 0, FIGURE["queued_records_last"]] = np.nan
    assert sizes(decided(window)) == [4, 1]


def test_few_minutes_are_enough_for_an_emergency_and_for_nothing_else() -> None:
    """With two known minutes no policy is asked; growth is decided, and without an emergency nothing is."""
    for off_span in (True, False):
        window = flink_window((70.0, 280.0), off_span=off_span)
        window.figures[:-2] = np.nan
        assert sizes(decided(window)) == [4, 1]
    calm = flink_window((10.0, 10.0), subtasks=4, off_span=False)
    calm.figures[:-2] = np.nan
    waits = decided(calm)
    assert waits is not None
    assert (waits.action, waits.reason) == ("hold", "Not ready: 3 more minutes of figures are needed.")


@pytest.mark.parametrize(
    "given",
    [
        {"emergency_growth": False},
        {"tasks": {"a": TaskLimits(pinned=True)}},
        {"parallelism_max": 1},
        {"total_limit": 2},
        {"excluded": (ExcludedPeriod(emergencies=False),)},
    ],
)
def test_every_limit_of_the_owner_holds(given: dict[str, Any]) -> None:
    """Off, pinned, at its maximum, at the job's total, in a strict period: nothing is decided."""
    assert decided(flink_window((70.0, 280.0)), **given) is None


def test_an_excluded_period_that_is_not_strict_lets_it_pass() -> None:
    """As it lets every overloaded task grow."""
    assert sizes(decided(flink_window((70.0, 280.0)), excluded=(ExcludedPeriod(),))) == [4, 1]


def test_one_answer_is_no_larger_than_a_step_unless_the_load_needs_it() -> None:
    """Overload lifts the step as far as the present load needs, as with every policy."""
    assert sizes(decided(flink_window((70.0, 280.0)), step_up_max=1.5)) == [4, 1]


def test_the_simulated_engine_answers_none_unless_it_is_told_to() -> None:
    """Its published figures stay what they are."""
    window = flink_window((70.0, 280.0))
    window = replace(window, topology=msgspec.structs.replace(window.topology, engine="simulated"))
    assert decided(window) is None
    assert sizes(decided(window, emergency_growth=True)) == [4, 1]


def test_a_persons_choice_is_left_alone() -> None:
    """Static stays static."""
    assert decide_if_due(flink_window((70.0, 280.0)), Static(), JobSettings(job="sim/chain"), seed=0) is None


@pytest.mark.parametrize(
    ("figure", "value"), [("restarts", 1.0), ("busy_ms", np.nan), ("busy_ms", 6_000.0)], ids=["restarted", "unknown", "idle"]
)
def test_what_a_restart_or_an_unknown_figure_shows_is_no_emergency(figure: str, value: float) -> None:
    """After a restart work waits because the job stood still, and a record costs more than it will."""
    window = flink_window((70.0, 280.0), **{figure: value})
    if figure == "restarts":
        window.figures[-1, :, FIGURE["restarts"]] = value
    assert decided(window) is None


def test_no_demand_from_the_broker_no_emergency() -> None:
    """What was let in says nothing about what came."""
    window = flink_window((70.0, 280.0))
    window.figures[-1, 0, [FIGURE["arrived"], FIGURE["queued_records_last"]]] = np.nan
    assert decided(window) is None


def test_the_next_span_does_not_take_back_what_an_emergency_gave() -> None:
    """Its means still hold minutes from before the step; what the last two need is kept."""
    window = flink_window((70.0, 280.0, 280.0), subtasks=4, off_span=False)
    decision = decide(window, POLICY, JobSettings(job="sim/chain"), seed=0)
    assert sizes(decision) == [4, 1]
    assert "Amended by the load of the last minutes." in decision.reason, "there is no emergency any more"
    off = decide(window, POLICY, JobSettings(job="sim/chain", emergency_growth=False), seed=0)
    assert sizes(off) < [4, 1]


@pytest.mark.parametrize(("times", "kept"), [(1.0, 2), (1.05, 2), (1.11, 4), (1.5, 4), (4.0, 4)])
def test_nothing_is_given_back_while_the_load_begins_to_rise(times: float, kept: int) -> None:
    """The newest minute may be mostly from before the step, and nothing in it says how far the load has risen by now."""
    decision = decided(rising_window(7000.0, times))
    assert sizes(decision)[0] == kept
    assert decision is not None
    assert decision.tasks[1].proposed <= 2


def test_few_records_vary_by_chance_and_that_is_no_rise() -> None:
    """Counts of 70 differ by 17 at random in one minute of twelve."""
    assert sizes(decided(rising_window(70.0, 1.25))) == [2, 1]
    assert sizes(decided(rising_window(7000.0, 1.25))) == [4, 1]


def test_what_a_restless_load_does_all_the_time_is_no_rise() -> None:
    """A load that differs by a tenth from minute to minute held every lower need up; one that doubles still rises."""
    for times, kept in ((1.2, 2), (2.0, 4)):
        window = rising_window(7000.0, times)
        restless = np.where(np.arange(len(window.figures) - 1) % 3 == 0, 1.1, 1.0).astype(np.float32)
        for name in ("records_in", "records_out", "arrived"):
            window.figures[:-1, :, FIGURE[name]] *= restless[:, None]
        assert sizes(decided(window)) == [kept, 1]


def rising_window(load: float, times: float) -> Window:
    """Return a window of a job of four subtasks at the end of a span; one subtask gets through 10/7 of the load before."""
    scale = load / 70.0
    window = flink_window((70.0,) * 30 + (70.0 * times,), subtasks=4, off_span=False)
    for name in ("records_in", "records_out", "arrived", "queued_records_last"):
        window.figures[..., FIGURE[name]] *= scale
    return window


def test_a_minute_that_holds_a_fall_gives_back_nothing_that_the_minute_before_needed() -> None:
    """Else the job shrinks in two steps, a restart each: half of 280 and 70 needs 3, but 70 alone needs 1."""
    falling = flink_window((280.0,) * 30 + (70.0,), subtasks=4, off_span=False)
    assert sizes(decide(falling, TargetUtilisation(span_minutes=1), JobSettings(job="sim/chain"), seed=0)) == [4, 1]


def test_after_a_fall_the_job_shrinks_as_before() -> None:
    """Nothing is kept that the last minutes do not need."""
    window = flink_window((70.0,) * 40, subtasks=4, off_span=False)
    assert sizes(decide(window, POLICY, JobSettings(job="sim/chain"), seed=0)) == [2, 1]


def test_the_same_window_gives_the_same_bytes() -> None:
    """An emergency is a function of window, settings and seed, so a replay finds it again."""
    first, second = (decided(flink_window((70.0, 280.0))) for _ in range(2))
    assert first is not None
    assert second is not None
    assert encode(first) == encode(second)


@pytest.mark.parametrize("name", ["sure", "ds2", "hpa"])
def test_every_policy_that_may_be_lifted_is(name: str) -> None:
    """The act is that policy's, so its name and its identity are in the record."""
    decision = decide_if_due(flink_window((70.0, 280.0)), load_policy(name), JobSettings(job="sim/chain"), seed=0)
    assert sizes(decision) == [4, 1]
    assert decision is not None
    assert decision.decision_id == f"sim/chain@{END_MS + MINUTE_MS}/{name}"


@given(st.lists(st.floats(50.0, 98.0), min_size=2, max_size=30))
def test_no_noise_below_capacity_is_an_emergency(loads: list[float]) -> None:
    """Whatever the minutes were like, as long as the task gets through each of them."""
    assert decided(flink_window(tuple(loads))) is None


@given(loads=st.lists(st.floats(1.0, 2_000.0), min_size=2, max_size=6), subtasks=st.integers(1, 8), known=st.integers(2, 60))
def test_an_emergency_only_adds_subtasks(loads: list[float], subtasks: int, known: int) -> None:
    """And within the owner's bounds."""
    window = flink_window(tuple(loads), subtasks=subtasks)
    window.figures[: 60 - known] = np.nan
    decision = decided(window)
    if decision is not None:
        assert decision.action == "act"
        assert all(task.current <= task.desired <= max(task.current, 10) for task in decision.tasks)


@given(st.floats(150.0, 900.0), st.floats(1.0, 1.5))
def test_more_load_never_asks_for_less(load: float, factor: float) -> None:
    """The wish grows with the load."""
    wanted: Callable[[float], int] = lambda rate: sizes(decided(flink_window((70.0, rate)), parallelism_max=1_000))[0]  # noqa: E731
    assert wanted(load * factor) >= wanted(load)


@pytest.mark.parametrize("busy", [0.0, np.nan])
def test_what_gathers_while_a_job_stands_still_is_no_emergency(busy: float) -> None:
    """In a restart of six minutes and in the minute after it: growth costs another restart, and what waits tells no load.

    Its source goes on, as a topic does, so that records wait for a; nobody knows whether a worked.
    """
    window = flink_window((70.0, *[70.0] * 8))
    figures, waiting = window.figures, 0.0
    for back in range(8, 0, -1):
        is_still = back > 2
        load, done = (70.0, 0.0) if is_still else (150.0, 100.0)
        waiting += load - done
        fill(figures[-back], load, done, 0.0, 1)
        figures[-back, 0, FIGURE["records_in"]] = figures[-back, 0, FIGURE["records_out"]] = load
        figures[-back, 1, FIGURE["queued_records_last"]] = waiting
        if is_still:
            figures[-back, :, FIGURE["busy_ms"]] = figures[-back, :, FIGURE["idle_ms"]] = busy
        figures[-back, 0, FIGURE["restarts"]] = back == 8
    for back in range(7, 1, -1):
        assert decided(replace(window, figures=figures[: 1 - back])) is None, back
    assert decided(window) is not None, "a load above capacity after it is one"


def test_a_load_is_hidden_where_a_task_never_rests_and_its_source_tells_only_what_it_reads() -> None:
    """A source that tells what arrives or what waits hides nothing; neither does a task that rests."""
    busy, settings = flink_window((100.0,) * 4), JobSettings(job="sim/chain")
    source = {"arrived": np.nan, "queued_records_last": np.nan}

    def hidden(window: Window, told: dict[str, float]) -> float:
        figures = window.figures.copy()
        for name, value in told.items():
            figures[:, 0, FIGURE[name]] = value
        return hidden_load(Question.of(replace(window, figures=figures), settings, 0))

    assert hidden(busy, source) == pytest.approx(100.0)
    assert hidden(busy, source | {"arrived": 100.0}) == 0.0
    assert hidden(busy, source | {"queued_records_last": 0.0}) == 0.0
    assert hidden(flink_window((80.0,) * 4), source) == 0.0
