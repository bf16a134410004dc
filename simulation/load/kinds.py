"""Loads that follow a timetable or a shape, drawn from a seed: what the shipped traces do not show.

Each is the mean of every minute over two weeks that begin on a Monday at midnight; counts are Poisson. Sizes of jobs follow the
load, so only a load's shape matters.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from surescale.contracts.errors import SurescaleError

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

DAYS = 14
DAY = 1440
SEED_MAX = 2**32 - 1


class LoadKindError(SurescaleError):
    """A load cannot be drawn; the message says what to give instead."""


def _office_hours(minutes: Int64, random: np.random.Generator) -> Float64:
    """500 from 9 to 17 on weekdays, else 40."""
    hour, day = minutes // 60 % 24, minutes // DAY % 7
    return np.where((hour >= 9) & (hour < 17) & (day < 5), 500.0, 40.0)


def _quiet_nights(minutes: Int64, random: np.random.Generator) -> Float64:
    """One from 22 to 6; in between up to 560 and down again."""
    share = (minutes % DAY - 6 * 60) / (16 * 60.0)
    return np.where((share >= 0) & (share < 1), 60.0 + 500.0 * np.sin(np.pi * share.clip(0.0, 1.0)), 1.0)


def _four_hourly(minutes: Int64, random: np.random.Generator) -> Float64:
    """600 for 45 minutes every four hours, else 100."""
    return np.where(minutes % 240 < 45, 600.0, 100.0)


def _flash_crowd(minutes: Int64, random: np.random.Generator) -> Float64:
    """A gentle day around 120, and about once a day, at any minute, 3 to 8 times as much for 10 to 40 minutes."""
    load = 120.0 - 40.0 * np.cos(2.0 * np.pi * minutes / DAY)
    for _ in range(DAYS):
        first, length = int(random.integers(len(minutes))), int(random.integers(10, 41))
        load[first : first + length] *= random.uniform(3.0, 8.0)
    return load


def _steps(minutes: Int64, random: np.random.Generator) -> Float64:
    """Another level between 50 and 450 every 12 to 48 hours."""
    load, at = np.empty(len(minutes)), 0
    while at < len(minutes):
        length = int(random.integers(12, 49)) * 60
        load[at : at + length] = random.uniform(50.0, 450.0)
        at += length
    return load


def _ramp(minutes: Int64, random: np.random.Generator) -> Float64:
    """From 80 to 480 in two weeks, with a day's rhythm of a tenth."""
    day: Float64 = 1.0 - 0.1 * np.cos(2.0 * np.pi * minutes / DAY)
    load: Float64 = (80.0 + 400.0 * minutes / len(minutes)) * day
    return load


def _seven_hours(minutes: Int64, random: np.random.Generator) -> Float64:
    """Between 60 and 340 with a period that is no part of a day."""
    load: Float64 = 200.0 - 140.0 * np.cos(2.0 * np.pi * minutes / 420.0)
    return load


KINDS: dict[str, Callable[[Int64, np.random.Generator], Float64]] = {
    "office-hours": _office_hours,
    "quiet-nights": _quiet_nights,
    "four-hourly": _four_hourly,
    "flash-crowd": _flash_crowd,
    "steps": _steps,
    "ramp": _ramp,
    "seven-hours": _seven_hours,
}


def is_kind(name: str) -> bool:
    """Return whether a name is that of a load to draw: ``steps``, or ``steps@3`` with a seed."""
    return name.partition("@")[0] in KINDS


def drawn(name: str) -> Int64:
    """Return the requests of each minute [20,160] of a load; without a seed, that of seed 0.

    Raises:
        LoadKindError: the seed is no whole number of 0 to ``SEED_MAX``.
    """
    kind, at, said = name.partition("@")
    if at and not (said.isascii() and said.isdigit() and len(said) <= 10 and int(said) <= SEED_MAX):
        raise LoadKindError(f"workload {name[:40]!r}: give a whole number after @ as the seed, as in {kind}@3")
    random = np.random.default_rng(int(said or 0))
    requests: Int64 = random.poisson(KINDS[kind](np.arange(DAYS * DAY), random)).astype(np.int64)
    return requests
