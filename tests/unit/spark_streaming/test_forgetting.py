"""Jobs that leave: what is kept of them, and what they find when they come back."""

from dataclasses import replace
from pathlib import Path

import pytest

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.windows import encode_window
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import place_of
from tests.support.record_columns import records_of
from tests.support.spark_states import Saved, StateStore
from tests.unit.spark_streaming.pipeline import JOB, MINUTE, RULES, graph, marker, no_clock, sample

FORGETFUL = replace(RULES, forget_job_after_ms=1_000)
OTHER = "sim/other"
Message = TaskSample | MinuteMarker


def batch(minutes: Minutes, *appended: tuple[int, Message], partition: int = 0) -> list[tuple[str, int]]:
    """Feed records that the broker took at these times; return (job, minute) of the windows."""
    records = records_of([(Coordinates(partition, at_ms, at_ms), message) for at_ms, message in appended])
    return [(window.job, window.window_end_ms // MINUTE) for window in minutes.feed(records, no_clock(records)).windows]


def one_minute(minutes: Minutes) -> None:
    """Give the job a minute that closed at broker time 1."""
    batch(minutes, (0, sample(MINUTE, 5)), (1, marker(1)))


def test_a_silent_jobs_state_goes_when_its_partition_goes_on() -> None:
    """Only the end of its last closed minute stays."""
    minutes = Minutes(FORGETFUL)
    one_minute(minutes)
    batch(minutes, (1_002, marker(1, graph(job=OTHER))))
    assert (set(minutes.jobs), minutes.left) == ({OTHER}, {JOB: MINUTE})


def test_another_partition_that_is_further_on_forgets_nobody() -> None:
    """After a stop partitions are read unevenly; the job's next records may only be waiting."""
    minutes = Minutes(FORGETFUL)
    one_minute(minutes)
    batch(minutes, (5_000, marker(1, graph(job=OTHER))), partition=1)
    assert set(minutes.jobs) == {JOB, OTHER}


def test_a_job_that_comes_back_begins_anew_and_its_old_minutes_stay_closed() -> None:
    """No windows for the time between, and a minute that was closed before is late for good."""
    minutes = Minutes(FORGETFUL)
    one_minute(minutes)
    found = batch(minutes, (2_000, sample(MINUTE, 5)), (2_001, marker(1)), (2_002, sample(90 * MINUTE, 9)), (2_003, marker(90)))
    assert found == [(JOB, 90)]
    assert minutes.left == {}


@pytest.mark.parametrize("is_freed_before", [False, True])
def test_windows_do_not_depend_on_when_the_memory_was_freed(is_freed_before: bool) -> None:
    """Silence in the job's own records decides; the partition's other records only free what is not needed any more."""
    minutes = Minutes(FORGETFUL)
    one_minute(minutes)
    if is_freed_before:
        batch(minutes, (1_500, marker(1, graph(job=OTHER))))
    records = records_of([(Coordinates(0, at, at), each) for at, each in ((2_000, sample(3 * MINUTE, 9)), (2_001, marker(3)))])
    (window,) = minutes.feed(records, no_clock(records)).windows
    assert window.minutes_known == 1
    alone = Minutes(FORGETFUL).feed(records, no_clock(records)).windows[0]
    assert encode_window(window) == encode_window(alone)


def test_what_was_forgotten_stays_so_after_a_restart(tmp_path: Path) -> None:
    """A job that came back within a window's length does not find its old rows in the files again."""
    store = StateStore(place_of(str(tmp_path)), FORGETFUL)
    minutes = store.load().minutes
    one_minute(minutes)
    store.save(Saved(0, minutes, {}))
    batch(minutes, (2_000, sample(2 * MINUTE, 9)), (2_001, marker(2)))
    store.save(Saved(1, minutes, {}))
    again = StateStore(place_of(str(tmp_path)), FORGETFUL).load().minutes
    assert list(again.jobs[JOB].history.rows) == list(minutes.jobs[JOB].history.rows) == [2 * MINUTE]
    assert (again.jobs[JOB].left_ms, again.jobs[JOB].seen_ms) == (MINUTE, 2_001)
