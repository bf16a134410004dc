"""The present service time of a task: what walks is followed, what only scatters is not, what is unknown counts as unknown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.policies.capacity import SPREAD_MOST, level_of
from surescale.policies.measure import SKEW_MOST, busiest_of, widened_by

MINUTES, ROWS = 60, 200


def known_everywhere(values: np.ndarray) -> np.ndarray:
    """Return all True."""
    return np.ones(values.shape, dtype=np.bool_)


def records() -> np.ndarray:
    """Return a hundred records in every minute, [rows, 60, 1]."""
    return np.full((ROWS, MINUTES, 1), 100.0)


def test_a_constant_service_time_has_no_level() -> None:
    """The window's mean stands, also where counters are whole numbers."""
    busy = np.floor(records() * 0.0371 * 60_000) / 60_000
    assert level_of(busy, records(), known_everywhere(busy)) is None


def test_mere_scatter_is_hardly_ever_taken_for_a_walk() -> None:
    """Independent noise of a tenth a minute, and the few levels lie near the mean."""
    noise = np.exp(0.1 * np.random.default_rng(3).standard_normal((ROWS, MINUTES, 1)))
    level = level_of(0.05 * records() * noise, records(), known_everywhere(noise))
    if level is not None:
        walks = ~np.isnan(level.service_minutes)
        assert walks.mean() < 0.1
        assert level.service_minutes[walks] == pytest.approx(0.05, rel=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_walk_is_followed_better_than_by_the_mean_of_the_hour(noise: float) -> None:
    """Ornstein-Uhlenbeck, sd .25 over three hours: half the error at least, with and without noise."""
    generator = np.random.default_rng(5)
    keeps = np.exp(-1 / 180)
    path = np.zeros((ROWS, 400))
    for minute in range(1, 400):
        path[:, minute] = keeps * path[:, minute - 1] + 0.25 * np.sqrt(1 - keeps**2) * generator.standard_normal(ROWS)
    seen = path[:, -MINUTES:, None] + noise * generator.standard_normal((ROWS, MINUTES, 1))
    busy = 0.05 * records() * np.exp(seen)
    level = level_of(busy, records(), known_everywhere(busy))
    assert level is not None
    mean = busy.sum(axis=1) / records().sum(axis=1)
    taken = np.where(np.isnan(level.service_minutes), mean, level.service_minutes)
    truth = 0.05 * np.exp(path[:, -1:])
    error, before = (np.sqrt(np.square(np.log(each / truth)).mean()) for each in (taken, mean))
    assert error < (0.5 if noise == 0.0 else 0.75) * before


def test_a_jump_is_believed_within_one_block_and_forgotten_when_it_ends() -> None:
    """1.8 times as slow for the last ten minutes; the spread is stated and bounded."""
    busy = 0.05 * records()
    busy[:, -10:] *= 1.8
    level = level_of(busy, records(), known_everywhere(busy))
    assert level is not None
    assert level.service_minutes == pytest.approx(0.09, rel=0.03)
    assert (level.spread > 0.05).all()
    assert (level.spread <= SPREAD_MOST).all()
    over = 0.05 * records()
    over[:, 20:50] *= 1.8
    level = level_of(over, records(), known_everywhere(over))
    assert level is not None
    assert level.service_minutes == pytest.approx(0.05, rel=0.03)


def test_starved_minutes_say_nothing() -> None:
    """A task that was masked for the last half hour keeps its level from before, with more spread."""
    busy = 0.05 * records()
    busy[:, 15:] *= 1.5
    known = known_everywhere(busy)
    full = level_of(busy, records(), known)
    busy[:, 30:] *= 3.0
    known[:, 30:] = False
    masked = level_of(busy, records(), known)
    assert full is not None
    assert masked is not None
    assert masked.service_minutes == pytest.approx(0.075, rel=0.03)
    assert (masked.spread > full.spread).all()


def test_rows_do_not_touch_one_another() -> None:
    """A row alone has the same bits as among others."""
    busy = 0.05 * records() * np.exp(0.02 * np.random.default_rng(1).standard_normal((ROWS, MINUTES, 1)).cumsum(axis=1))
    together = level_of(busy, records(), known_everywhere(busy))
    alone = level_of(busy[7:8], records()[7:8], known_everywhere(busy[7:8]))
    assert together is not None
    assert alone is not None
    assert together.service_minutes[7:8].tobytes() == alone.service_minutes.tobytes()


def test_a_window_too_short_for_blocks_has_no_level() -> None:
    """Half an hour at least lies between the blocks that are compared."""
    short = np.linspace(1.0, 2.0, 30)[:, None]
    assert level_of(short, np.full_like(short, 10.0), known_everywhere(short)) is None


@given(st.floats(0.0, 0.3), st.floats(0.1, 40.0))
def test_widened_subtasks_leave_the_busiest_as_much_as_even_ones_have(share: float, exact: float) -> None:
    """As far as twice as many subtasks suffice; a hot key is never a reason for fewer."""
    hot = np.array([share])
    wide = widened_by(hot, np.array([exact]))
    assert exact <= wide[0] * (1 + 1e-12)
    assert wide[0] <= SKEW_MOST * exact + 1e-9
    if exact > 1.0 and wide[0] < SKEW_MOST * exact - 1e-9 and busiest_of(hot, wide)[0] < SKEW_MOST:
        assert wide[0] / busiest_of(hot, wide)[0] == pytest.approx(exact)


def test_without_a_hot_key_nothing_is_widened_and_the_unknown_stays_unknown() -> None:
    """The same bits, and NaN for a task whose demand is unknown."""
    exact = np.array([0.4, 3.7, np.nan])
    assert widened_by(np.zeros(3), exact).tobytes() == exact.tobytes()
    assert np.isnan(widened_by(np.full(3, 0.1), exact)[2])
