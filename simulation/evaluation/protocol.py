"""Chooses the minutes for tuning and for judging: the calibration part, and where the runs start after it. Pure."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from surescale.contracts.errors import SurescaleError
from surescale.policies.graph import Int64
from surescale.simulation.load.workload import Workload

HOUR = 60
DAY = 24 * HOUR
EPISODE_MINUTES_MAX = 7 * DAY
EPISODE_MINUTES_MIN = 3 * HOUR  # an hour to settle, two to judge
CALIBRATION_MINUTES_MIN = 4 * HOUR
CALIBRATE_LENGTH_MAX = 40  # characters of A:B
ROOM_SHARE = 0.25  # of the judging part, left free so that several runs start at different times


class ProtocolError(SurescaleError):
    """The requested minutes are not available; the message names the option and the fix."""


@dataclass(frozen=True, slots=True)
class Split:
    """Calibration minutes ``first`` to ``end`` (exclusive), both full hours; everything after them is for judging."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one length.

    Attributes:
        offsets: minute at which each run starts, a full hour; its first hour passes without a decision.
        minutes: length of a run, including that hour.
    """

    offsets: Int64
    minutes: int

    @property
    def first_decisions(self) -> Int64:
        """Return the minute of each run's first decision."""
        return self.offsets + HOUR

    @property
    def hours(self) -> int:
        """Return the scored hours of a run."""
        return self.minutes // HOUR - 1


def split(workload: Workload, calibrate: str | None) -> Split:
    """Return the calibration part, by default the first third; its ends are moved inward to full hours.

    Raises:
        ProtocolError: ``calibrate`` is not ``A:B`` within the file, or leaves too little to tune.
    """
    first, end = _named(calibrate, workload) if calibrate else (0, workload.minutes // 3)
    first, end = -(-first // HOUR) * HOUR, end // HOUR * HOUR
    if end - first < CALIBRATION_MINUTES_MIN:
        raise ProtocolError(
            f"--calibrate: {max(0, end - first)} whole-hour minutes to calibrate on, at least {CALIBRATION_MINUTES_MIN} needed; "
            f"give a longer part or a longer workload ({workload.name} has {workload.minutes} minutes)"
        )
    return Split(first, end)


def place_runs(workload: Workload, part: Split, runs: int, seed: int) -> Runs:
    """Return where the runs start: the possible hours are split into equal strata, and the seed draws one hour from each.

    A run lasts seven days, or three quarters of the time after the calibration part if that is less (all of it for a single run).

    Raises:
        ProtocolError: too little time follows the calibration part for this many runs, or a run has no minute that counts.
    """
    left = (workload.minutes - part.end) // HOUR
    longest = left if runs == 1 else min(left - (runs - 1), int(left * (1 - ROOM_SHARE)))
    hours = min(EPISODE_MINUTES_MAX // HOUR, longest)
    if hours * HOUR < EPISODE_MINUTES_MIN:
        raise ProtocolError(
            f"--runs: {left * HOUR} minutes follow the calibration part, too few for {runs} different runs of at least "
            f"{EPISODE_MINUTES_MIN}; give a longer workload, fewer runs or an earlier end in --calibrate"
        )
    places = left - hours + 1
    generator = np.random.default_rng(seed)
    edges = [places * index // runs for index in range(runs + 1)]
    chosen = [int(generator.integers(low, high)) for low, high in pairwise(edges)]
    found = Runs(offsets=part.end + HOUR * np.array(chosen, dtype=np.int64), minutes=hours * HOUR)
    for offset in found.offsets.tolist():
        if workload.masked[offset + HOUR : offset + found.minutes].all():
            raise ProtocolError(
                f"--runs: the run from minute {offset} to {offset + found.minutes} cannot be judged: {workload.name} has "
                "no counted minute after its first hour; give another --calibrate or --seed, or a fuller workload"
            )
    return found


def _named(calibrate: str, workload: Workload) -> tuple[int, int]:
    first, colon, end = (part.strip() for part in calibrate.partition(":"))
    if len(calibrate) > CALIBRATE_LENGTH_MAX or not colon or not first.isdecimal() or not end.isdecimal():
        raise ProtocolError(f"--calibrate: {calibrate[:CALIBRATE_LENGTH_MAX]!r} is not A:B in minutes; 0:10080 is the first week")
    if not int(first) < int(end) <= workload.minutes:
        raise ProtocolError(
            f"--calibrate: {calibrate} does not lie within the {workload.minutes} minutes of {workload.name}; need A < B <= that"
        )
    return int(first), int(end)
