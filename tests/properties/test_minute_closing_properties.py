"""What a job's windows may depend on: its own records in their order, and nothing else."""

import itertools
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.windows import FIGURE, Window, encode_window
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from surescale.spark_streaming.places import place_of
from tests.support.record_columns import records_of
from tests.support.spark_states import Saved, StateStore
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, graph, marker, sample, spec

JOBS = ("sim/a", "sim/b", "sim/c")
TASKS = ("map", "sink")
Message = TaskSample | MinuteMarker
Appended = tuple[Coordinates, Message]


@st.composite
def job_records(draw: st.DrawFn, job: str) -> list[Message]:
    """Return a job's life: samples with growing counters, restarts, stragglers, silent subtasks, markers with gaps."""
    topology = graph(spec("map", parallelism=2), spec("sink", "map"), job=job)
    records: list[Message] = []
    attempt, count = 0, 0
    for minute in range(1, draw(st.integers(2, 6)) + 1):
        attempt += draw(st.booleans())
        for _ in range(draw(st.integers(0, 6))):
            count += draw(st.integers(0, 50))
            at_ms = minute * MINUTE - draw(st.sampled_from([0, 1, 15_000, 45_000, 59_999, 70_000, -4_000, -6_000]))
            task, subtask = draw(st.sampled_from([*TASKS, "ghost"])), draw(st.integers(0, 1))
            records.append(sample(max(at_ms, 1), count, job=job, task=task, subtask=subtask, attempt=attempt))
        if draw(st.booleans()):
            records.append(marker(minute, topology))
    return records


@st.composite
def pipelines(draw: st.DrawFn) -> list[Appended]:
    """Return the records of all jobs, interleaved in one partition."""
    left = [draw(job_records(job)) for job in JOBS]
    order = draw(st.permutations([index for index, records in enumerate(left) for _ in records]))
    queues = [iter(records) for records in left]
    return [(Coordinates(0, offset, 1_000 + offset), next(queues[index])) for offset, index in enumerate(order)]


def assemble(batches: Sequence[Sequence[Appended]], minutes: Minutes | None = None) -> dict[str, list[bytes]]:
    """Feed batches and return each job's windows, as bytes, in the order they came."""
    minutes = minutes or Minutes(RULES)
    found: dict[str, list[bytes]] = {job: [] for job in JOBS}
    for batch in batches:
        records = records_of(batch)
        for window in minutes.feed(records, np.full(len(batch), 2**52)).windows:
            found[window.job].append(encode_window(window))
    return found


def cut(pipeline: list[Appended], cuts: Sequence[int]) -> list[list[Appended]]:
    """Cut a pipeline into batches."""
    edges = [0, *sorted(min(at, len(pipeline)) for at in cuts), len(pipeline)]
    return [pipeline[begin:end] for begin, end in itertools.pairwise(edges)]


@given(pipelines(), st.lists(st.integers(0, 100), max_size=6))
def test_windows_do_not_depend_on_how_records_fell_into_batches(pipeline: list[Appended], cuts: list[int]) -> None:
    """One batch, any batches: the same bytes in the same order."""
    assert assemble(cut(pipeline, cuts)) == assemble([pipeline])


@given(pipelines())
def test_records_one_by_one_are_the_same_as_all_at_once(pipeline: list[Appended]) -> None:
    """The vectorised judgement of lateness equals the one record by record."""
    assert assemble([[record] for record in pipeline]) == assemble([pipeline])


@given(pipelines())
def test_a_jobs_windows_do_not_depend_on_other_jobs(pipeline: list[Appended]) -> None:
    """Alone in the pipeline, a job gets the same windows as among others."""
    among = assemble([pipeline])
    for job in JOBS:
        assert assemble([[record for record in pipeline if record[1].job == job]])[job] == among[job]


@given(pipelines(), st.data())
def test_duplicates_change_no_figure(pipeline: list[Appended], data: st.DataObject) -> None:
    """Records delivered again right behind themselves leave every figure as it was; only the counts tell."""
    again = data.draw(st.sets(st.integers(0, max(len(pipeline) - 1, 0))))
    doubled = [each for index, record in enumerate(pipeline) for each in [record] * (2 if index in again else 1)]
    plain, repeated = figures([pipeline]), figures([doubled])
    assert plain == repeated


@given(pipelines(), st.lists(st.integers(0, 100), min_size=1, max_size=3))
def test_windows_do_not_depend_on_restarts(pipeline: list[Appended], cuts: list[int]) -> None:
    """State saved and loaded between any two batches changes nothing."""
    expected = assemble([pipeline])
    with TemporaryDirectory() as folder:
        store = StateStore(place_of(folder), RULES)
        found: dict[str, list[bytes]] = {job: [] for job in JOBS}
        for number, batch in enumerate(cut(pipeline, cuts)):
            minutes = store.load().minutes
            for job, windows in assemble([batch], minutes).items():
                found[job] += windows
            store.save(Saved(number, minutes, {0: number + 1}))
    assert found == expected


@given(
    st.lists(st.lists(st.integers(0, 1_000), min_size=1, max_size=4), min_size=1, max_size=5), st.sampled_from([20_000, 25_000])
)
def test_nothing_that_was_counted_is_lost_or_counted_twice(attempts: list[list[int]], step_ms: int) -> None:
    """Figures times the time they cover sum to the last values of all attempts, wherever minutes and restarts fall.

    Samples go on to the end of the last minute: one seen for less than half of it would be unknown.
    """
    records: list[Message] = []
    at_ms = 0
    for attempt, growth in enumerate(attempts):
        for total in np.cumsum(growth).tolist():
            at_ms += step_ms
            records.append(sample(at_ms, total, attempt=attempt))
    end = -(-at_ms // MINUTE)
    if at_ms < end * MINUTE:
        records.append(sample(end * MINUTE, sum(attempts[-1]), attempt=len(attempts) - 1))
    closed = [marker(minute) for minute in range(1, end + 1)]
    timed = sorted(records + closed, key=in_time)
    rules = MinuteRules(window_minutes=60)
    appended = [(Coordinates(0, offset, offset), record) for offset, record in enumerate(timed)]
    windows = Minutes(rules).feed(records_of(appended), np.full(len(appended), 2**52)).windows
    figures = windows[-1].figures[:, 0].astype(np.float64)
    counted = np.nansum(figures[:, FIGURE["records_in"]] * figures[:, FIGURE["covered_ms"]] / MINUTE)
    assert counted == pytest.approx(sum(map(sum, attempts)), rel=1e-6)


def in_time(record: Message) -> tuple[int, bool]:
    """Sort by event time, a marker behind the samples of its minute."""
    if isinstance(record, MinuteMarker):
        return record.minute_end_ms, True
    return record.sampled_at_ms, False


def figures(batches: Sequence[Sequence[Appended]]) -> list[tuple[str, int, bytes]]:
    """Return the figures of all windows without their counts."""
    minutes = Minutes(RULES)
    windows: list[Window] = []
    for batch in batches:
        windows += minutes.feed(records_of(batch), np.full(len(batch), 2**52)).windows
    return [(window.job, window.window_end_ms, window.figures.tobytes()) for window in windows]
