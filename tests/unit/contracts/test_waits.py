"""How long records wait, from the figures of minutes: ages of what leaves, restarts, what is unknown, the last day of it all."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.waits import counted_waits, minutes_above, minutes_known
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import Float32, Window, decode_window, encode_window
from surescale.simulation.loops.rows import Arrivals
from tests.support.builders import JOB, row, topology

UNKNOWN = float("nan")


def of_source(came: float, waiting: float, taken: float | None = None, **figures: float) -> dict[str, Float32]:
    """Return the rows of a minute in which so many records came and were taken, and as many wait at the source at its end."""
    taken = came if taken is None else taken
    return {"source": row(records_in=taken, arrived=came, queued_records_last=waiting, **figures), "map": row(records_in=taken)}


def closed(minutes: list[dict[str, Float32]], job: JobTopology | None = None, length: int = 60) -> Window:
    """Return the window after these minutes, one after another."""
    kept = WindowHistory(JOB, length)
    for at, rows in enumerate(minutes, 1):
        window = kept.close(at * MINUTE_MS, rows, job or topology())
    return window


@given(
    came=st.lists(st.integers(1, 1_000), min_size=30, max_size=50),
    served=st.lists(st.integers(0, 1_000), min_size=50, max_size=50),
)
def test_the_wait_of_a_minute_is_the_age_of_what_leaves_next(came: list[int], served: list[int]) -> None:
    """As the simulator knows it from all arrivals, to the second, and never less."""
    waiting, inside, rows = 0.0, [], []
    for arrived, capacity in zip(came, served, strict=False):
        taken = min(waiting + arrived, capacity)
        waiting += arrived - taken
        inside.append(waiting)
        rows.append(of_source(arrived, waiting, taken))
    waits = dict(closed(rows).waits)
    ages = 60.0 * Arrivals.of(np.array(came)).ages(np.array([len(came)]), np.array([inside]))[0]
    for seconds in range(0, 3_600, 30):
        least, most = int((ages > seconds + 1e-3).sum()), int((ages > seconds - 1).sum())
        assert least <= minutes_above(tuple(waits.items()), seconds) <= most
    assert minutes_known(tuple(waits.items())) == len(came)


def test_an_unknown_queue_of_a_source_is_unknown_and_one_inside_counts_as_empty() -> None:
    """Sources hold what waits where an engine holds them back; of a silent minute nothing is known either."""
    assert closed([of_source(100.0, 0.0)]).waits == ((0, 1),)
    assert closed([of_source(100.0, UNKNOWN)]).waits == ()
    assert closed([{}, {"map": row()}]).waits == ()
    inside = of_source(100.0, 0.0) | {"map": row(records_in=100.0, queued_records_last=UNKNOWN)}
    assert closed([inside]).waits == ((0, 1),)


def test_branches_hold_copies_of_the_same_records() -> None:
    """Queues add up along the longest path only, each in records that came to the job."""
    tasks = (
        TaskSpec(task="source", scalable=False),
        TaskSpec(task="left", upstream=("source",)),
        TaskSpec(task="right", upstream=("source",)),
        TaskSpec(task="after", upstream=("left", "right")),
    )
    rows = {
        "source": row(records_in=60.0, arrived=60.0),
        "left": row(records_in=60.0, queued_records_last=20.0),
        "right": row(records_in=30.0, queued_records_last=15.0),
        "after": row(records_in=60.0, queued_records_last=10.0),
    }
    job = msgspec.structs.replace(topology(), tasks=tasks)
    assert closed([rows] * 3, job).waits[-1] == (40, 3)
    circle = msgspec.structs.replace(
        job, tasks=(tasks[0], msgspec.structs.replace(tasks[1], upstream=("source", "after")), *tasks[2:])
    )
    assert closed([rows] * 3, circle).waits == ()


def test_the_silent_minutes_of_a_restart_were_waited_through() -> None:
    """Once an attempt begins; a pause of whoever reports is no restart, and before the first attempt nothing waited."""
    steady, silent = of_source(100.0, 0.0), dict[str, Float32]()
    drained = of_source(100.0, 300.0, restarts=1.0)
    assert closed([steady, silent, silent, drained]).waits == ((0, 1), (60, 1), (120, 1), (180, 1))
    assert closed([steady, silent, silent, of_source(100.0, 0.0)]).waits == ((0, 2),)
    assert closed([silent, silent, of_source(100.0, 0.0, restarts=1.0)]).waits == ((0, 1),)
    untold = of_source(100.0, UNKNOWN, restarts=1.0)
    assert closed([steady, silent, untold]).waits == ((0, 1), (60, 1), (120, 1))
    assert closed([untold]).waits == ()


def test_a_backlog_older_than_the_window_and_one_to_which_nothing_comes_are_late() -> None:
    """The first is as old as the load lets it be, the second older than any bound."""
    assert closed([of_source(10.0, 10_000.0)] * 5).waits == ((60_000, 5),)
    assert closed([of_source(0.0, 5.0)] * 5).waits == ((86_400, 5),)


def test_the_last_day_counts_for_any_bound() -> None:
    """Whole hours but for the present one; the bound may be another at noon."""
    kept = WindowHistory(JOB, 3)
    for minute in range(1, 25 * 60 + 31):
        window = kept.close(minute * MINUTE_MS, of_source(60.0, 45.0 if minute <= 125 else 0.0), topology())
    assert window.waits == ((0, 23 * 60 + 25), (45, 5))
    early = closed([of_source(60.0, 45.0), of_source(60.0, 20.0), of_source(60.0, 0.0)])
    assert [minutes_above(early.waits, seconds) for seconds in (0.0, 19.9, 20.0, 44.0, 45.0)] == [2, 2, 1, 1, 0]


def test_waits_survive_their_bytes_and_absurd_ones_are_refused() -> None:
    """The smallest and the largest too."""
    window = replace(closed([of_source(60.0, 45.0)]), waits=((0, 1_400), (31, 2), (86_400, 1)))
    assert decode_window(encode_window(window)).waits == window.waits
    for waits in (((-1, 1),), ((0, 0),), ((86_401, 1),)):
        with pytest.raises(RecordRejected):
            decode_window(encode_window(replace(window, waits=waits)))


def test_waits_are_counted_in_whole_seconds_none_too_few() -> None:
    """A wait above a bound stays above it; unknown minutes are in none."""
    assert counted_waits(np.array([0.0, 29.2, 30.0, 30.2, UNKNOWN, 1e9])) == ((0, 1), (30, 2), (31, 1), (86_400, 1))
    assert counted_waits(np.full(3, UNKNOWN)) == ()
