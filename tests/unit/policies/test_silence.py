"""Zero is a figure and silence is not: what came to nobody, what nobody counted, and what only a part told."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Input, JobTopology, TaskSpec
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.source_load import demanded
from surescale.contracts.windows import (
    FIGURE,
    HOURS,
    Window,
    blank_figures,
    decode_window,
    encode_window,
    of_all_subtasks,
    unknown_hours,
)
from surescale.contracts.wire import encode
from surescale.policies.decide import decide, decide_if_due
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import HARDLY, REST_MINUTES
from surescale.policies.measure import measure
from surescale.policies.question import Question
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import END_MS, MINUTE_MS
from tests.unit.policies.test_witness import POLICIES, decided, policy_named, real_window, sizes, written

EVERY = (*POLICIES, "forecast", "ds2-gate", "drs", "lag")
COUNTED = ("records_in", "records_out", "busy_ms", "busy_ms_max")


def without_records(window: Window, minutes: int, task: int | slice = slice(None)) -> Window:
    """Return a window in whose last minutes some tasks were known to have nothing to do."""
    for name in COUNTED:
        window = written(window, name, 0.0, task=task, last=minutes)
    subtasks = window.topology.tasks[0].parallelism
    window = written(window, "idle_ms", subtasks * MINUTE_MS, task=task, last=minutes)
    return written(window, "arrived", 0.0, task=0, last=minutes) if task == slice(None) else window


@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize("minutes", [30, 59, 60])
def test_a_job_that_gets_no_records_goes_to_its_minimum(policy: str, minutes: int) -> None:
    """By every policy, with the window all zero or nearly: half of the way, and all of it once that has lasted."""
    wanted = sizes(decided(without_records(real_window(busy=0.6, subtasks=16), minutes), policy))
    assert wanted == [15 if policy == "threshold" else 8 if minutes < REST_MINUTES else 1] * 2


@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize("minutes", [10, 40, 60])
def test_a_group_without_busy_counters_that_gets_no_records_shrinks_too(policy: str, minutes: int) -> None:
    """Nobody knows what a record costs it; none of them costs nothing."""
    window = without_records(real_window(subtasks=6, tasks=("group",)), minutes)
    for name in ("busy_ms", "idle_ms", "busy_ms_max"):
        window = written(window, name, np.nan, last=60)
    assert sizes(decided(window, policy)) == [5 if policy == "threshold" else 3 if minutes < REST_MINUTES else 1]


@pytest.mark.parametrize("policy", ["sure", "target-utilisation", "flink"])
def test_a_job_at_rest_keeps_what_its_owner_says_of_size_and_steps(policy: str) -> None:
    """A minimum, also after minutes that nobody counted; a step that was set; and half an hour of rest is too little."""
    window = without_records(real_window(busy=0.6, subtasks=16, tasks=("group",)), 60)
    window.figures[20:26] = np.nan
    wants: tuple[tuple[dict[str, float], int], ...] = (({"parallelism_min": 3}, 3), ({"step_down_max": 2.0}, 8))
    for limits, wanted in wants:
        settings = msgspec.structs.replace(JobSettings(job=window.job), **limits)
        assert sizes(decide(window, policy_named(policy), settings, seed=0)) == [wanted]
    for name in ("records_in", "records_out", "arrived"):
        window.figures[-30, 0, FIGURE[name]] = 5.0
    assert sizes(decided(window, policy)) == [8]


@pytest.mark.parametrize("busy", [0.000_1, 0.001, 0.01, 0.03, 0.045])
@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_next_to_nothing_needs_no_more_than_a_little_does(policy: str, busy: float) -> None:
    """After a day at 60 %, however long a restart is. The less came, the less `sure` had to gain, so it kept all 8 subtasks.

    What took less than a hundredth of a subtask in any minute of a whole hour is as good as nothing.
    """
    window = real_window(busy=busy, load=10_000.0 * busy, tasks=("group",))
    hours = np.full(HOURS, np.nan, dtype=np.float32)
    hours[-24:-1], hours[-1] = 6_000.0, 10_000.0 * busy
    topology = msgspec.structs.replace(window.topology, restart_ms=180_000)
    decision = decided(replace(window, topology=topology, hourly_load=hours, hourly_peak=hours), policy)
    assert sizes(decision) == [1 if 8 * busy <= HARDLY else 4], decision.reason
    assert "no record comes" not in decision.reason


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
@pytest.mark.parametrize(
    ("last", "changes", "wanted"),
    [
        (60, {}, 1),
        (40, {}, 8),  # it was at work within the last 45 minutes
        (60, {"queued_records_last": 100.0}, 8),  # a minute's work for a third of a subtask waits
        (60, {"busy_ms": 0.0}, 8),  # a counter that counts nothing
    ],
)
def test_heartbeats_are_no_work(policy: str, last: int, changes: dict[str, float], wanted: int) -> None:
    """One a minute, of 200 ms each, as change data capture sends them: 16 members became 8, 4, 2 and 1, with a restart each."""
    window = without_records(real_window(busy=0.6, subtasks=16, tasks=("group",)), last)
    for name, value in {"records_in": 1.0, "records_out": 1.0, "arrived": 1.0, "busy_ms": 200.0, "busy_ms_max": 200.0}.items():
        window = written(window, name, value, last=last)
    for name, value in changes.items():
        window = written(window, name, value, last=last)
    decision = decided(window, policy)
    assert sizes(decision) == [wanted], decision.reason


def test_a_load_of_zero_needs_ten_known_minutes() -> None:
    """With fewer the job may pause; what nobody counted is no zero at all."""
    silent = without_records(real_window(busy=0.6, subtasks=16), 60)
    for known, wanted in ((9, [16, 16]), (10, [8, 8])):
        figures = silent.figures.copy()
        figures[:-known] = np.nan
        assert sizes(decided(replace(silent, figures=figures))) == wanted
    figures = silent.figures.copy()
    figures[-10:] = np.nan
    for policy in EVERY:
        assert sizes(decided(replace(silent, figures=figures), policy)) == [16, 16], policy


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_a_task_behind_a_silent_side_output_goes_to_its_minimum(policy: str) -> None:
    """Its parent sends all to another task; it gets nothing, does nothing, and says so."""
    window = real_window(busy=0.7, subtasks=8)
    assert sizes(decided(without_records(window, 60, task=1), policy))[1] == 1


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_a_counter_that_shows_no_work_for_records_is_no_rest(policy: str) -> None:
    """Nor is a task that had records within the window."""
    uncounted = real_window(busy=0.7, subtasks=8)
    for name in ("busy_ms", "busy_ms_max"):
        uncounted = written(uncounted, name, 0.0, task=1, last=60)
    for window in (uncounted, without_records(real_window(busy=0.7, subtasks=8), 50, task=1)):
        assert sizes(decided(window, policy))[1] >= 4


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_a_source_that_may_hang_is_not_known_to_be_silent(policy: str) -> None:
    """Where nobody knows what waits for it, its job goes by steps; where it is held back, the job keeps its size."""
    unknown = without_records(real_window(busy=0.6, subtasks=16), 60)
    for name in ("arrived", "queued_records_last"):
        unknown = written(unknown, name, np.nan, task=0, last=60)
    assert sizes(decided(unknown, policy)) == [8, 8]
    held = written(written(unknown, "idle_ms", 0.0, task=0, last=60), "backpressured_ms", 16.0 * MINUTE_MS, task=0, last=60)
    assert sizes(decided(held, policy)) == [16, 16]


def test_records_that_wait_are_no_silence() -> None:
    """A source that gets through nothing while records wait is stuck: its job keeps its size."""
    stuck = written(without_records(real_window(subtasks=16), 60), "queued_records_last", 500.0, task=0, last=60)
    for policy in ("target-utilisation", "flink", "sure"):
        assert sizes(decided(stuck, policy)) == [16, 16], policy


def test_load_that_returns_after_a_silent_hour_is_answered_at_once() -> None:
    """The first busy minute tells the service time again."""
    window = without_records(real_window(load=100.0, subtasks=2), 60)
    back = window.figures.copy()
    back[-1, :, FIGURE["records_in"]] = back[-1, :, FIGURE["records_out"]] = 2_000.0
    back[-1, :, FIGURE["busy_ms"]], back[-1, :, FIGURE["idle_ms"]] = 2 * MINUTE_MS, 0.0
    back[-1, 0, FIGURE["arrived"]], back[-1, 0, FIGURE["queued_records_last"]] = 8_000.0, 6_000.0
    decision = decided(replace(window, figures=back))
    assert decision.emergency
    assert min(sizes(decision)) > 2


def test_the_reason_says_what_of_the_newest_minute_is_unknown() -> None:
    """Its load, where the tasks themselves reported."""
    window = written(written(generated(busy=0.2), "restarts", 1.0, task=0), "records_in", 10.0)
    decision = decided(window, "hpa")
    assert "The newest known load is a minute old." in decision.reason
    assert "a keeps its subtasks, and so do 1 more: the load of the newest minute is unknown." in decision.reason


# --- a part of the figures


@pytest.mark.parametrize("policy", EVERY)
def test_two_of_eight_subtasks_that_report_do_not_speak_for_a_quarter_of_the_load(policy: str) -> None:
    """All are 70 % busy: the load is that of eight, the task is shown 70 % busy, and nothing shrinks on the word of two."""
    window = real_window(load=2_000.0, busy=0.7)
    part = window
    for name in ("records_in", "records_out", "busy_ms", "idle_ms", "coverage"):
        part = written(part, name, window.figures[..., FIGURE[name]] / 4.0, last=60)
    part = written(part, "arrived", np.nan, last=60)
    decision = decided(part, policy)
    assert min(sizes(decision)) >= 8
    assert [task.utilisation for task in decision.tasks] == pytest.approx([0.7, 0.7])
    assert decision.load_records_per_minute == pytest.approx(2_000.0)


def test_counters_are_divided_by_coverage_once_and_levels_never() -> None:
    """Nor in a minute in which an attempt began: its counters hold what the attempt before did."""
    figures = blank_figures(3, 1)
    figures[..., FIGURE["records_in"]] = figures[..., FIGURE["queued_records_last"]] = 100.0
    figures[..., FIGURE["coverage"]] = [[1.0], [0.5], [0.5]]
    figures[2, 0, FIGURE["restarts"]] = 1.0
    whole = of_all_subtasks(figures)
    assert whole[:, 0, FIGURE["records_in"]].tolist() == [100.0, 200.0, 100.0]
    assert whole[:, 0, FIGURE["queued_records_last"]].tolist() == [100.0] * 3
    assert of_all_subtasks(figures[:1]) is not whole
    assert figures[1, 0, FIGURE["records_in"]] == 100.0


# --- minutes that are not whole, and records that nobody counts


def generated(busy: float = 0.6) -> Window:
    """Return a window of a job whose source knows neither arrivals nor a queue: what it lets in is all that is known."""
    return written(written(real_window(busy=busy), "arrived", np.nan, last=60), "queued_records_last", np.nan, last=60)


@pytest.mark.parametrize(("last", "restarts"), [(1, 1.0), (2, [[1.0], [0.0]])])
def test_a_minute_with_a_restart_is_no_minute_of_low_load(last: int, restarts: object) -> None:
    """Nor is the one after it, in which caches are cold and records come a second time; known arrivals are known."""
    window = written(generated(), "records_in", 150.0, last=last)
    window = written(window, "restarts", restarts, task=slice(0, 1), last=last)
    assert np.isnan(measure(window.figures, job_graph(window.topology.tasks)).load[-1])
    told = written(window, "arrived", 1_000.0, task=0, last=60)
    assert measure(told.figures, job_graph(told.topology.tasks)).load[-1] == 1_000.0


def test_a_minute_that_the_source_ran_a_part_of_is_no_minute_of_low_load() -> None:
    """Where its times are known; with the queue known before and after, arrivals are too."""
    window = written(written(generated(), "busy_ms", 60_000.0, task=0), "idle_ms", 60_000.0, task=0)
    assert np.isnan(measure(window.figures, job_graph(window.topology.tasks)).load[-1])
    queued = written(window, "queued_records_last", 0.0, task=0, last=60)
    assert measure(queued.figures, job_graph(queued.topology.tasks)).load[-1] == 1_000.0


def test_a_source_at_work_that_counts_no_record_has_an_unknown_load() -> None:
    """0 read, 0 written and 95 % busy is not 0; at rest it is."""
    figures = blank_figures(2)
    figures[:, FIGURE["parallelism"]], figures[:, FIGURE["queued_records_last"]] = 2.0, np.nan
    figures[:, FIGURE["busy_ms"]], figures[:, FIGURE["idle_ms"]] = [114_000.0, 1_000.0], [6_000.0, 119_000.0]
    came = demanded(figures, np.full(2, np.nan))
    assert np.isnan(came[0])
    assert came[1] == 0.0


@pytest.mark.parametrize(
    ("read", "waited", "waits", "arrived", "came"),
    [
        (1_000.0, 0.0, 0.0, 60_000.0, 1_000.0),
        (1_000.0, 5_000.0, 64_000.0, 60_000.0, 60_000.0),
        (1_000.0, np.nan, np.nan, 60_000.0, 60_000.0),
        (1_000.0, 0.0, 0.0, 9_000.0, 9_000.0),
        (0.0, 5_000.0, 5_000.0, 60_000.0, 60_000.0),
        (1.0, 0.0, 0.0, 90.0, 90.0),
    ],
    ids=["jump", "surge", "queue unknown", "less than tenfold", "nothing read", "few"],
)
def test_records_that_were_neither_read_nor_wait_did_not_come(
    read: float, waited: float, waits: float, arrived: float, came: float
) -> None:
    """A position that was put forward is no surge; a queue that grew with it is, and so is what nobody can tell apart."""
    figures = blank_figures(1)
    for name, value in (("parallelism", 1.0), ("records_in", read), ("queued_records_last", waits), ("arrived", arrived)):
        figures[:, FIGURE[name]] = value
    assert demanded(figures, np.array([waited])).tolist() == [came]
    restarted = figures.copy()
    restarted[:, FIGURE["restarts"]] = 1.0
    assert demanded(restarted, np.array([waited])).tolist() == [arrived]


def test_a_decision_names_the_figure_that_was_no_usable_number() -> None:
    """With its task and minute, as the record of the window told it."""
    window = written(real_window(busy=0.6), "busy_ms", np.inf, task=1)
    assert "b: busy_ms of the minute that ended at" in decided(decode_window(encode_window(window))).reason


# --- tasks that finish, and tasks that say nothing


def joined(busy: float, *, finished: bool, subtasks: int = 8) -> Window:
    """Return a window of a job that joins a stream with a table; the source of the table has sent no figures for an hour."""
    edges = {"table": (), "stream": (), "op": ("table", "stream"), "sink": ("op",)}
    specs = tuple(
        TaskSpec(
            task=task,
            upstream=up,
            inputs=tuple(Input(task=each, ship="hash") for each in up),
            parallelism=subtasks,
            max_parallelism=128,
            state="finished" if finished and task == "table" else "running",
        )
        for task, up in edges.items()
    )
    window = real_window(busy=busy, subtasks=subtasks, tasks=tuple(edges))
    figures = window.figures.copy()
    figures[:, 0] = np.nan
    figures[:, 1, FIGURE["arrived"]], figures[:, 1, FIGURE["queued_records_last"]] = 1_000.0, 0.0
    topology = JobTopology(job="prod/job", version=1, at_ms=0, tasks=specs, engine="flink", restart_ms=1_000)
    return Window("prod/job", END_MS, figures, topology, unknown_hours())


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_tasks_after_a_finished_source_are_sized_by_what_they_do(policy: str) -> None:
    """At 110 % they grow, at 5 % they shrink; the finished one is left alone, for a restart would be for nothing."""
    table, _, op, sink = sizes(decided(joined(1.1, finished=True), policy))
    assert table == 8
    assert min(op, sink) >= 10
    table, _, op, sink = sizes(decided(joined(0.05, finished=True), policy))
    assert table == 8
    assert (op, sink) == (4, 4)


def outlived(busy: float, *, ago: int) -> Window:
    """Return a window of a chain whose only source has finished so many minutes ago."""
    window = real_window(busy=busy, tasks=("table", "op", "sink"))
    specs = (msgspec.structs.replace(window.topology.tasks[0], state="finished"), *window.topology.tasks[1:])
    figures = window.figures.copy()
    figures[-ago:, 0] = np.nan
    figures[:, 1:, FIGURE["arrived"]] = np.nan
    return replace(window, figures=figures, topology=msgspec.structs.replace(window.topology, tasks=specs))


@pytest.mark.parametrize("ago", [3, 30, 60])
@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_tasks_after_finished_sources_only_are_sized_by_what_they_do(policy: str, ago: int) -> None:
    """They work off what the source has sent: at 110 % they grow, at 5 % they shrink, whenever it has finished."""
    table, op, sink = sizes(decided(outlived(1.1, ago=ago), policy))
    assert table == 8
    assert min(op, sink) >= 10
    table, op, sink = sizes(decided(outlived(0.04, ago=ago), policy))
    assert table == 8
    assert (op, sink) == (4, 4)


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2"])
def test_tasks_after_a_source_that_says_nothing_may_grow_but_not_shrink(policy: str) -> None:
    """Nobody knows what it will bring."""
    assert min(sizes(decided(joined(1.1, finished=False), policy))[2:]) >= 10
    assert sizes(decided(joined(0.05, finished=False), policy)) == [8, 4, 8, 8]


@pytest.mark.parametrize("policy", EVERY)
def test_a_silent_task_in_the_middle_does_not_halve_those_behind_it(policy: str) -> None:
    """The last one is 70 % busy by its own figures, which need no parents."""
    window = real_window(busy=0.7, tasks=("a", "b", "c"))
    figures = window.figures.copy()
    figures[:, 1] = np.nan
    silent = replace(window, figures=figures)
    assert min(sizes(decided(silent, policy))[1:]) >= 7
    if policy in ("target-utilisation", "ds2", "flink"):
        assert sizes(decided(silent, policy))[2] >= 7


def test_what_neither_parents_nor_the_task_itself_tell_is_unknown_and_never_zero() -> None:
    """Two silent tasks in a row: the first gets what its parent sends, the second nobody knows what."""
    window = real_window(busy=0.7, tasks=("a", "b", "c"))
    figures = window.figures.copy()
    figures[:, 1:] = np.nan
    visits = measure(figures, job_graph(window.topology.tasks)).visits
    assert visits[:2].tolist() == [1.0, 1.0]
    assert np.isnan(visits[2])


def test_unknown_records_in_are_what_the_parents_put_out() -> None:
    """A task that reports all but its records is not one without a load."""
    window = real_window(load=250.0, busy=0.7)
    blind = written(written(window, "records_in", np.nan, task=1, last=60), "records_out", np.nan, task=1, last=60)
    seen = measure(blind.figures, job_graph(blind.topology.tasks))
    assert seen.load[-1] * seen.visits[1] == 250.0


def test_more_that_arrived_than_was_got_through_is_a_backlog() -> None:
    """Twice as much comes as a group without busy counters gets through, and one uncommitted partition hides what waits."""
    window = real_window(load=1_800.0, subtasks=3, tasks=("group",))
    for name in ("busy_ms", "idle_ms", "busy_ms_max", "queued_records_last"):
        window = written(window, name, np.nan, last=60)
    window = written(window, "records_in", 900.0, last=60)
    window = written(window, "records_out", 900.0, last=60)
    seen = measure(window.figures, job_graph(window.topology.tasks))
    assert seen.backlog_records[0] == 60 * 900.0
    assert seen.service_minutes[0] == pytest.approx(3 / 900.0)
    for policy in ("target-utilisation", "flink", "sure"):
        assert sizes(decided(window, policy))[0] >= 6, policy
    topology = msgspec.structs.replace(window.topology, tasks=window.topology.tasks)
    assert sizes(decided(replace(window, topology=topology), "static"))[0] == 3


# --- a busy counter that covers a part of the work


def understated(busy: float = 0.23, **spec: object) -> Window:
    """Return a window of a group whose counter shows little work, although ever more waits and it gets through no more."""
    window = real_window(load=10_400.0, busy=busy, subtasks=4, tasks=("group",), **spec)
    window = written(window, "arrived", 13_000.0, last=60)
    return remembering(written(window, "queued_records_last", 12_900.0 + 2_600.0 * np.arange(60), task=0, last=60))


def remembering(window: Window) -> Window:
    """Return a window with what its last minutes showed of tasks that never rested, as the pipeline sends it."""
    figures = of_all_subtasks(window.figures[-SEEN_MINUTES:])
    return replace(window, saturations=remembered((), figures, window.topology, window.window_end_ms))


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2", "hpa", "threshold"])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_task_that_falls_behind_grows_whatever_its_busy_counter_says(policy: str, noise: float) -> None:
    """23 % busy, but 2,600 more wait each minute: its time per record is what its subtasks take, and nothing shrinks."""
    window = understated()
    window.figures[..., FIGURE["busy_ms"]] *= np.random.default_rng(1).normal(1.0, noise, (60, 1))
    decision = decided(remembering(window), policy)
    assert sizes(decision)[0] >= (3 if policy == "threshold" else 5)
    if policy in ("target-utilisation", "flink", "sure", "ds2"):
        assert decision.tasks[0].floor == 5


def test_a_backlog_of_one_partition_says_nothing_of_the_others_time() -> None:
    """Where one subtask does most of the work, or has nearly all of what waits, the counter is believed; nothing shrinks."""
    window = understated()
    hot = written(window, "busy_ms_max", 0.6 * MINUTE_MS, last=60)
    capped = understated(hindrance="91 % of the waiting records are in partition t[0]")
    for skewed in (remembering(hot), capped):
        assert Question.of(skewed, JobSettings(job=skewed.job), 0).understated.tolist() == [1.0]
        assert sizes(decided(skewed)) >= [4]


def test_a_task_that_holds_back_the_one_before_it_never_rests() -> None:
    """Async calls: the source waits for it all the time, and it shows a quarter of its time as busy."""
    window = real_window(load=1_000.0, busy=0.25, subtasks=4)
    window = written(written(window, "backpressured_ms", 0.75 * 4 * MINUTE_MS, task=0, last=60), "idle_ms", 0.0, task=0, last=60)
    assert Question.of(remembering(window), JobSettings(job=window.job), 0).understated.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "ds2", "hpa"])
def test_a_task_that_has_caught_up_keeps_what_its_counter_cannot_show(policy: str) -> None:
    """Hours later: 23 % busy at the load that filled its subtasks; as wide as before a day has passed, and told why."""
    behind = understated()
    rested = real_window(load=10_400.0, busy=0.23 * 0.65, subtasks=6, tasks=("group",))
    later = replace(rested, saturations=(msgspec.structs.replace(behind.saturations[0], at_ms=END_MS - 5 * 60 * MINUTE_MS),))
    assert sizes(decided(later, policy)) >= [5]
    assert "busy 23% while records waited" in decided(later, policy).reason
    forgotten = (msgspec.structs.replace(behind.saturations[0], at_ms=END_MS - 24 * 60 * MINUTE_MS),)
    for unaware in (rested, replace(rested, saturations=forgotten)):
        assert sizes(decided(unaware, policy)) <= [3]


def test_a_task_held_back_all_the_time_is_not_infinitely_fast() -> None:
    """Without busy time nothing tells what it needs: unknown, not 0."""
    window = real_window(busy=0.5)
    for name, value in (("busy_ms", np.nan), ("idle_ms", 0.0), ("backpressured_ms", 8.0 * MINUTE_MS)):
        window = written(window, name, value, last=60)
    window = written(window, "queued_records_last", 5_000.0, last=60)
    assert np.isnan(measure(window.figures, job_graph(window.topology.tasks)).service_minutes).all()
    assert sizes(decided(window)) == [8, 8]


# --- what nobody knows is said


def uncounted(subtasks: int = 2, busy: float = 0.98, **given: object) -> Window:
    """Return a window of a job in one vertex, as Flink chains it: it reads and writes nothing that is counted, and is busy."""
    window = real_window(load=0.0, busy=busy, subtasks=subtasks, tasks=("chained",), **given)
    return written(written(window, "arrived", np.nan, last=60), "queued_records_last", np.nan, last=60)


@pytest.mark.parametrize("policy", EVERY)
def test_a_job_whose_records_nobody_counts_is_never_said_to_be_close_enough(policy: str) -> None:
    """Its load is unknown and not 0; at rest or not it keeps what it has, and the reason says what is missing."""
    decision = decided(uncounted(subtasks=8, busy=0.3), policy)
    assert "close enough" not in decision.reason
    assert "chained: its records are not counted, so nobody knows what it needs." in decision.reason
    assert sizes(decision) == [8]
    assert decision.load_records_per_minute is None


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure", "lag"])
def test_a_task_that_never_rests_doubles_once_where_nobody_counts_its_records(policy: str) -> None:
    """And no more than that in all that the window shows; blind growth without a maximum of its owner ends at four."""
    decision = decided(uncounted(), policy)
    assert sizes(decision) == [4]
    assert "chained: it never rests, and its records are not counted" in decision.reason
    grown = written(uncounted(subtasks=4), "parallelism", 2.0, last=59)
    grown.figures[-10:, :, FIGURE["parallelism"]] = 4.0
    assert sizes(decided(grown, policy)) == [4]
    wide = decide(uncounted(subtasks=8), policy_named(policy), JobSettings(job="prod/job"), seed=0)
    assert sizes(wide) == [8]
    assert "it never rests" in wide.reason


def test_known_arrivals_of_a_task_that_counts_nothing_are_a_load() -> None:
    """180,000 arrive a minute, 60,000 more wait each minute: it never rests, and grows."""
    window = written(uncounted(), "arrived", 180_000.0, last=60)
    decision = decided(written(window, "queued_records_last", 60_000.0 * np.arange(60), task=0, last=60))
    assert sizes(decision) == [4]
    assert "never rests" in decision.reason


def test_a_decision_says_how_old_its_load_is_and_whose_counter_is_wrong() -> None:
    """Nine unknown minutes, then a task that falls behind while it seems to rest."""
    late = written(written(generated(), "records_in", np.nan, last=9), "records_out", np.nan, last=9)
    assert "The newest known load is 9 minutes old." in decided(late).reason
    words = "group: busy 23 % while records waited: the counter covers a part of the work."
    assert words.replace(" %", "%") in decided(understated()).reason


def test_a_group_without_busy_counters_is_answered_at_once_when_it_never_rests() -> None:
    """Its queue tells that it works all the time, and what it gets through tells how long a record takes."""
    window = real_window(load=900.0, subtasks=3, tasks=("group",))
    for name in ("busy_ms", "idle_ms", "busy_ms_max"):
        window = written(window, name, np.nan, last=60)
    window = written(window, "arrived", 2_700.0, task=0, last=4)
    window = written(window, "queued_records_last", 1_800.0 * np.arange(1, 5), task=0, last=4)
    off_span = replace(window, window_end_ms=END_MS + MINUTE_MS)
    decision = decide_if_due(off_span, TargetUtilisation(), JobSettings(job="prod/job"), seed=0)
    assert decision is not None
    assert decision.emergency
    assert sizes(decision)[0] >= 9


@given(st.integers(0, 2**32), st.sampled_from(["flink", "simulated", "kafka"]), st.sampled_from([0.02, 0.3, 0.9]))
def test_gaps_anywhere_never_shrink_a_task_whose_newest_minute_is_unknown(seed: int, engine: str, share: float) -> None:
    """Nor do they bring a NaN into a decision, of any policy."""
    generator = np.random.default_rng(seed)
    window = real_window(busy=float(generator.uniform(0.0, 1.0)), tasks=("a", "b", "c"))
    figures = window.figures.copy()
    figures[generator.random(figures.shape) < share] = np.nan
    figures[generator.random(figures.shape[:2]) < share] = np.nan
    window = replace(window, figures=figures, topology=msgspec.structs.replace(window.topology, engine=engine))
    for policy in EVERY:
        decision = decided(window, policy)
        assert b"NaN" not in encode(decision)
        assert "nan" not in decision.reason.replace("nobody", "")
        for at, task in enumerate(decision.tasks):
            if np.isnan(figures[-1, at, FIGURE["coverage"]]):
                assert task.desired >= task.current, policy


@pytest.mark.parametrize("policy", EVERY)
def test_a_group_that_keeps_up_without_a_busy_counter_is_told_what_is_missing(policy: str) -> None:
    """Six members, 900 records a minute and none waiting: whether fewer would do nobody knows, so one less is tried.

    No score says so. ``lag`` sizes by the records that wait, as KEDA does: for none of them a halving step down.
    """
    window = real_window(load=900.0, subtasks=6, tasks=("parse",))
    for name in ("busy_ms", "idle_ms", "busy_ms_max"):
        window = written(window, name, np.nan, last=60)
    for name in ("queued_records_last", "queued_records_mean"):
        window = written(window, name, 0.0, last=60)
    window = replace(window, topology=msgspec.structs.replace(window.topology, engine="kafka"))
    decision = decided(window, policy)
    assert sizes(decision) == [3 if policy == "lag" else 5]
    tried = "Fewer subtasks are tried, since nothing has waited for 5 minutes."
    assert (tried in decision.reason) == (policy != "lag")
    assert "parse: its busy time is not reported" in decision.reason
    assert "metrics alone for Java clients (poll idle ratio), metrics and busy for a counter of seconds." in decision.reason
    assert "close enough" not in decision.reason
    assert "score better" not in decision.reason
