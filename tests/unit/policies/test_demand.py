"""What a real engine shows, and what its job really needs: each case with the true answer, worked out by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Input, JobTopology, TaskSpec
from surescale.contracts.windows import FIGURE, Float32, Window, blank_figures, unknown_hours
from surescale.policies.guardrails import situation
from surescale.policies.measure import SKEW_MOST, Measured, measure
from surescale.policies.policy import Policy
from surescale.policies.question import Question
from surescale.policies.rules.drs import DRS
from surescale.policies.rules.ds2 import DS2
from surescale.policies.rules.flink import FlinkAutoscaler
from surescale.policies.rules.hpa import HorizontalPodAutoscaler
from surescale.policies.rules.lag import Lag
from surescale.policies.rules.reading import Reading
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.rules.threshold import Threshold
from surescale.policies.sizing import exact_subtasks, target_size

MINUTES = 30
END_MS = 809_568_000_000
NAN = float("nan")


@dataclass(frozen=True)
class Task:
    """One task of an engine like Flink: per minute, what it counts; queues are unknown except at sources."""

    name: str
    inputs: tuple[tuple[str, str], ...] = ()  # with how they ship
    records_in: float = 0.0
    records_out: float = 0.0
    busy: float = NAN  # busy subtasks
    parallelism: int = 1
    held: float = 0.0  # subtasks under back pressure
    lag: float | tuple[float, ...] = NAN
    arrived: float = NAN
    more: dict[str, float] = field(default_factory=dict)


def window_of(*tasks: Task, minutes: int = MINUTES) -> Window:
    """Return a window in which every minute looks the same, but for the queues that are given minute by minute."""
    figures = blank_figures(minutes, len(tasks))
    for at, task in enumerate(tasks):
        values = {
            "records_in": task.records_in,
            "records_out": task.records_out,
            "busy_ms": 60_000 * task.busy,
            "idle_ms": 60_000 * (task.parallelism - task.busy - task.held),
            "backpressured_ms": 60_000 * task.held,
            "parallelism": task.parallelism,
            "arrived": task.arrived,
            "coverage": 1.0,
            "covered_ms": 60_000,
            "queue_wait_record_ms": NAN,
            "latency_record_ms": NAN,
        }
        for name, value in (values | task.more).items():
            figures[:, at, FIGURE[name]] = value
        figures[:, at, FIGURE["queued_records_last"]] = task.lag
        figures[:, at, FIGURE["queued_records_mean"]] = task.lag
    specs = tuple(
        TaskSpec(
            task=task.name,
            upstream=tuple(name for name, _ in task.inputs),
            inputs=tuple(Input(task=name, ship=ship) for name, ship in task.inputs),  # type: ignore[arg-type]
            parallelism=task.parallelism,
            max_parallelism=64,
        )
        for task in tasks
    )
    topology = JobTopology(job="flink/job", version=1, at_ms=0, tasks=specs)
    return Window("flink/job", END_MS, figures, topology, unknown_hours())


def read(window: Window) -> Reading:
    """Return what rules read off a window."""
    return Reading.of(Question.of(window, JobSettings(job=window.job), 0))


def needed(window: Window, minutes: int = 10) -> list[float]:
    """Return the busy subtasks that each task needs for what came in the last minutes, to three digits."""
    reading = read(window)
    return [round(float(need), 3) for need in reading.measured.demand(reading.measured.load[-minutes:].mean())]


def chain(load: float, passed: float, *, arrived: float = NAN, lag: float | tuple[float, ...] = NAN) -> Window:
    """Return source -> parse -> sink, held back to ``passed`` records a minute by parse, which needs 2 ms a record."""
    held = passed < load
    return window_of(
        Task("source", (), passed, passed, busy=passed * 1e-5, held=0.9 if held else 0.0, lag=lag, arrived=arrived),
        Task("parse", (("source", "rebalance"),), passed, passed, busy=passed / 30_000),
        Task("sink", (("parse", "hash"),), passed, 0.0, busy=passed * 1e-5),
    )


GROWING = tuple(43_200.0 * minute for minute in range(1, MINUTES + 1))


def split(inputs_of_main: int = 2) -> Window:
    """Return a split with 1,000 in: all go to a and b, 100 also to a side output; u unites a and b."""
    return window_of(
        Task("split", (), 1_000, 1_100, busy=0.1),
        Task("a", (("split", "forward"),), 1_000, 1_000, busy=1.0),
        Task("b", (("split", "hash"),), 1_000, 1_000, busy=1.0),
        Task("side", (("split", "rebalance"),), 100, 100, busy=0.5),
        Task("u", (("a", "forward"), ("b", "forward")), 2_000, 2_000, busy=0.4),
    )


TABLE: dict[str, tuple[Callable[[], Window], list[float]]] = {
    # Held back to 28,800 a minute while 72,000 arrive: parse needs 72,000 x 2 ms = 2.4 busy subtasks, not 0.96.
    "back pressure": (lambda: chain(72_000, 28_800, arrived=72_000), [0.72, 2.4, 0.72]),
    # The same without arrivals: the lag at the source grows by what does not get in.
    "growth of the lag alone": (lambda: chain(72_000, 28_800, lag=GROWING), [0.72, 2.4, 0.72]),
    # Neither is known: what got in is all there is to go by.
    "nothing known of the backlog": (lambda: chain(72_000, 28_800), [0.288, 0.96, 0.288]),
    # A lag that stands still is no load: it is work waiting.
    "a lag that does not grow": (lambda: chain(28_800, 28_800, lag=90_000.0), [0.288, 0.96, 0.288]),
    # The side output gets a tenth of what its parent emits, its siblings all of the main output, the union both.
    "side output and union": (split, [0.1, 1.0, 1.0, 0.5, 0.4]),
    # Each of three subtasks gets each of 50 rules, beside 100 records: 250 come in.
    "broadcast": (
        lambda: window_of(
            Task("data", (), 100, 100, busy=0.1),
            Task("rules", (), 50, 50, busy=0.1),
            Task("match", (("data", "hash"), ("rules", "broadcast")), 250, 100, busy=1.5, parallelism=3),
            Task("sink", (("match", "forward"),), 100, 0, busy=0.2),
        ),
        [0.1, 0.1, 1.5, 0.2],
    ),
    # A filter drops nine of ten on one edge; the parent tells only what it emits in all.
    "filter on one edge": (
        lambda: window_of(
            Task("source", (), 1_000, 1_100, busy=0.1),
            Task("all", (("source", "hash"),), 1_000, 0, busy=1.0),
            Task("few", (("source", "hash"),), 100, 0, busy=1.0),
        ),
        [0.1, 1.0, 1.0],
    ),
    # DataGen and legacy sources count nothing read; they work on what they emit.
    "a source that counts only what it emits": (
        lambda: window_of(Task("source", (), 0, 600, busy=0.6), Task("sink", (("source", "hash"),), 600, 0, busy=0.3)),
        [0.6, 0.3],
    ),
    # A legacy source does not know how busy it is; the rest of its job does.
    "busy time of a legacy source is unknown": (
        lambda: window_of(Task("source", (), 0, 600, parallelism=4), Task("sink", (("source", "hash"),), 600, 0, busy=0.3)),
        [NAN, 0.3],
    ),
    # The engine counts no records out at all.
    "records out are not counted": (
        lambda: window_of(Task("source", (), 600, 0, busy=0.6), Task("sink", (("source", "hash"),), 600, 0, busy=0.3)),
        [0.6, 0.3],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_demand_is_what_the_job_really_needs(case: str) -> None:
    """To a thousandth of a subtask."""
    window, truth = TABLE[case]
    np.testing.assert_allclose(needed(window()), truth, atol=2e-3)


def test_visits_of_a_side_output_and_its_siblings() -> None:
    """Taken from the parent's output they would be 1.1 for all three, and 2.2 for the union."""
    np.testing.assert_allclose(read(split()).measured.visits, [1.0, 1.0, 1.0, 0.1, 2.0], rtol=1e-6)


def test_lag_at_the_source_waits_for_every_task_that_it_will_reach() -> None:
    """Of 90,000 records at the door a tenth will reach the side output, and twice as many the union."""
    window = split()
    figures = window.figures.copy()
    figures[:, 0, FIGURE["queued_records_last"]] = 90_000
    seen = read(replace(window, figures=figures)).measured
    np.testing.assert_allclose(seen.lag_records, [0, 90_000, 90_000, 9_000, 180_000], rtol=1e-6)
    np.testing.assert_allclose(seen.waiting_records, [90_000, 90_000, 90_000, 9_000, 180_000], rtol=1e-6)


def test_only_the_tasks_behind_a_source_wait_for_its_lag() -> None:
    """x is behind, y is not; both feed u."""
    window = window_of(
        Task("x", (), 100, 100, busy=0.1, lag=5_000.0, arrived=100),
        Task("y", (), 100, 100, busy=0.1, lag=0.0, arrived=100),
        Task("a", (("x", "hash"),), 100, 100, busy=0.5),
        Task("b", (("y", "hash"),), 100, 100, busy=0.5),
        Task("u", (("a", "hash"), ("b", "hash")), 200, 0, busy=0.5),
    )
    np.testing.assert_allclose(read(window).measured.lag_records, [0, 0, 5_000, 0, 5_000])


def test_a_throttled_source_brings_the_share_that_came_not_the_one_that_got_in() -> None:
    """Of x come 900 a minute and 100 get in, of y 100 come and get in: behind x, nine times as much is needed."""
    window = window_of(
        Task("x", (), 100, 100, busy=0.1, arrived=900),
        Task("y", (), 100, 100, busy=0.1, arrived=100),
        Task("a", (("x", "hash"),), 100, 0, busy=0.5),
        Task("b", (("y", "hash"),), 100, 0, busy=0.5),
    )
    np.testing.assert_allclose(needed(window), [0.9, 0.1, 4.5, 0.5], rtol=1e-5)


def test_a_backlog_at_the_source_overloads_its_job_and_opens_the_gate() -> None:
    """The load is met, 86,068 records wait, and nothing waits at the slow task itself. It takes 2.9 minutes to work them off."""
    window = chain(28_800, 28_800, lag=86_068.0)
    reading = read(window)
    seen = situation(reading.measured, reading.graph, reading.current)
    assert seen.overloaded.tolist() == [False, True, False]
    assert TargetUtilisation().wanted(reading).tolist()[1] > 1
    asked = exact_subtasks(reading.measured, np.array(28_800.0), reading.graph, TargetUtilisation().sizing)
    assert asked[1] == pytest.approx((0.96 + 86_068 / 30_000 / 30) / 0.75, rel=1e-3)


UNSURE = (TargetUtilisation(), FlinkAutoscaler(), HorizontalPodAutoscaler(), Threshold(), Lag(), DS2(), DRS())


def test_a_task_that_never_rests_is_not_close_enough_to_what_it_gets_through() -> None:
    """Nobody knows what waits for 10 subtasks, and what they get through asks for no more than 10. With a rest they stay."""

    def wanted(busy: float, lag: float = NAN) -> list[int]:
        window = window_of(Task("count", (), 1_000 * busy, 0, busy=busy, parallelism=10, lag=lag))
        return FlinkAutoscaler().wanted(read(window)).tolist()

    assert wanted(10.0) == [16]
    assert wanted(9.0) == wanted(10.0, lag=0.0) == [10]


@pytest.mark.parametrize("rule", UNSURE, ids=lambda rule: rule.name)
def test_a_task_whose_busy_time_is_unknown_keeps_its_size(rule: Policy) -> None:
    """Whatever the rule: four subtasks of a source that cannot tell how busy they are stay four."""
    window = window_of(
        Task("source", (), 0, 600, parallelism=4, more={"idle_ms": NAN, "backpressured_ms": NAN}),
        Task("slow", (("source", "hash"),), 600, 600, busy=0.9, parallelism=2),
        Task("sink", (("slow", "hash"),), 600, 0, busy=0.1),
    )
    reading = read(window)
    assert rule.wanted(reading)[0] == 4  # type: ignore[attr-defined]


def test_lag_that_nobody_knows_leaves_every_size_as_it_is() -> None:
    """KEDA's rule goes by lag alone. Unknown is not none."""
    reading = read(chain(28_800, 28_800))
    assert Lag().wanted(reading).tolist() == [1, 1, 1]
    wide = replace(reading, current=np.array([3, 3, 3]))
    assert Lag().wanted(wide).tolist() == [3, 3, 3]


def test_a_source_that_never_rests_tells_its_service_time_by_what_it_gets_through() -> None:
    """Busy time unknown, 100,000 waiting all the time, 600 a minute from two subtasks held back half of it: 1/600 minute each."""
    window = window_of(
        Task("source", (), 0, 600, parallelism=2, held=1.0, lag=100_000.0, more={"idle_ms": 0.0}),
        Task("sink", (("source", "hash"),), 600, 0, busy=0.3),
    )
    assert read(window).measured.service_minutes[0] == pytest.approx(1 / 600)


def test_a_source_that_rests_does_not() -> None:
    """With a lag shorter than a minute's records it may have waited for them."""
    window = window_of(
        Task("source", (), 0, 600, parallelism=2, held=1.0, lag=100.0, more={"idle_ms": 0.0}),
        Task("sink", (("source", "hash"),), 600, 0, busy=0.3),
    )
    assert np.isnan(read(window).measured.service_minutes[0])


def test_minutes_whose_counters_are_unknown_are_no_minutes_without_records() -> None:
    """A task that did not know its records for a third of the time still passes all of them on, and costs what it costs."""
    window = chain(28_800, 28_800, arrived=28_800)
    figures = window.figures.copy()
    for name in ("records_in", "records_out", "busy_ms"):
        figures[10:20, 1, FIGURE[name]] = np.nan
    np.testing.assert_allclose(needed(replace(window, figures=figures)), [0.288, 0.96, 0.288], rtol=1e-4)


def test_a_minute_without_arrivals_is_unknown_where_they_are_known_elsewhere() -> None:
    """The broker did not answer for three minutes: what got in then is far less than what came, whatever is known to wait."""
    window = chain(72_000, 28_800, arrived=72_000)
    figures = window.figures.copy()
    figures[:, 0, FIGURE["queued_records_last"]] = 0.0
    figures[-3:, 0, FIGURE["arrived"]] = np.nan
    load = read(replace(window, figures=figures)).measured.load
    assert np.isnan(load[-3:]).all()
    np.testing.assert_allclose(load[:-3], 72_000)


def test_the_minutes_after_a_restart_do_not_count_for_the_service_time() -> None:
    """Cold code takes five times as long; with nothing else in the window it is all there is."""
    window = chain(28_800, 28_800)
    figures = window.figures.copy()
    figures[-5, :, FIGURE["restarts"]] = 1
    figures[-5:-3, 1, FIGURE["busy_ms"]] *= 5
    assert read(replace(window, figures=figures)).measured.service_minutes[1] == pytest.approx(1 / 30_000, rel=1e-5)
    assert read(replace(window, figures=figures[-5:-3])).measured.service_minutes[1] == pytest.approx(5 / 30_000, rel=1e-5)


def test_a_hot_key_asks_for_more_than_the_mean_but_not_without_end() -> None:
    """One of four subtasks is always busy, the others a third of the time: two are busy, and the hottest sets the pace."""

    def asked(busiest: float) -> Float32:
        task = Task("count", (("source", "hash"),), 600, 0, busy=2.0, parallelism=4, more={"busy_ms_max": busiest})
        reading = read(window_of(Task("source", (), 600, 600, busy=0.1), task))
        return exact_subtasks(reading.measured, np.array(600.0), reading.graph, TargetUtilisation().sizing)[1]

    even = 2.0 / 0.75
    assert asked(60_000) == pytest.approx(even * 2.0)
    assert asked(45_000) == pytest.approx(even * 1.5)
    assert asked(30_500) == pytest.approx(even), "ordinary unevenness"
    assert asked(600_000) == pytest.approx(even * SKEW_MOST)
    assert asked(NAN) == pytest.approx(even)


LAGS = st.lists(st.floats(0, 50_000), min_size=12, max_size=12)


def lagging(lags: list[float], arrived: float) -> Reading:
    """Return a branching job of 600 records a minute whose source has these lags."""
    window = window_of(
        Task("source", (), 600, 660, busy=0.5, parallelism=2, lag=tuple(lags), arrived=arrived),
        Task("a", (("source", "hash"),), 600, 600, busy=1.8, parallelism=3),
        Task("side", (("source", "hash"),), 60, 60, busy=0.2, parallelism=2),
        Task("u", (("a", "forward"), ("side", "rebalance")), 660, 0, busy=0.9, parallelism=2),
        minutes=12,
    )
    return read(window)


@given(LAGS, LAGS, st.booleans())
def test_what_a_job_is_wanted_to_have_never_falls_when_its_lag_grows(lags: list[float], growth: list[float], told: bool) -> None:
    """More lag, now or growing faster, is never a reason for fewer subtasks; nor for a lower floor or less overload.

    Before the restart gate: that one may hold a job at more than it needs until more lag makes it change.
    """
    arrived = 600.0 if told else NAN
    less, more = (
        lagging(lags, arrived),
        lagging([lag + extra for lag, extra in zip(lags, np.cumsum(growth), strict=True)], arrived),
    )
    sizing = TargetUtilisation().sizing
    few, many = (
        target_size(exact_subtasks(each.measured, each.rate("quick-up"), each.graph, sizing), each.current, each.graph).wanted
        for each in (less, more)
    )
    assert (many >= few).all()
    keda = [Lag().wanted(each) for each in (less, more)]
    assert (keda[1] >= keda[0]).all()
    few_seen, many_seen = (situation(each.measured, each.graph, each.current) for each in (less, more))
    assert (many_seen.floor >= few_seen.floor).all()
    assert (many_seen.overloaded >= few_seen.overloaded).all()


@given(st.floats(0, 1e6), st.integers(1, 11))
def test_a_lag_that_appears_at_any_minute_makes_no_task_smaller(lag: float, at: int) -> None:
    """A rule with a gate holds its size or wants more, but for what it wanted to save before."""
    before, after = lagging([0.0] * 12, NAN), lagging([0.0] * at + [lag] * (12 - at), NAN)
    for rule in (TargetUtilisation(), FlinkAutoscaler()):
        assert (rule.wanted(after) >= np.minimum(rule.wanted(before), before.current)).all()


def test_a_batch_is_measured_as_its_rows_one_by_one() -> None:
    """Training measures many rows at once; the same lines serve both."""
    windows = [chain(72_000, 28_800, lag=GROWING), chain(28_800, 28_800), chain(72_000, 28_800, arrived=72_000, lag=GROWING)]
    one = [read(window) for window in windows]
    together = measure(np.stack([window.figures for window in windows]), one[0].graph)
    for row, alone in enumerate(each.measured for each in one):
        for name in ("load", "service_minutes", "visits", "backlog_records", "lag_records", "hot_share", "spread"):
            np.testing.assert_array_equal(getattr(together, name)[row], getattr(alone, name), err_msg=name)
        assert isinstance(together.rows(slice(row, row + 1)), Measured)
