"""Members that commit seldom, each at its time: they keep up, and their busy counters are not doubted for it."""

import random

import numpy as np
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, Saturation, TaskSpec
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.windows import FIGURE, Float32
from surescale.engines.kafka.positions import Answer, Extent, Partition, Positions


def learned(every: float, seed: int, *, worked: float = 1.0) -> tuple[Saturation, ...]:
    """Return what is remembered of a group after an hour and a half.

    Its members get through a share of what comes, and commit that about every so many minutes. Their counters show the same busy
    time each minute, whatever they get through.
    """
    drawn = random.Random(f"{every} {seed}")
    members, busy, rate = drawn.choice((3, 6, 12)), drawn.uniform(0.3, 0.85), drawn.choice((20, 100, 5_000))
    partitions = [("orders", number) for number in range(members)]
    due = [drawn.uniform(0.0, every) for _ in partitions]
    committed, positions = dict.fromkeys(partitions, 0), Positions()
    spec = TaskSpec(task="group", parallelism=members, max_parallelism=100, sharing_group="group", useful_max=members)
    topology = JobTopology(job="c/j", version=1, at_ms=1, tasks=(spec,), engine="kafka")
    rows, known = list[Float32](), tuple[Saturation, ...]()
    for minute in range(90):
        for number, each in enumerate(partitions):
            while due[number] <= minute:
                committed[each] = int(worked * rate * due[number])
                due[number] += every * drawn.uniform(0.9, 1.1)
        ends: dict[Partition, Extent] = dict.fromkeys(partitions, Extent(0, rate * minute))
        positions.look(Answer(ends), {"orders"}, minute * MINUTE_MS)
        positions.read(committed, minute * MINUTE_MS, busy_ms=busy * members * MINUTE_MS if minute else None)
        rows.append(_row(positions, members, busy))
        known = remembered(known, np.stack(rows[1:][-SEEN_MINUTES:]), topology, minute * MINUTE_MS) if minute else ()
    return known


def _row(positions: Positions, members: int, busy: float) -> Float32:
    row = np.full((1, len(FIGURE)), np.nan, dtype=np.float32)
    told = {
        "records_in": sum(positions.moved.values()),
        "arrived": sum(positions.arrived.values()),
        "queued_records_last": np.nan if positions.known is None else positions.known,
        "parallelism": members,
        "busy_ms": busy * members * MINUTE_MS,
        "busy_ms_max": busy * MINUTE_MS,
        "idle_ms": (1.0 - busy) * members * MINUTE_MS,
    }
    for name, value in told.items():
        row[0, FIGURE[name]] = value
    row[0, [FIGURE[name] for name in ("records_out", "backpressured_ms", "restarts")]] = 0.0
    return row


@pytest.mark.parametrize("every", [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])
def test_a_right_busy_counter_is_not_doubted(every: float) -> None:
    """What was not committed yet is no backlog, at whatever phase of the monitor's minutes."""
    assert [seed for seed in range(8) if learned(every, seed)] == []


@pytest.mark.parametrize("every", [0.1, 1.5, 3.0, 5.0])
def test_one_that_covers_a_part_of_the_work_is(every: float) -> None:
    """A fifth of what comes is left each minute, though the counter shows that there was time."""
    assert [seed for seed in range(4) if not learned(every, seed, worked=0.8)] == []
