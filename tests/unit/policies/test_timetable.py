"""Loads that follow a timetable: which are recognised, what is expected of them, and that a job is ready when its load rises."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from msgspec import structs

from benchmarks import archive
from surescale.contracts.block_load import coded, decoded
from surescale.contracts.clock import MINUTE_MS
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.registry import load_policy
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.policy import SurePolicy
from surescale.policies.sure.timetable import followed
from surescale.simulation.evaluation.closed_loop import Serving, Trial, settings_of
from surescale.simulation.evaluation.judge import EvaluationRequest, setting_of
from surescale.simulation.load.graphs import load_graph
from surescale.simulation.load.workload import UNDATED_MS, Workload
from surescale.simulation.loops.hourly import BlockCodes, HourlyFigures

DAY = 1440
LENGTH = 10 * DAY


def _drawn(mean: Callable[[Float64], Float64]) -> Workload:
    """Return Poisson counts around a mean of each minute."""
    minutes = np.arange(LENGTH, dtype=np.float64)
    requests = np.random.default_rng(11).poisson(mean(minutes)).astype(np.int64)
    return Workload("drawn", requests, UNDATED_MS)


def _at(load: Workload, minute: int, *, hours_only: bool = False) -> tuple[Expected, Expected]:
    """Return the outlook at a minute, and what the timetable makes of it."""
    policy = load_policy("sure", "")
    assert isinstance(policy, SurePolicy)
    at, end_ms = np.array([minute]), UNDATED_MS + minute * MINUTE_MS
    hours, peaks = HourlyFigures.loads(load.requests).before(at), HourlyFigures.peaks(load.requests).before(at)
    last = load.requests[minute - 60 : minute].astype(np.float64)
    expected = policy.card.base.outlook.expect(last[None], hours, np.array([end_ms]), peaks)
    codes = BlockCodes.of(load.requests).before(at)[0]
    blocks = np.full(len(codes), np.nan) if hours_only else decoded(codes)
    return expected, followed(expected, last, blocks, hours[0], end_ms)


def _every(period: int, first: int, lasts: int, high: float = 500.0, low: float = 60.0) -> Callable[[Float64], Float64]:
    return lambda minutes: np.where((minutes - first) % period < lasts, high, low)


def _shifts(minutes: Float64) -> Float64:
    """Seven to half past three on weekdays, ten to two on Saturdays."""
    day, of_day = minutes // DAY % 7, minutes % DAY
    weekday = (day < 5) & (of_day >= 420) & (of_day < 930)
    saturday = (day == 5) & (of_day >= 600) & (of_day < 840)
    return np.where(weekday | saturday, 400.0, 30.0)


RHYTHMS: dict[str, Callable[[Float64], Float64]] = {
    "every 205 minutes for 35": _every(205, 17, 35),
    "every six hours for 90 minutes": _every(360, 50, 90),
    "eleven hours, a wave": lambda minutes: 200.0 - 150.0 * np.cos(2.0 * np.pi * minutes / 660.0),
    "each night for three hours": _every(DAY, 135, 180, high=900.0, low=20.0),
    "half past six to eight at night": lambda minutes: np.where((minutes % DAY >= 390) & (minutes % DAY < 1200), 350.0, 2.0),
    "shifts": _shifts,
}


@pytest.mark.parametrize("name", RHYTHMS)
def test_what_comes_at_the_same_times_is_expected(name: str) -> None:
    """To a tenth in every stage of the next two hours, whenever one asks, and where the mean of hours was further off."""
    load = _drawn(RHYTHMS[name])
    mean = RHYTHMS[name](np.arange(LENGTH, dtype=np.float64))
    for minute in range(8 * DAY + 430, 9 * DAY + 900, 170):
        outlook, found = _at(load, minute)
        came = mean[minute : minute + 120].reshape(6, 20).mean(axis=1)
        assert found.shape is not None, minute
        assert found.means[0] == pytest.approx(came, rel=0.1, abs=0.02 * mean.max()), minute
        minutes = np.repeat(found.means[0], 20) * found.shape[0]
        assert np.abs(minutes - mean[minute : minute + 120]).mean() < 0.1 * mean.max(), minute
        assert found.spread.mean() < outlook.spread.mean()


@pytest.mark.parametrize("name", ["clarknet", "nasa", "twitter", "steps@2", "ramp"])
def test_loads_without_one_are_expected_as_before(name: str) -> None:
    """Days that are roughly alike and steps are no timetable: the outlook is the same object."""
    load = archive.load_workload(name)
    load = replace(load, requests=load.requests[:LENGTH], trace_start_ms=UNDATED_MS)
    for minute in range(3 * DAY, LENGTH - 120, 790):
        outlook, found = _at(load, minute)
        assert found is outlook, minute


def test_a_constant_load_has_none() -> None:
    """There is nothing to follow in noise."""
    outlook, found = _at(_drawn(lambda minutes: np.full_like(minutes, 150.0)), 9 * DAY)
    assert found is outlook


def test_hours_that_the_engine_knew_stand_for_blocks_that_nobody_saw() -> None:
    """A job that has just been found follows its timetable by the hour."""
    mean = _every(360, 60, 120)
    _, found = _at(_drawn(mean), 8 * DAY + 390, hours_only=True)
    came = mean(np.arange(8 * DAY + 390.0, 8 * DAY + 510.0)).reshape(6, 20).mean(axis=1)
    assert found.means[0] == pytest.approx(came, rel=0.1)


def test_a_day_that_is_none_of_the_kind_ends_it() -> None:
    """After a holiday the timetable of weekdays was wrong for a day, so it does not count as certain."""
    mean = _drawn(_shifts).requests.copy()
    mean[8 * DAY : 9 * DAY] = np.random.default_rng(1).poisson(30.0, DAY)  # a Tuesday off
    outlook, found = _at(Workload("holiday", mean, UNDATED_MS), 9 * DAY + 300)
    assert found is outlook


@pytest.mark.parametrize("clock", [60, -60])
def test_on_a_day_of_another_length_nothing_is_expected_that_never_came(clock: int) -> None:
    """Office hours after the clocks were changed: what came yesterday at this time comes an hour sooner or later.

    A rise that came sooner was expected to come once more on top of it, to three times what was ever seen.
    """
    minutes = np.arange(LENGTH, dtype=np.float64)
    of_day = np.where(minutes >= 8 * DAY, minutes - clock, minutes) % DAY
    load = _drawn(lambda _: np.where((of_day >= 540) & (of_day < 1080), 500.0, 60.0))
    for minute in range(8 * DAY + 440, 8 * DAY + 700, 20):
        assert _at(load, minute)[1].means.max() <= 1.3 * load.requests.max(), minute
    for minute in (8 * DAY + 840, 9 * DAY + 840):  # at two in the afternoon
        assert _at(load, minute)[1].means[0] == pytest.approx(np.full(6, 500.0), rel=0.1), minute


def _crowded(rhythm: Callable[[Float64], Float64], draw: int) -> tuple[Callable[[Float64], Float64], list[int]]:
    """Return a rhythm with a crowd at another time of each of eight days, and the minutes at which they came."""
    random = np.random.default_rng(draw)
    places = random.permutation(8)  # of 80 minutes each, from nine in the morning on
    firsts = [day * DAY + 560 + 80 * int(place) + int(random.integers(0, 40)) for day, place in enumerate(places)]
    lasts, times = random.integers(10, 41, 8), random.uniform(3.0, 8.0, 8)

    def mean(minutes: Float64) -> Float64:
        load = rhythm(minutes).copy()
        for first, length, height in zip(firsts, lasts.tolist(), times.tolist(), strict=True):
            load[first : first + length] *= height
        return load

    return mean, firsts


def _open_by_day(minutes: Float64, *, at_weekends: bool) -> Float64:
    """Nothing from eleven at night to eight in the morning."""
    of_day, day = minutes % DAY, minutes // DAY % 7
    opens = (of_day >= 480) & (of_day < 1380) & ((day < 5) | at_weekends)
    return np.where(opens, 120.0 - 40.0 * np.cos(2.0 * np.pi * of_day / DAY), 0.0)


@pytest.mark.parametrize("at_weekends", [True, False])
@pytest.mark.parametrize("draw", range(3))
def test_a_crowd_that_came_once_is_not_expected_at_its_time_of_other_days(draw: int, *, at_weekends: bool) -> None:
    """Each came back for five days at a fifth of its height, or in full after a week; and the week after it a trough."""
    rhythm = partial(_open_by_day, at_weekends=at_weekends)
    mean, firsts = _crowded(rhythm, draw)
    load, minutes = _drawn(mean), np.arange(LENGTH, dtype=np.float64)
    usual, followed_times = rhythm(minutes), 0
    for first in firsts:
        for minute in range(8 * DAY + first % DAY - 60, 8 * DAY + first % DAY + 90, 60):
            _, found = _at(load, minute)
            if found.shape is None:
                continue
            followed_times += 1
            came = usual[minute : minute + 120].reshape(6, 20).mean(axis=1)
            assert found.means[0] == pytest.approx(came, rel=0.15, abs=6.0), minute
            assert (np.repeat(found.means[0], 20) * found.shape[0]).max() <= 1.3 * came.max() + 6.0, minute
            assert found.spread.max() <= 0.2, minute
    assert followed_times >= 10


@pytest.mark.parametrize("length", [26, 38])
def test_a_crowd_that_is_over_is_expected_no_longer(length: int) -> None:
    """Nor is it bursts of the hours to come, and across the end of an hour it is one surge; twice it kept a job at its size."""
    rhythm = partial(_open_by_day, at_weekends=True)
    begin, end = 8 * DAY + 1000, 8 * DAY + 1000 + length
    load = _drawn(lambda minutes: rhythm(minutes) * np.where((minutes >= begin) & (minutes < end), 7.0, 1.0))
    usual, surges = rhythm(np.arange(LENGTH, dtype=np.float64)), set()
    for minute in range(end // 10 * 10 + 20, end + 150, 10):
        _, found = _at(load, minute)
        assert found.shape is not None
        came = usual[minute : minute + 120].reshape(6, 20).mean(axis=1)
        assert found.means[0] == pytest.approx(came, rel=0.15), minute
        surges.add(int((found.surges > 3.0).sum()))
        if minute >= end + 70:
            assert found.burst.max() < 1.5, minute
    assert surges == {1}


@pytest.mark.parametrize("weekday", [1, 2])
def test_what_lasts_for_hours_on_one_day_of_the_week_is_expected_there(weekday: int) -> None:
    """It is another kind of day, and no crowd, though no other day has it at that time."""

    def mean(minutes: Float64) -> Float64:
        usual, of_day = _open_by_day(minutes, at_weekends=False), minutes % DAY
        return np.where((minutes // DAY % 7 == weekday) & (of_day >= 600) & (of_day < 840), 3.0 * usual, usual)

    minute = (7 + weekday) * DAY + 570
    _, found = _at(_drawn(mean), minute)
    came = mean(np.arange(minute, minute + 120.0)).reshape(6, 20).mean(axis=1)
    assert found.means[0] == pytest.approx(came, rel=0.15)


@pytest.mark.parametrize("draw", range(3))
def test_weeks_with_holes_are_followed_or_expected_as_before(draw: int) -> None:
    """Blocks and hours of some stretches are unknown, the newest too: an outlook is made of numbers, whatever is left."""
    random, mean = np.random.default_rng(draw), _every(360, 50, 90)
    load, hole = _drawn(mean).requests, np.zeros(LENGTH, dtype=np.bool_)
    for first in random.integers(0, 9 * DAY, 12).tolist():
        hole[first : first + int(random.integers(5, 900))] = True
    by_hour, by_peak, by_block = HourlyFigures.loads(load, hole), HourlyFigures.peaks(load, hole), BlockCodes.of(load, hole)
    policy = load_policy("sure", "")
    assert isinstance(policy, SurePolicy)
    for minute in range(8 * DAY + 15, 9 * DAY, 240):
        at, end_ms = np.array([minute]), UNDATED_MS + minute * MINUTE_MS
        if hole[minute - 5 : minute].all():
            continue  # the figures are stale, and no policy is asked
        last = np.where(hole, np.nan, load)[minute - 60 : minute]
        hours, peaks = by_hour.before(at), by_peak.before(at)
        outlook = policy.card.base.outlook.expect(last[None], hours, np.array([end_ms]), peaks)
        found = followed(outlook, last, decoded(by_block.before(at)[0]), hours[0], end_ms)
        assert np.isfinite(found.means).all()
        assert np.isfinite(found.spread).all()
        assert found.means.max() < 1.5 * 500.0


def _served(period: int, first: int, lasts: int, step: float | None) -> tuple[Trial, list[tuple[int, Int64]], int]:
    """Return the trial, the sizes decided from 100 minutes before a rise to an hour after the fall, and when it rises."""
    load = _drawn(_every(period, first, lasts, high=600.0, low=60.0))
    setting = setting_of(load_graph("word-count"), load, EvaluationRequest(runs=1, calibrate="0:10080", load_parallelism=6.0))
    policy = load_policy("sure", "")
    rise = next(minute for minute in range(9 * DAY, LENGTH) if (minute - first) % period == 0)
    trial = replace(setting.trial, first_minutes=np.array([(rise - 100) // 10 * 10])).at_span(policy.span_minutes)
    settings = structs.replace(settings_of(trial.job), step_up_max=step, step_down_max=step)
    serving, rows = Serving([policy], settings, trial.job, trial.terms, (0,)), trial.rows()
    found = []
    while rows.minutes[0] < rise + lasts + 60:
        found.append((int(rows.minutes[0]), serving.sizes(rows)[0]))
        rows.step(found[-1][1][None])
    return trial, found, rise


@pytest.mark.parametrize("step", [None, 2.0])
@pytest.mark.parametrize(("period", "first", "lasts"), [(240, 0, 45), (300, 25, 60), (DAY, 500, 400)])
def test_a_job_is_ready_when_its_load_rises(period: int, first: int, lasts: int, step: float | None) -> None:
    """Ten times the load: the last step is done when it comes, also where the owner allows twice the size at once, no more."""
    trial, found, rise = _served(period, first, lasts, step)
    sizes = [sizes for minute, sizes in found if minute + 2 <= rise][-1]  # a restart begins a minute later, and takes one
    work = trial.job.service_minutes
    assert (sizes[work > 0] / work[work > 0]).min() >= 600.0


@pytest.mark.parametrize(("period", "first", "lasts"), [(240, 0, 45), (300, 25, 60), (DAY, 500, 400), (205, 17, 35)])
def test_a_rise_and_a_fall_that_are_known_take_one_rescale_each(period: int, first: int, lasts: int) -> None:
    """Not three steps of twice the size each: the timetable tells what comes."""
    _, found, _ = _served(period, first, lasts, None)
    changes = sum(bool((later != sizes).any()) for (_, sizes), (_, later) in pairwise(found))
    assert changes <= 3  # the first is from the size that the job began with
    assert found[-1][1].sum() <= max(sizes.sum() for _, sizes in found) / 3


def test_an_owner_who_set_a_step_keeps_it() -> None:
    """A timetable lifts the default only."""
    _, found, _ = _served(240, 0, 45, 2.0)
    for (_, sizes), (_, later) in pairwise(found):
        assert (later <= np.maximum(2 * sizes, sizes + 1)).all()
        assert (later >= np.minimum(-(-sizes // 2), sizes - 1)).all()


def test_codes_of_a_workload_are_those_of_its_minutes() -> None:
    """What policies see of a simulated load is what the pipeline would have kept of it."""
    load = _drawn(_every(240, 0, 45))
    blocks = BlockCodes.of(load.requests).before(np.array([9 * DAY + 27]))[0]
    passed = load.requests[: 9 * DAY + 25].reshape(-1, 5).mean(axis=1)
    known = blocks > 0
    assert np.array_equal(blocks[known], coded(passed)[-int(known.sum()) :])
    assert not known[-7:].any()
    assert known[:-7].all()
