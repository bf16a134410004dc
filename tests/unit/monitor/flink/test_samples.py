"""Flink's counters as samples, dated by the time for which they ran."""

from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.messages import TaskSpec
from engines.flink.answers import IoMetrics, Subtask, VertexDetail
from monitor.sources.flink.samples import Starts, samples_of

JOB, ATTEMPT, NOW = "flink/orders", 7_000, 1_000_000
PARSE = TaskSpec(task="parse", upstream=("source",))
SOURCE = TaskSpec(task="source")


def metrics(**changes: object) -> IoMetrics:
    """Return complete figures."""
    complete = dict.fromkeys(
        ("read_records_complete", "write_records_complete", "read_bytes_complete", "write_bytes_complete"), True
    )
    counters = {"read_records": 10, "write_records": 20, "read_bytes": 30, "write_bytes": 40}
    clocks = {"accumulated_busy_time": 300.0, "accumulated_idle_time": 600, "accumulated_backpressured_time": 100}
    return IoMetrics(**(complete | counters | clocks | changes))  # type: ignore[arg-type]


def vertex(*subtasks: Subtask) -> VertexDetail:
    """Return a vertex."""
    return VertexDetail(id="parse", name="parse", parallelism=max(1, len(subtasks)), now=NOW, subtasks=subtasks)


def running(number: int, figures: IoMetrics, status: str = "RUNNING") -> Subtask:
    """Return a subtask."""
    return Subtask(subtask=number, status=status, metrics=figures)


def test_counters_become_a_sample() -> None:
    """All of them, of each subtask, under one number of the execution graph."""
    (sample,) = samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, metrics())), Starts(), NOW)
    assert (sample.records_in, sample.records_out, sample.bytes_in, sample.bytes_out) == (10, 20, 30, 40)
    assert (sample.busy_ms, sample.idle_ms, sample.backpressured_ms) == (300, 600, 100)
    assert (sample.attempt, sample.sampled_at_ms, sample.as_of_ms, sample.queued_records) == (ATTEMPT, NOW, NOW, None)
    assert [(each.task, each.records) for each in sample.received] == [("source", 10)]


def test_what_flink_has_not_fetched_is_no_sample() -> None:
    """The first answer ever has zeros everywhere; a subtask that starts has none."""
    missing, starting = metrics(read_records=0, read_records_complete=False), running(1, metrics(), "INITIALIZING")
    assert samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, missing), starting), Starts(), NOW) == []


def test_not_a_number_is_unknown() -> None:
    """A legacy source does not know when it is busy, so its figures cannot be dated either."""
    figures = metrics(accumulated_busy_time="NaN")
    (sample,) = samples_of(JOB, ATTEMPT, SOURCE, vertex(running(0, figures)), Starts(), NOW)
    assert (sample.busy_ms, sample.idle_ms, sample.as_of_ms) == (None, 600, None)


def test_a_source_that_counts_no_input_let_in_what_it_wrote() -> None:
    """Of a task in the middle, nothing read means nothing came."""
    figures = metrics(read_records=0)
    (source,) = samples_of(JOB, ATTEMPT, SOURCE, vertex(running(0, figures)), Starts(), NOW)
    (inner,) = samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, figures)), Starts(), NOW)
    assert (source.records_in, inner.records_in) == (20, 0)


def test_the_same_figures_given_again_are_as_old_as_they_are() -> None:
    """Flink has not fetched since."""
    starts = Starts()
    asked = [
        samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, metrics())), starts, NOW + later_ms)[0].as_of_ms
        for later_ms in (0, 4_000, 9_000)
    ]
    assert asked == [NOW, NOW, NOW]


def test_busy_time_does_not_fall() -> None:
    """Flink's falls by a tenth of a second now and then, which a reader would take for a fresh start."""
    starts = Starts()
    seen = [
        samples_of(JOB, attempt, PARSE, vertex(running(0, metrics(accumulated_busy_time=busy))), starts, NOW)[0].busy_ms
        for attempt, busy in ((1, 2_412.0), (1, 2_230.0), (1, 2_500.0), (2, 3.0))
    ]
    assert seen == [2_412, 2_412, 2_500, 3]


def test_of_a_subtask_that_restarts_only_the_last_start_is_remembered() -> None:
    """Another scheduler restarts subtasks within one graph, perhaps for days; their clocks begin at 0 each time."""
    starts, seen = Starts(), []
    for own_attempt in range(3):
        restarted = msgspec.structs.replace(running(0, metrics(accumulated_busy_time=300.0 - own_attempt)), attempt=own_attempt)
        (sample,) = samples_of(JOB, ATTEMPT, PARSE, vertex(restarted), starts, NOW + own_attempt * 60_000)
        seen.append((sample.busy_ms, sample.as_of_ms))
    assert seen == [(300, NOW), (299, NOW + 60_000), (298, NOW + 120_000)]
    assert len(starts._runs) == 1


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 10_000)), min_size=2, max_size=30))
def test_the_time_that_figures_cover_is_told_exactly_once_a_fresh_one_was_seen(
    started_ms: int, looks: list[tuple[int, int]]
) -> None:
    """Whatever their age: from the first fresh look on, two figures are as far apart as their times."""
    starts, now_ms, fetched_ms = Starts(), started_ms + 10_000, started_ms
    true, told = [], []
    for passed_ms, age_ms in [(0, 0), *looks]:
        now_ms += passed_ms
        fetched_ms = max(fetched_ms, now_ms - age_ms)
        as_of_ms = starts.as_of_ms(1, ("parse", 0, 0), fetched_ms - started_ms, now_ms)
        assert as_of_ms is not None
        true.append(fetched_ms)
        told.append(as_of_ms)
    assert [late - early for early, late in pairwise(told)] == [late - early for early, late in pairwise(true)]
