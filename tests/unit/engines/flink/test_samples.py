"""Flink's counters as samples, dated by the time for which they ran."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.messages import Input, TaskSample, TaskSpec
from surescale.engines.flink.answers import IoMetrics, Metric, Subtask, VertexDetail
from surescale.engines.flink.samples import (
    APART_MS_MAX,
    Restored,
    Starts,
    entered_through,
    is_whole,
    operators_named,
    samples_of,
    says_nothing,
    with_entered,
    with_queues,
)

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


@pytest.mark.parametrize("unusable", ["NaN", "Infinity", -1, 1e300, None])
@pytest.mark.parametrize("name", ["read_records", "write_records", "read_bytes", "write_bytes"])
def test_a_subtask_with_a_counter_that_cannot_be_used_has_no_sample(name: str, unusable: object) -> None:
    """Counted as 0, the next minute would be a burst of all that it ever read."""
    assert samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, metrics(**{name: unusable}))), Starts(), NOW) == []


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


ALONE = TaskSpec(task="alone")
IDLE = {"read_records": 0, "write_records": 0, "accumulated_busy_time": 5.0, "accumulated_idle_time": 995}
BUSY = IDLE | {"accumulated_busy_time": 950.0, "accumulated_idle_time": 50}


@pytest.mark.parametrize(
    ("figures", "asks"),
    [
        (BUSY, True),
        (IDLE, False),
        (BUSY | {"accumulated_busy_time": "NaN"}, True),
        (BUSY | {"write_records": 1}, False),
        (BUSY | {"read_records": 1}, False),
    ],
)
def test_a_source_that_works_and_counts_nothing_says_nothing(figures: dict[str, object], asks: bool) -> None:
    """It exchanges no record with another vertex; one that only waits has nothing to say."""
    own = samples_of(JOB, ATTEMPT, ALONE, vertex(running(0, metrics(**figures))), Starts(), NOW)
    assert says_nothing(own) is asks


def test_what_entered_is_what_each_source_operator_read_or_else_emitted() -> None:
    """Operators behind them, and rates, are left out: a record counts once."""
    names = (
        "Source__a.numRecordsIn", "Source__a.numRecordsOut", "Source__b.numRecordsIn", "Source__b.numRecordsOut",
        "work.numRecordsIn", "numRecordsIn", "Source__a.numRecordsInPerSecond", "Source__a.b.numRecordsOutErrors",
    )  # fmt: skip
    assert set(operators_named(names)) == set(names[:4])
    counts = dict(zip(names, (0, 7, 5, 9, 100, 100, 3, 1), strict=True))
    told = {name: Metric(id=name, sum=float(count)) for name, count in counts.items()}
    assert entered_through(told) == 12
    assert entered_through(told | {"Source__b.numRecordsIn": Metric(id="Source__b.numRecordsIn", sum="NaN")}) is None


@given(st.lists(st.integers(0, 1_000), min_size=2, max_size=9), st.integers(1, 5))
def test_what_entered_is_shared_out_and_never_falls(grown: list[int], subtasks: int) -> None:
    """A counter that fell would look like a restart."""
    own = samples_of(JOB, ATTEMPT, ALONE, vertex(*(running(at, metrics(**BUSY)) for at in range(subtasks))), Starts(), NOW)
    looks = [[each.records_in for each in with_entered(own, sum(grown[:at]))] for at in range(len(grown))]
    assert [sum(look) for look in looks] == [sum(grown[:at]) for at in range(len(grown))]
    assert all(before <= after for early, late in pairwise(looks) for before, after in zip(early, late, strict=True))


def test_the_same_figures_given_again_are_as_old_as_they_are() -> None:
    """Flink has not fetched since."""
    starts = Starts()
    asked = [
        samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, metrics())), starts, NOW + later_ms)[0].as_of_ms
        for later_ms in (0, 4_000, 9_000)
    ]
    assert asked == [NOW, NOW, NOW]


def test_subtasks_that_have_read_all_their_input_rest_while_the_others_go_on() -> None:
    """Those of a bounded source end one by one: the task is whole, and not one of which a part is silent."""
    starts, seen = Starts(), []
    for minute in range(3):
        going = metrics(read_records=10 + 60 * minute, accumulated_idle_time=600 + 60_000 * minute)
        ended = running(1, metrics(), "FINISHED" if minute else "RUNNING")
        found = samples_of(JOB, ATTEMPT, PARSE, vertex(running(0, going), ended), starts, NOW + 60_000 * minute)
        assert is_whole(found)
        seen.append(found[1])
    assert [(each.records_in, each.busy_ms, each.idle_ms) for each in seen] == [
        (10, 300, 600 + 60_000 * minute) for minute in range(3)
    ]
    assert [each.as_of_ms for each in seen] == [NOW, NOW + 60_000, NOW + 120_000]


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


def counted(
    task: str, *subtasks: tuple[int, int], parallelism: int | None = None, as_of_ms: int | None = NOW
) -> list[TaskSample]:
    """Return samples of a task whose subtasks took in and sent so many records."""
    return [
        TaskSample(
            job=JOB, task=task, subtask=number, attempt=ATTEMPT, sampled_at_ms=NOW, records_in=took, records_out=sent,
            bytes_in=0, bytes_out=0, busy_ms=0, idle_ms=0, backpressured_ms=0, queued_records=None,
            parallelism=parallelism or len(subtasks), as_of_ms=as_of_ms,
        )
        for number, (took, sent) in enumerate(subtasks)
    ]  # fmt: skip


def queues(tasks: list[TaskSpec], *samples: list[TaskSample]) -> dict[str, list[int | None]]:
    """Return what waits for each subtask, by task."""
    found: dict[str, list[int | None]] = {}
    for sample in with_queues({each[0].task: each for each in samples if each}, tasks):
        found.setdefault(sample.task, []).append(sample.queued_records)
    return found


COUNT = TaskSpec(task="count", upstream=("parse",))
CHAIN = [SOURCE, PARSE, COUNT]


def test_what_was_sent_and_not_taken_in_waits() -> None:
    """The sum over a task's subtasks is right, however it is split among them; a source's queue is not between tasks."""
    source, parse, count = (
        counted("source", (100, 100)),
        counted("parse", (50, 45), (40, 35)),
        counted("count", (20, 20), (30, 30)),
    )
    assert queues(CHAIN, source, parse, count) == {"source": [None], "parse": [10, 0], "count": [30, 0]}


def test_two_tasks_before_one_are_added_up() -> None:
    """As long as neither sends to another one too."""
    tasks = [SOURCE, TaskSpec(task="other"), TaskSpec(task="join", upstream=("source", "other"))]
    samples = counted("source", (70, 70)), counted("other", (30, 30)), counted("join", (90, 0))
    assert queues(tasks, *samples)["join"] == [10]


def test_a_task_that_sends_to_two_tells_of_neither() -> None:
    """Flink counts what it sends over both edges together."""
    tasks = [SOURCE, PARSE, TaskSpec(task="late", upstream=("source",))]
    found = queues(tasks, counted("source", (100, 200)), counted("parse", (90, 90)), counted("late", (90, 90)))
    assert found == {"source": [None], "parse": [None], "late": [None]}


def test_a_record_that_goes_to_each_subtask_is_not_counted() -> None:
    """Of a broadcast edge more comes than was sent."""
    told = TaskSpec(task="parse", upstream=("source",), inputs=(Input(task="source", ship="broadcast"),))
    assert queues([SOURCE, told], counted("source", (100, 100)), counted("parse", (50, 0), (40, 0)))["parse"] == [None, None]


def test_what_a_checkpoint_restored_in_flight_is_no_negative_number() -> None:
    """It was sent before the counters began."""
    assert queues([SOURCE, PARSE], counted("source", (10, 10)), counted("parse", (15, 15)))["parse"] == [0]


def test_a_subtask_without_figures_or_figures_of_two_times_say_nothing() -> None:
    """What was sent between two fetches would seem to wait."""
    source = counted("source", (100, 100))
    assert queues([SOURCE, PARSE], source, counted("parse", (50, 50), parallelism=2))["parse"] == [None]
    assert queues([SOURCE, PARSE], counted("source", (100, 100), parallelism=2), counted("parse", (50, 50)))["parse"] == [None]
    assert queues([SOURCE, PARSE], [], counted("parse", (50, 50)))["parse"] == [None]
    assert queues([SOURCE, PARSE], source, counted("parse", (50, 50), as_of_ms=None))["parse"] == [None]
    for apart, expected in ((APART_MS_MAX, 50), (APART_MS_MAX + 1, None)):
        assert queues([SOURCE, PARSE], source, counted("parse", (50, 50), as_of_ms=NOW - apart))["parse"] == [expected]


def test_records_that_were_restored_in_flight_show_once_the_task_has_caught_up() -> None:
    """In a graph that began with 1,000 of them on their way; the next graph begins with as many as it does."""
    restored, found = Restored(), []
    for sent, taken in ((100, 50), (500, 1_100), (900, 1_900), (4_000, 2_000)):
        parse = with_queues(
            {"source": counted("source", (sent, sent)), "parse": counted("parse", (taken, taken))}, CHAIN, restored
        )
        found.append(sum(each.queued_records or 0 for each in parse if each.task == "parse"))
    assert found == [50, 0, 0, 3_000], "least, as far as has shown; the last one is exact"
    assert restored.waiting(ATTEMPT + 1, "parse", 10, 4) == 6


@given(restored=st.integers(0, 500), steps=st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1)), max_size=20))
def test_with_unaligned_checkpoints_never_too_many_wait_and_at_least_what_aligned_ones_would_show(
    restored: int, steps: list[tuple[int, float]]
) -> None:
    """Whatever is sent and taken in meanwhile; exact from the moment in which nothing waited."""
    known, sent, taken, was_empty = Restored(), 0, 0, not restored
    for more, share in steps:
        sent += more
        taken += int(share * (restored + sent - taken))
        truth = restored + sent - taken
        was_empty = was_empty or not truth
        found = known.waiting(1, "parse", sent, taken)
        assert max(0, sent - taken) <= found <= truth
        assert found == truth or not was_empty
