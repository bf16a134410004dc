"""Hindsight: where following the load lost against a constant size, what constants would have scored counts."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.policies.guardrails import Limits
from surescale.policies.sure.choices import Choices, Work
from surescale.policies.sure.hindsight import FLOOR_SHARE, hindsight
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import Past
from surescale.policies.sure.planning_input import Planning
from surescale.policies.sure.queue_delay import waiting_by_bursts
from tests.support.planned import CALM, CHAIN, expecting, measured, past

LONG = msgspec.structs.replace(CALM, forced_restart=1e-9)  # a long restart whose price is nothing
SIZES = np.array([[[1, 3, 2], [1, 6, 3], [1, 10, 5]]])


def heeded(days: Past, surges: np.ndarray | None = None, planning: Planning = CALM) -> tuple[float, np.ndarray]:
    """Return how far the past counts for the chain, and what three sizes would have scored."""
    expected: Expected = replace(expecting(*[100.0] * 4), past=days)
    if surges is not None:
        expected = replace(expected, surges=surges)
    work = Work.of(measured(), CHAIN)
    limits = Limits(least=np.ones(3, dtype=np.int64), most=CHAIN.parallelism_max, total=99)
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes)
    heed, constant = hindsight(planning, expected, curve, Choices.of(SIZES, work), work, limits)
    return float(heed[0]), constant[0]


def rhythm() -> np.ndarray:
    """Return three equal days between 50 and 250 records a minute."""
    return 150.0 + 100.0 * np.sin(2 * np.pi * np.arange(72) / 24.0)[None]


def bursting() -> tuple[np.ndarray, np.ndarray]:
    """Return hours around a hundred that differ without a rhythm, and the peaks of those that surged to four times that."""
    generator = np.random.default_rng(0)
    loads = 100.0 * np.exp(generator.normal(0.0, 0.35, (1, 72)))
    return loads, np.where(generator.random((1, 72)) < 0.4, 400.0, 1.1 * loads)


def test_where_a_rhythm_was_followed_the_past_does_not_count() -> None:
    """Days that repeat: a size for each hour beats every constant."""
    hours = rhythm()
    assert heeded(past(loads=hours, peaks=1.05 * hours, expected=hours, change=np.array([0.1]), width=np.ones(1)))[0] == 0.0


def test_where_nothing_could_be_foreseen_a_constant_counts() -> None:
    """Every hour looks like the one before and is another; the best constant has room for the surges."""
    loads, peaks = bursting()
    wild = past(loads=loads, peaks=peaks, expected=np.roll(loads, 1, axis=1), change=np.array([0.4]), width=np.ones(1))
    heed, constant = heeded(wild, np.where(np.arange(24) < 10, 4.0, 1.0)[None])
    assert heed > 0.5
    assert constant.argmax() == 2


def test_less_than_three_days_do_not_tell_whether_following_pays() -> None:
    """The same hours, with only the last sixty known."""
    loads, peaks = bursting()
    loads[:, :-60] = np.nan
    wild = past(loads=loads, peaks=peaks, expected=np.roll(loads, 1, axis=1), change=np.array([0.4]), width=np.ones(1))
    assert heeded(wild, np.where(np.arange(24) < 10, 4.0, 1.0)[None])[0] == 0.0


def test_nights_without_a_record_say_nothing_of_constants() -> None:
    """Each night takes the job to its least, so no size is constant, whatever the hours of the day would have it."""
    loads, peaks = bursting()
    surges = np.where(np.arange(24) < 10, 4.0, 1.0)[None]
    for first_hour, least, most in ((0, 0.5, 1.0), (8, 0.0, 0.0)):
        silent = np.arange(72) % 24 < first_hour
        hours = {"loads": np.where(silent, 0.0, loads), "peaks": np.where(silent, 0.0, peaks)}
        expected = np.maximum(np.roll(hours["loads"], 1, axis=1), 30.0)
        wild = past(**hours, expected=expected, change=np.array([0.4]), width=np.ones(1))
        assert least <= heeded(wild, surges)[0] <= most


def test_where_restarts_are_long_constants_are_judged_at_the_level_of_the_day() -> None:
    """Days at half the present level would pick the small size; taken at twice their load they pick the one with room."""
    loads, peaks = bursting()
    half = {"loads": loads / 2, "peaks": peaks / 2, "expected": np.roll(loads, 1, axis=1) / 2}
    doubled = past(**half, change=np.array([0.4]), width=np.ones(1), level=np.full((1, 72), 2.0))
    surges = np.where(np.arange(24) < 10, 4.0, 1.0)[None]
    usual, long = (heeded(doubled, surges, planning)[1] for planning in (CALM, LONG))
    whole = past(loads=loads, peaks=peaks, expected=np.roll(loads, 1, axis=1), change=np.array([0.4]), width=np.ones(1))
    np.testing.assert_allclose(long, heeded(whole, surges)[1], atol=1e-6)
    assert usual.argmax() < long.argmax()


def test_a_constant_pays_for_each_hour_in_which_the_load_floor_would_have_raised_it() -> None:
    """Where restarts are long, a size below an hour's highest quarter does not last; one with room for all pays nothing."""
    loads, peaks = bursting()
    wild = past(loads=loads, peaks=peaks, expected=np.roll(loads, 1, axis=1), change=np.array([0.4]), width=np.ones(1))
    surges = np.where(np.arange(24) < 10, 4.0, 1.0)[None]
    free = heeded(wild, surges)[1]
    charged = heeded(wild, surges, msgspec.structs.replace(CALM, forced_restart=1.2))[1]
    quarters = loads + FLOOR_SHARE * (peaks - loads)
    for at, capacity in enumerate((150.0, 300.0, 500.0)):
        share = float((quarters > capacity).mean())
        assert free[at] - charged[at] == pytest.approx(1.2 / 3.0 * share)
    assert charged[0] < charged[1] < charged[2]
    assert free[2] == charged[2]
