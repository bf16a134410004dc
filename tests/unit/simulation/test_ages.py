"""How old the records are that leave a job."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_settings import LatencyBound
from surescale.simulation.loops.rows import Arrivals, LoopRows
from surescale.simulation.loops.terms import Terms
from tests.unit.simulation.evaluation.cases import DAY, setting, wave

LOADS = st.lists(st.integers(1, 1_000), min_size=5, max_size=40)


@given(loads=LOADS, data=st.data())
def test_an_age_is_how_long_ago_the_arrivals_began_that_are_inside(loads: list[int], data: st.DataObject) -> None:
    """The records of the last k minutes inside: the oldest of them came k minutes ago, also where the workload begins again."""
    requests, end = np.array(loads, dtype=np.int64), data.draw(st.integers(1, len(loads)))
    back = data.draw(st.integers(0, len(loads) - 1))
    inside = float(sum(loads[(end - 1 - at) % len(loads)] for at in range(back)))
    found = Arrivals.of(requests).ages(np.array([end]), np.array([[inside]]))
    assert found[0, 0] == pytest.approx(back, abs=1e-6)


def test_nobody_waits_in_an_empty_job() -> None:
    """Not even after minutes in which nothing came."""
    arrivals = Arrivals.of(np.array([5, 0, 0, 0], dtype=np.int64))
    assert arrivals.ages(np.array([4]), np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


def test_minutes_above_a_bound_are_those_of_a_restart_and_its_backlog() -> None:
    """A restart of five minutes: nobody waits longer before it, then everybody does until the backlog is worked off."""
    here = setting(wave(1), runs=1)
    bound = LatencyBound(seconds=120.0)
    terms = Terms(restart_ms=5 * 60_000, span_minutes=10, latency_bound=bound)
    wide, narrow = (here.job.within_limits(np.full(here.job.size, size)) for size in (10, 9))
    rows = LoopRows(here.job, here.workload, np.array([DAY // 2]), wide[None], terms)
    late = []
    for sizes in (wide, narrow, *[narrow] * 30):
        counted = rows.step(sizes[None]).late_minutes
        assert counted is not None
        late.append(counted[0])
    assert (late[0], late[-1]) == (0.0, 0.0)
    assert late[1] >= 7.0  # ten minutes, less the one before the restart and the first two of it
