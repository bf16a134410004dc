"""The newest minute of a job in the figures that people ask for first."""

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.summaries import TaskMinutes
from surescale.contracts.summing_up import header_of
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import Float32, Window
from tests.support.builders import JOB, row, topology


def window(**rows: Float32) -> Window:
    """Return a window of one minute of the chain source -> map -> sink."""
    return WindowHistory(JOB, 1).close(MINUTE_MS, rows, topology())


def test_each_task_is_shown_by_shares_of_its_own_time() -> None:
    """Two subtasks have two minutes a minute."""
    busy = row(records_in=600, parallelism=2, busy_ms=60_000, backpressured_ms=30_000, latency_record_ms=30_000)
    found = header_of(window(source=row(records_in=600), map=busy, sink=row())).tasks
    assert found.tasks == ("source", "map", "sink")
    assert (found.utilisation[1], found.backpressured[1], found.latency_ms[1], found.parallelism[1]) == (0.5, 0.25, 50.0, 2.0)


def test_a_task_that_nobody_reported_has_no_figure() -> None:
    """Null, not zero; and a job of such tasks has none either."""
    header = header_of(window())
    tasks, whole = header.tasks, header.summary.minute
    assert set(tasks.utilisation + tasks.records + tasks.backlog + tasks.parallelism) == {None}
    assert (whole.utilisation, whole.backlog, whole.latency_ms, whole.parallelism, whole.overloaded) == (None,) * 4 + (0,)


def test_half_of_the_subtasks_tell_for_all() -> None:
    """Figures of half of them are shares of half of the time."""
    found = header_of(window(map=row(parallelism=2, coverage=0.5, busy_ms=30_000))).tasks
    assert found.utilisation[1] == 0.5


def test_the_latency_of_a_job_is_that_of_its_slowest_path() -> None:
    """Sums along edges: the times of tasks one behind the other add up."""
    rows = {
        name: row(records_in=10, latency_record_ms=10 * took_ms)
        for name, took_ms in {"source": 1, "map": 20, "sink": 300}.items()
    }
    assert header_of(window(**rows)).summary.minute.latency_ms == 321.0


@pytest.mark.parametrize(
    ("figures", "overloaded"),
    [
        ({"busy_ms": 118_000.0}, 0),
        ({"busy_ms": 119_000.0}, 1),
        ({"queued_records_last": 1_200.0}, 0),
        ({"queued_records_last": 1_201.0}, 1),
    ],
)
def test_a_task_is_overloaded_when_it_is_always_busy_or_two_minutes_behind(figures: dict[str, float], overloaded: int) -> None:
    """Of the job's scalable tasks."""
    minute = header_of(window(map=row(records_in=600, parallelism=2, **figures))).summary.minute
    assert minute.overloaded == overloaded


def test_columns_of_unequal_length_are_refused() -> None:
    """They may come from any producer."""
    with pytest.raises(ValueError, match="unequal"):
        TaskMinutes(
            tasks=("a", "b"), backlog=(), backpressured=(None,), latency_ms=(), parallelism=(), ran=(), records=(), utilisation=()
        )


def test_a_job_that_is_down_did_not_run() -> None:
    """An engine accounts for all the time in which a subtask runs, so a job without any accounted time was down."""
    down = header_of(window(map=row(parallelism=2, queued_records_last=600))).summary.minute
    back = header_of(window(map=row(parallelism=2, busy_ms=60_000, idle_ms=30_000))).summary.minute
    unknown = header_of(window(map=row(parallelism=2, idle_ms=float("nan")))).summary.minute
    assert (down.ran, back.ran, unknown.ran) == (0.0, 0.75, None)
