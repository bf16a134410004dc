"""What a pause does to the records of a job: who waits, and for how long. Pure.

The simulator's own fluid view of a job (`simulation.queueing`), in steps of 100 ms instead of 15 s, so that a pause of a second
can be told from none: while the job stands still its lag grows by all that enters, afterwards it falls as fast as the slowest
task allows, and a record leaves when everything before it has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from simulation.report import weighted_percentile

STEP_MS = 100
_WAITS_MS = 1.0
"""A record that waits less than this does not wait."""

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Delays:
    """Waiting of the records that enter in one stretch of time, by steps of `STEP_MS`."""

    records: Float64
    """That enter in each step."""
    waits_ms: Float64
    """That a record of the step waits, beyond its way through the idle job."""

    @property
    def delayed(self) -> float:
        """Records that wait at all."""
        return float(self.records[self.waits_ms > _WAITS_MS].sum())

    @property
    def record_seconds(self) -> float:
        """Sum over records of the time waited."""
        return float((self.records * self.waits_ms).sum() / 1000)

    @property
    def settled_ms(self) -> int:
        """When, from the beginning of the stretch, the last record that waits has entered."""
        waiting = np.flatnonzero(self.waits_ms > _WAITS_MS)
        return int(waiting[-1] + 1) * STEP_MS if len(waiting) else 0

    def p99_s(self, path_s: float, until_ms: int) -> float:
        """The 99th percentile over records that enter up to an instant, on a path that takes ``path_s``."""
        steps = until_ms // STEP_MS
        return path_s + weighted_percentile(self.waits_ms[:steps], self.records[:steps], 0.99) / 1000


def delays(
    per_minute: Sequence[float], *, served_before: float, served_after: float, pause_from_ms: int, pause_ms: int
) -> Delays:
    """Waiting under a load in records per minute, with one pause; nothing waits at the beginning.

    ``served_before`` and ``served_after``: records per minute that the job serves at most until the pause, and after it.
    """
    records = np.repeat(np.asarray(per_minute, dtype=np.float64), MINUTE_MS // STEP_MS) * (STEP_MS / MINUTE_MS)
    ends_ms = pause_from_ms + pause_ms
    waits = np.zeros(len(records))
    lag = 0.0
    for step, entered in enumerate(records):
        at_ms = step * STEP_MS
        most = (served_before if at_ms < pause_from_ms else served_after) * (STEP_MS / MINUTE_MS)
        is_paused = pause_from_ms <= at_ms < ends_ms
        # A record of the middle of the step: behind all that waits and half of what enters with it.
        ahead = lag + entered / 2 if is_paused or lag + entered > most else 0.0
        waits[step] = ahead / most * STEP_MS + (ends_ms - at_ms - STEP_MS / 2 if is_paused else 0.0)
        lag = max(0.0, lag + entered - (0.0 if is_paused else most))
    return Delays(records, np.maximum(waits, 0.0))
