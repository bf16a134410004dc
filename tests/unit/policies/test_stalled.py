"""Busy minutes in which nothing gets through: an outage tells nothing of what a record costs; long records and late counts do."""

import numpy as np
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.policies.answer import Float64
from surescale.policies.registry import load_policy
from surescale.policies.stalled import stalled
from tests.support.dealt_loop import Cell, run

OUTAGE = range(120, 180)
HOUR = 60
SIZE = 4


def found(into: Float64, *, out: float = 0.0, busy: Float64 | float = 1.0) -> list[int]:
    """Return the stalled minutes of one task with so many records by minute, busy for a share of its time."""
    busy_ms = np.broadcast_to(busy, into.shape) * SIZE * MINUTE_MS
    columns = (into, np.full_like(into, out), busy_ms, np.full_like(into, SIZE))
    minutes = stalled(*(each[:, None] for each in columns))
    return [] if minutes is None else np.flatnonzero(minutes[:, 0]).tolist()


def out_between(begin: int, end: int) -> Float64:
    """Return an hour of 100 records a minute with an outage."""
    into = np.full(HOUR, 100.0)
    into[begin:end] = 0.0
    return into


@pytest.mark.parametrize("engine", ["kafka", "flink"])
@pytest.mark.parametrize(("name", "most"), [("target-utilisation", 15), ("forecast", 15), ("flink", 15), ("sure", 20)])
def test_a_job_is_not_sized_for_the_time_that_an_outage_took(engine: str, name: str, most: int) -> None:
    """4 subtasks' load, down for an hour: 240 subtask-minutes wait, and no record costs more than before."""
    cell = Cell(engine, 60, 4.0, 0.02, begin=6, seed=1, outage=OUTAGE)
    course = run(cell, load_policy(name), OUTAGE.stop + 2 * HOUR)
    assert max(course.sizes) <= most
    assert course.waiting[-1] < 1_000, "caught up"
    assert course.sizes[-1] <= 10, "and what was for the outage is given back"


@pytest.mark.parametrize("name", ["target-utilisation", "sure"])
def test_short_outages_that_come_back_cost_capacity(name: str) -> None:
    """Five minutes in each thirty leave 5 subtasks 4.2 busy ones' time for 4: most of the time they were behind."""
    outages = {minute for minute in range(OUTAGE.start, 480) if minute % 30 < 5}
    course = run(Cell("kafka", 60, 4.0, 0.02, begin=5, seed=1, outage=outages), load_policy(name), 480)
    assert max(course.sizes[: OUTAGE.start + HOUR]) > 6
    assert len(course.rescales) <= 2
    assert max(course.sizes) <= 10


def test_an_outage_is_found_once_it_is_over_and_while_it_lasts_long() -> None:
    """Up to ten minutes may be work that shows with the next commit."""
    assert found(out_between(20, 40)) == list(range(20, 40))
    assert found(out_between(51, HOUR)) == []
    assert found(out_between(49, HOUR)) == list(range(49, HOUR))


def test_short_outages_that_come_back_are_part_of_what_a_record_costs() -> None:
    """Unless one of them is long."""
    twice, long = out_between(10, 15), out_between(5, 16)
    twice[40:45] = long[40:45] = 0.0
    assert found(twice) == []
    assert found(long) == [*range(5, 16), *range(40, 45)]


def test_work_that_is_counted_late_is_no_outage() -> None:
    """Commits every five minutes, or over two minutes after four; and one that comes twenty minutes late."""
    wave, double = np.tile([0.0, 0.0, 0.0, 0.0, 500.0], 12), np.tile([0.0, 0.0, 0.0, 0.0, 300.0, 300.0], 10)
    late = out_between(20, 40)
    late[40] = 2_100.0
    assert found(wave) == found(double) == found(late) == []


def test_long_records_are_work() -> None:
    """Of records that take each subtask ten minutes, none ends in most minutes."""
    drawn = np.random.default_rng(3).poisson(SIZE / 10, HOUR).astype(np.float64)
    assert (drawn == 0).sum() > 30
    assert found(drawn) == []


def test_a_task_that_emits_or_rests_does_not_stall() -> None:
    """A window that fires takes nothing in for a while. Without work there is nothing to wait for."""
    assert found(out_between(20, 40), out=7.0) == []
    assert found(out_between(20, 40), busy=0.4) == []


def test_nothing_else_to_go_by_is_no_outage() -> None:
    """Without a record in any minute nobody knows how many the time is worth; unknown figures say nothing."""
    assert found(np.zeros(HOUR)) == []
    assert found(np.full(HOUR, np.nan)) == []


def test_each_job_and_task_of_a_batch_is_seen_by_itself() -> None:
    """As one by one."""
    rows = np.stack([out_between(20, 40), out_between(0, 0), out_between(5, 50)])
    batch = np.stack([rows, rows[::-1]]).swapaxes(1, 2)  # [B, L, N]
    busy, sizes = np.full_like(batch, SIZE * MINUTE_MS), np.full_like(batch, SIZE)
    minutes = stalled(batch, np.zeros_like(batch), busy, sizes)
    assert minutes is not None
    for of_job, seen in zip((rows, rows[::-1]), minutes, strict=True):
        assert [np.flatnonzero(each).tolist() for each in seen.T] == [found(each) for each in of_job]
