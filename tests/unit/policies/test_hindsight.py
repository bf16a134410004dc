"""Hindsight: where following the load lost against a constant size, what constants would have scored counts."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.policies.guardrails import Limits
from surescale.policies.sure.choices import Choices, Work
from surescale.policies.sure.hindsight import FLOOR_SHARE, hindsight
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import PAST_HOURS, Past, past_of
from surescale.policies.sure.planning_input import Planning
from surescale.policies.sure.queue_delay import waiting_by_bursts
from tests.support.planned import CALM, CHAIN, expecting, measured, past

LONG = msgspec.structs.replace(CALM, restart_minutes=5, forced_restart=1e-9)  # a long restart whose price is nothing
SIZES = np.array([[[1, 3, 2], [1, 6, 3], [1, 10, 5]]])


def heeded(
    days: Past, surges: np.ndarray | None = None, planning: Planning = CALM, highest: float = np.nan
) -> tuple[float, np.ndarray]:
    """Return how far the past counts for the chain, and what three sizes would have scored; ``highest`` of the day's surges."""
    expected: Expected = replace(expecting(*[100.0] * 4), past=days)
    if surges is not None:
        expected = replace(expected, surges=surges, highest_surge=np.array([highest]))
    work = Work.of(measured(), CHAIN)
    limits = Limits(least=np.ones(3, dtype=np.int64), most=CHAIN.parallelism_max, total=99)
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes)
    heed, _, constant = hindsight(planning, expected, curve, Choices.of(SIZES, work), work, limits)
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


def test_surges_of_quiet_nights_do_not_count_at_noon() -> None:
    """At one record a minute a burst of four is a surge; at noon none is higher than the day's highest."""
    share = (np.arange(72) % 24 - 6) / 16.0
    loads = np.where((share >= 0) & (share < 1), 30.0 + 250.0 * np.sin(np.pi * share.clip(0.0, 1.0)), 1.0)[None]
    days = past(loads=loads, peaks=1.05 * loads, expected=loads, change=np.array([0.3]), width=np.array([5.0]))
    surges = np.where(np.arange(24) < 8, 4.0, 1.05)[None]
    assert heeded(days, surges, highest=294.0)[0] == 0.0
    assert heeded(days, surges, highest=1_200.0)[0] > 0.0


def test_the_last_minutes_before_a_fall_are_no_surge_of_the_quiet_hour() -> None:
    """Ten hours of a working day that were foreseen; its end lies five minutes into the hour that follows."""
    hour = np.arange(72) % 24
    loads = np.where((hour >= 8) & (hour < 18), 300.0, 20.0)[None]
    peaks = np.where(hour == 18, 240.0, 1.05 * loads)
    foreseen = past(loads=loads, peaks=peaks, expected=loads, change=np.array([0.1]), width=np.array([2.7]))
    assert heeded(foreseen, np.full((1, 24), 1.05), highest=315.0)[0] == 0.0
    real = past(
        loads=loads, peaks=np.where(hour == 6, 240.0, peaks), expected=loads, change=np.array([0.1]), width=np.array([2.7])
    )
    assert heeded(real, np.full((1, 24), 1.05), highest=315.0)[0] > 0.0


def test_following_never_falls_below_what_the_load_floor_allows() -> None:
    """Every fourth hour is expected to be a third of the one before, and is not; the floor does not let the job shrink."""
    loads, fourth = np.full((1, 72), 120.0), np.arange(72) % 4 == 0
    loads[:, np.arange(72) % 24 < 12] = 60.0
    expected = np.where(fourth, loads / 3.0, loads)
    assert heeded(past(loads=loads, peaks=loads, expected=expected, change=np.array([0.1]), width=np.array([0.7])))[0] == 0.0


def test_a_calm_day_is_sized_by_its_own_hours() -> None:
    """A weekend after working days: they were constant, too, at another level, and say nothing of it."""
    loads = np.repeat([300.0, 60.0], [48, 24])[None]
    heed, constant = heeded(past(loads=loads, peaks=loads, expected=loads, change=np.zeros(1), width=np.full(1, 0.05)))
    assert heed == 1.0
    assert constant.argmax() == 0


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


def test_where_restarts_are_long_the_week_counts_and_its_same_day_as_much_as_all_of_it() -> None:
    """After a quiet weekend the last days would have the small size; what came on last week's Monday keeps the one with room."""
    loads, peaks = bursting()
    surges = np.where(np.arange(24) < 10, 4.0, 1.0)[None]
    facts = {"expected": np.roll(loads, 1, axis=1) / 2, "change": np.array([0.4]), "width": np.ones(1)}
    quiet = past(loads=loads / 2, peaks=peaks / 2, **facts)
    factors = np.repeat([2.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5], 24)
    known = {"week": factors * np.tile(loads[:, :24], 7), "week_peaks": factors * np.tile(peaks[:, :24], 7)}
    before, after = heeded(quiet, surges, LONG)[1], heeded(replace(quiet, **known), surges, LONG)[1]
    assert before.argmax() < after.argmax()
    of_day = {factor: heeded(_repeated(factor, facts), surges, LONG)[1] for factor in (2.0, 1.0, 0.5)}
    of_week = (of_day[2.0] + 4.0 * of_day[1.0] + 2.0 * of_day[0.5]) / 7.0
    np.testing.assert_allclose(after, (of_week + of_day[2.0]) / 2.0)
    for shorter in (CALM, msgspec.structs.replace(LONG, restart_minutes=4)):
        np.testing.assert_array_equal(*(heeded(each, surges, shorter)[1] for each in (replace(quiet, **known), quiet)))
    unknown = {name: np.where(np.arange(168) == 7, np.nan, hours) for name, hours in known.items()}
    np.testing.assert_array_equal(heeded(replace(quiet, **unknown), surges, LONG)[1], before)


def _repeated(factor: float, facts: dict[str, np.ndarray]) -> Past:
    loads, peaks = (factor * np.tile(hours[:, :24], 3) for hours in bursting())
    return past(loads=loads, peaks=peaks, **facts)


@pytest.mark.parametrize(("now", "counts"), [(1.0, True), (0.85, True), (1.2, True), (0.7, False), (1.5, False)])
def test_a_week_ago_says_nothing_where_the_load_is_no_longer_as_it_was(now: float, counts: bool) -> None:
    """A third less than at the same hours is no quiet weekend: then last week's Monday says nothing of the one that comes."""
    hours = np.full((1, 192), 100.0)
    hours[:, -PAST_HOURS:] *= now
    hours[:, 23] = 150.0  # the present hour a week ago
    found = past_of(np.full((1, 60), 100.0 * now), hours, 1.1 * hours)
    if counts:
        np.testing.assert_array_equal(found.week[0, :2], [150.0, 100.0])
        np.testing.assert_allclose(found.week_peaks, 1.1 * found.week)
    else:
        assert np.isnan([found.week, found.week_peaks]).all()


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


@pytest.mark.parametrize(("hours", "heed", "days"), [(2, 0.0, 1.0), (3, 1.0, 0.125), (12, 1.0, 0.5), (72, 1.0, 1.0)])
def test_a_load_counts_as_constant_for_as_long_as_it_was(hours: int, heed: float, days: float) -> None:
    """From three hours on, up to the day for which any past counts."""
    loads = np.full((1, 72), np.nan)
    loads[:, -hours:] = 100.0
    calm = past(loads=loads, peaks=1.02 * loads, expected=loads, change=np.zeros(1), width=np.zeros(1))
    expected = replace(expecting(*[100.0] * 4), past=calm)
    work = Work.of(measured(), CHAIN)
    limits = Limits(least=np.ones(3, dtype=np.int64), most=CHAIN.parallelism_max, total=99)
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes)
    found = hindsight(CALM, expected, curve, Choices.of(SIZES, work), work, limits)
    assert (found[0][0], found[1][0]) == (heed, days)
