"""Whether memory and open files of a process grow: slopes with their errors. Shares no code with the product."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.support.faults.findings import Findings

FLAT = "no memory or file handles grow"
WARM_UP_SHARE = 0.5  # of a life, in which caches fill and windows of an hour
BLOCKS = 12
SHOWN_MINUTES, JUDGED_MINUTES = 10, 30  # caches and heaps still fill in a shorter life
MEMORY_MB_PER_HOUR_MAX = 20.0
HANDLES_PER_HOUR_MAX = 10.0


class Look(NamedTuple):
    """One look at a process."""

    at_s: float
    memory_mb: float
    handles: int


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per hour, with its standard error."""

    per_hour: float
    error: float

    def __str__(self) -> str:
        return f"{self.per_hour:+.1f} ± {self.error:.1f}"

    def exceeds(self, limit: float) -> bool:
        """Say whether it is above the limit by more than two errors."""
        return self.per_hour - 2 * self.error > limit


@dataclass(frozen=True, slots=True)
class Growth:
    """How memory (MB) and handles of a life grew after the warm-up; ``quarters`` are the means of memory in each of its quarters.

    What levels off has filled; what goes on by as much from quarter to quarter leaks.
    """

    memory: Slope
    handles: Slope
    quarters: tuple[float, ...]

    def __str__(self) -> str:
        by_quarter = ", ".join(f"{each:.0f}" for each in self.quarters)
        return f"memory {self.memory} MB an hour ({by_quarter} MB by quarter), handles {self.handles}"


def slope(at_s: Sequence[float], values: Sequence[float], stands_for: Callable[[np.ndarray], np.floating] = np.mean) -> Slope:
    """Return the least-squares slope through twelve blocks of looks, since a look depends on those before it."""
    at = np.array([part.mean() for part in np.array_split(np.asarray(at_s, float), BLOCKS)])
    seen = np.array([stands_for(part) for part in np.array_split(np.asarray(values, float), BLOCKS)])
    at = (at - at.mean()) / 3600
    squares = float((at**2).sum())
    rise = float((at * seen).sum()) / squares
    rest = seen - seen.mean() - rise * at
    return Slope(rise, float(np.sqrt((rest**2).sum() / (BLOCKS - 2) / squares)))


def growth_of(life: Sequence[Look]) -> Growth | None:
    """Return how a life grew; None of one too short to say."""
    kept = life[int(len(life) * WARM_UP_SHARE) :]
    if len(kept) < 2 * BLOCKS:
        return None
    at_s = [each.at_s for each in kept]
    quarters = tuple(float(part.mean()) for part in np.array_split([each.memory_mb for each in life], 4))
    # A connection in use is no leak: a thousand watchers ask at the same time. What leaks is there between two rounds, too.
    handles = slope(at_s, [float(each.handles) for each in kept], np.min)
    return Growth(slope(at_s, [each.memory_mb for each in kept]), handles, quarters)


def check_growth(lives: dict[str, list[Look]], findings: Findings) -> dict[str, Growth]:
    """Return how each life (of one process, from start to end) of ten minutes grew; judge those of half an hour."""
    found: dict[str, Growth] = {}
    for name, life in lives.items():
        lasted_s, growth = life[-1].at_s - life[0].at_s, growth_of(life)
        if growth is None or lasted_s < 60 * SHOWN_MINUTES:
            continue
        found[name] = growth
        if lasted_s >= 60 * JUDGED_MINUTES:
            grows = growth.memory.exceeds(MEMORY_MB_PER_HOUR_MAX) or growth.handles.exceeds(HANDLES_PER_HOUR_MAX)
            findings.expect(not grows, FLAT, name, str(growth))
    return found
