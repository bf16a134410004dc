"""What a bound on latency asks of plans and rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec.structs import replace

from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.policies.decide import decide
from surescale.policies.graph import job_graph
from surescale.policies.latency_bound import BUSY_MOST, Bound, busy_most, path_minutes, price_of
from surescale.policies.measure import measure
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.rules.reading import Reading
from surescale.policies.sure.planning_input import with_bound, with_restart
from surescale.policies.sure.queue_delay import waiting_by_bursts, waiting_by_surges
from tests.support.planned import PLANNING, expecting, planned
from tests.unit.policies.conftest import branching_window

LOADS = arrays.arrays(np.float64, (3, 60), elements=st.integers(0, 10**6).map(float))
SHARES = st.floats(0.0001, 0.5)


@given(share=SHARES, less=st.floats(0.01, 0.99))
def test_a_smaller_share_has_a_higher_price(share: float, less: float) -> None:
    """All the way down."""
    assert price_of(max(0.0001, share * less)) >= price_of(share) > 0.0


@given(
    seconds=st.floats(1.0, 600.0), path=st.floats(0.0, 20.0), waits=arrays.arrays(np.float64, 8, elements=st.floats(0.0, 60.0))
)
def test_a_longer_wait_never_counts_less(seconds: float, path: float, waits: np.ndarray) -> None:
    """From nothing to a whole minute, and the work on a record itself uses up part of the bound."""
    bound = Bound.of(LatencyBound(seconds=seconds), path)
    counted = bound.above(np.sort(waits))
    assert (np.diff(counted) >= 0).all()
    assert ((counted >= 0) & (counted <= 1)).all()
    assert 0 < bound.minutes <= seconds / 60.0
    assert bound.above(np.array([0.0, 2.0 * bound.minutes])).tolist() == [0.0, 1.0]


@given(load=LOADS, share=SHARES, seconds=st.floats(1.0, 1200.0))
def test_room_is_left_for_the_stretches_that_have_to_fit(load: np.ndarray, share: float, seconds: float) -> None:
    """At most ``share`` of the stretches come to more than a capacity of mean / busy; unknown minutes are left out."""
    load[:, ::7] = np.nan
    minutes = int(np.clip(round(seconds / 60.0), 1, 10))
    for own, busy in zip(load, busy_most(load, LatencyBound(seconds=seconds, share=share)), strict=True):
        if not np.nansum(own):
            continue
        capacity = BUSY_MOST * np.nanmean(own) / busy
        stretches = [own[at : at + minutes] for at in range(60 - minutes + 1)]
        means = [float(np.nanmean(each)) for each in stretches if not np.isnan(each).all()]
        assert np.mean(np.array(means) > capacity * (1 + 1e-9) + 1e-9) <= share + 1e-9


def test_an_even_load_leaves_a_little_room_and_no_load_says_nothing() -> None:
    """Also where a bound is longer than the window."""
    assert busy_most(np.full(60, 100.0), LatencyBound(seconds=3_600.0)) == pytest.approx(BUSY_MOST)
    assert np.isnan(busy_most(np.zeros(60), LatencyBound(seconds=30.0)))


def test_delays_under_a_bound_count_minutes_above_it() -> None:
    """No surge and no burst cost nothing; a burst costs more under a tighter bound, and more the busier the job is."""
    uneven = np.ones((1, 60))
    uneven[0, ::10] = 4.0
    uneven /= uneven.mean()
    loose, tight = (Bound.of(LatencyBound(seconds=seconds), 0.0) for seconds in (600.0, 10.0))
    curves = [waiting_by_bursts(uneven, 20, bound)[0] for bound in (loose, tight)]
    assert (curves[0] <= curves[1] + 1e-12).all()
    assert curves[1][8] > curves[0][8]
    assert all((np.diff(curve) >= -1e-12).all() for curve in curves)
    busy = np.array([0.5, 0.9])
    even, surge = (waiting_by_surges(np.full((2, 1), height), busy, 7.0, tight) for height in (1.0, 3.0))
    assert even.tolist() == [0.0, 0.0]
    assert 0.0 < surge[0] <= surge[1] <= tight.price + 7.0


def test_a_tighter_bound_wants_no_fewer_subtasks() -> None:
    """And the rarest minutes cost most."""
    outlook = expecting(100.0, 100.0, 100.0, 100.0, spread=0.2)
    sizes = [
        int(planned((6, 4), outlook, planning=with_bound(PLANNING, LatencyBound(seconds=seconds, share=share), 0.0)).best[0])
        for seconds, share in ((600.0, 0.2), (60.0, 0.05), (5.0, 0.001))
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_a_restart_within_the_bound_costs_only_the_least() -> None:
    """A minute without service puts nobody above ten minutes, and nearly everybody above a second."""
    within, beyond = (with_bound(PLANNING, LatencyBound(seconds=seconds), 0.0) for seconds in (600.0, 1.0))
    assert within.later_restart == PLANNING.gain_min
    assert beyond.later_restart > 10 * within.later_restart
    assert (within.forced_restart, beyond.forced_restart) == (0.0, 0.0)
    long = with_bound(with_restart(PLANNING, 180.0), LatencyBound(seconds=1.0), 0.0)
    assert long.forced_restart == long.later_restart


def test_the_work_along_the_longest_path_counts() -> None:
    """At least the longest single task, at most all of them."""
    window = branching_window(1)
    graph = job_graph(window.topology.tasks)
    measured = measure(window.figures[None], graph)
    longest, service = path_minutes(measured, graph)[0], np.nan_to_num(measured.service_minutes)[0]
    assert service.max() <= longest <= service.sum()


def test_sure_and_the_rules_hear_the_bound() -> None:
    """Sure says what it counts; a rule leaves room for what its load did, and works a backlog off within the bound."""
    window, sure = branching_window(3), load_policy("sure")
    plain = JobSettings(job="sim/y", catch_up_minutes=20.0)
    bounded = replace(plain, objective=LatencyBound(seconds=120.0, share=0.001))
    units = [decide(window, sure, settings, seed=1).compared.unit for settings in (plain, bounded)]  # type: ignore[union-attr]
    assert ["minutes of latency" in unit for unit in units] == [True, False]
    assert "share of minutes waiting above" in units[1]
    free, bound = (Reading.of(Question.of(window, settings, 1)) for settings in (plain, bounded))
    assert (free.target(0.98), free.catch_up(30.0)) == (0.98, 20.0)
    assert np.asarray(bound.target(0.98)).item() < 0.98
    assert (bound.target(0.1), bound.catch_up(30.0)) == (0.1, 2.0)
