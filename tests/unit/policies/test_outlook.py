"""The outlook: what the days before, short trends and jumps lead to expect, and how sure that is."""

import numpy as np
import pytest

from surescale.contracts.windows import HOURS
from surescale.policies.registry import load_policy
from surescale.policies.sure.outlook import Outlook, bursts, look_back, rhythm_error, surges
from surescale.policies.sure.policy import SurePolicy
from tests.unit.policies.conftest import END_MS


@pytest.fixture(scope="module")
def outlook() -> Outlook:
    """Return the shipped outlook."""
    policy = load_policy("sure")
    assert isinstance(policy, SurePolicy), policy
    return policy.card.base.outlook


def daily(level: float = 100.0, swing: float = 0.5) -> np.ndarray:
    """Return hourly loads of eight equal days, the last hour being 07:00 to 08:00."""
    hour = np.arange(HOURS) - HOURS + 8
    return level * (1.0 + swing * np.sin(2 * np.pi * (hour - 9) / 24.0))


def test_a_steady_job_is_expected_to_stay_as_it_is(outlook: Outlook) -> None:
    """No trend, no rhythm: within three per cent of the last hour at every stage."""
    expected = outlook.expect(np.full((1, 60), 120.0), np.full((1, HOURS), 120.0), np.array([END_MS]))
    np.testing.assert_allclose(expected.means, 120.0, rtol=0.03)


def test_days_that_rise_now_are_expected_to_rise_again(outlook: Outlook) -> None:
    """The stages follow the days before upward, the later ones farther."""
    hours = daily()
    expected = outlook.expect(np.full((1, 60), hours[-1]), hours[None], np.array([END_MS]))
    assert (np.diff(expected.means[0]) > 0).all()
    assert expected.means[0, -1] > 1.15 * hours[-1]


def test_a_jump_that_lasts_is_believed(outlook: Outlook) -> None:
    """Twenty minutes at thrice the load: the next stage is expected near it, not back at the hour's mean."""
    load = np.where(np.arange(60) < 40, 50.0, 150.0)[None]
    expected = outlook.expect(load, np.full((1, HOURS), 50.0), np.array([END_MS]))
    assert expected.means[0, 0] > 120.0
    assert expected.hour[0] == pytest.approx(250.0 / 3.0)


def test_a_young_job_is_less_sure_than_one_with_a_past(outlook: Outlook) -> None:
    """Without a yesterday only the trend speaks, and the spread is wider."""
    load, ends = np.full((1, 60), 80.0), np.array([END_MS])
    old = outlook.expect(load, daily(80.0)[None], ends)
    young = outlook.expect(load, np.full((1, HOURS), np.nan), ends)
    assert (young.spread > old.spread).all()
    assert not np.isnan(young.means).any()


def test_days_that_do_not_repeat_widen_the_spread(outlook: Outlook) -> None:
    """The error of "as on the days before" over the last day is what the spread grows with."""
    wild = daily() * np.exp(np.random.default_rng(0).normal(0, 0.4, HOURS))
    assert rhythm_error(wild[None])[0] > 3 * rhythm_error(daily()[None])[0]
    load, ends = np.full((1, 60), 80.0), np.array([END_MS])
    assert (outlook.expect(load, wild[None], ends).spread > outlook.expect(load, daily()[None], ends).spread).all()


def test_the_same_time_before_lies_between_whole_hours() -> None:
    """At a quarter past, yesterday's next stage of an hour takes three quarters of one hour and one quarter of the next."""
    hours = np.arange(HOURS, dtype=np.float64)
    seen = look_back(np.full((1, 60), 150.0), hours[None], np.array([END_MS + 15 * 60_000]), 60, 1)
    before = HOURS - 1 - 24
    past, coming = before - 0.75, before + 0.25
    assert seen.inputs[0, 0, 5] == pytest.approx(np.log(coming / past))


def test_ten_empty_minutes_are_a_load_of_zero_and_no_hole(outlook: Outlook) -> None:
    """What nobody counted is NaN; a zero is a figure, and the hour's mean falls with it."""
    load = np.full((2, 60), 60.0)
    load[0, -20:], load[1, -20:] = 0.0, np.nan
    seen = outlook.expect(load, np.full((2, HOURS), np.nan), np.array([END_MS, END_MS]))
    assert seen.hour.tolist() == [40.0, 60.0]
    assert (seen.means[0] < 40.0).all()
    assert outlook.expect(0.0 * load[:1], np.full((1, HOURS), np.nan), np.array([END_MS])).means.max() == 0.0


def test_bursts_keep_the_mean_and_fill_what_is_unknown() -> None:
    """A burst stands out of its running mean; the sixty minutes average one."""
    load = np.full((1, 60), 10.0)
    load[0, 30], load[0, :5] = 40.0, np.nan
    burst = bursts(load)
    assert burst.mean() == pytest.approx(1.0)
    assert burst[0].argmax() == 30
    assert not np.isnan(burst).any()


def hours_with(**peaks: float) -> tuple[np.ndarray, np.ndarray]:
    """Return loads and peaks of eight days of 100 records a minute; ``h3=400``: five minutes of 400 three hours ago."""
    loads, highest = np.full((1, HOURS), 100.0), np.full((1, HOURS), 100.0)
    for name, peak in peaks.items():
        at = HOURS - 1 - int(name[1:])
        loads[0, at], highest[0, at] = (55 * 100.0 + 5 * peak) / 60.0, peak
    return loads, highest


def test_a_surge_is_a_peak_over_the_other_minutes() -> None:
    """Five minutes of four times the load three hours ago are one surge of four; calm hours are ones."""
    found = surges(*hours_with(h3=400.0), np.array([END_MS]))
    assert found[0, -4] == pytest.approx(4.0)
    assert np.delete(found[0], -4) == pytest.approx(1.0)


def test_a_load_that_fell_for_good_has_not_surged() -> None:
    """The first five minutes of the hour are the end of the load before it."""
    loads, peaks = np.full((1, HOURS), 100.0), np.full((1, HOURS), 100.0)
    loads[0, -10:], peaks[0, -10:], peaks[0, -10] = 25.0, 25.0, 100.0
    assert surges(loads, peaks, np.array([END_MS])).max() == pytest.approx(1.0)


def test_peaks_that_nobody_told_are_unknown(outlook: Outlook) -> None:
    """Windows of engines and recordings without peaks have no surges, and nothing else changes."""
    loads, peaks = hours_with(h3=400.0)
    load, ends = np.full((1, 60), 100.0), np.array([END_MS])
    without, told = outlook.expect(load, loads, ends), outlook.expect(load, loads, ends, peaks)
    assert np.isnan(without.surges).all()
    assert np.isnan(without.highest_surge).all()
    assert told.highest_surge.tolist() == [400.0]
    assert told.means.tolist() == without.means.tolist()


def test_one_jump_is_not_a_day_without_a_rhythm() -> None:
    """A load that was four times as high from one hour on counts like one hour of error, and a short one at that."""
    hours = np.full((1, HOURS), 100.0)
    hours[0, -6:] = 400.0
    assert rhythm_error(hours)[0] < 0.15
