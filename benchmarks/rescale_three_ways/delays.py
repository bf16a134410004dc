"""What a pause does to the records of a job: how many wait, and for how long. Pure.

Uses the simulator's fluid model of a job (`simulation.model.queueing`) with steps of 100 ms instead of 15 s, to tell a pause of
one second from none. While the job stands still, its lag grows by every record that enters. Afterwards the lag falls as fast as
the slowest task allows. A record leaves when every record before it has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.simulation.engine.job_report import weighted_percentile

STEP_MS = 100
_WAITS_MS = 1.0
"""A shorter wait counts as none."""

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Delays:
    """How long the records wait that enter during one period, in steps of `STEP_MS`."""

    records: Float64
    """Records that enter in each step."""
    waits_ms: Float64
    """Time a record of each step waits, on top of its way through the idle job."""

    @property
    def delayed(self) -> float:
        """Return the number of records that wait at all."""
        return float(self.records[self.waits_ms > _WAITS_MS].sum())

    @property
    def record_seconds(self) -> float:
        """Return the total waiting time over all records."""
        return float((self.records * self.waits_ms).sum() / 1000)

    @property
    def settled_ms(self) -> int:
        """Return when the last waiting record enters, counted from the start of the period."""
        waiting = np.flatnonzero(self.waits_ms > _WAITS_MS)
        return int(waiting[-1] + 1) * STEP_MS if len(waiting) else 0

    def p99_s(self, path_s: float, until_ms: int) -> float:
        """Return the 99th percentile of latency over records that enter until ``until_ms``, on a path that takes ``path_s``."""
        steps = until_ms // STEP_MS
        return path_s + weighted_percentile(self.waits_ms[:steps], self.records[:steps], 0.99) / 1000


def delays(
    per_minute: Sequence[float], *, served_before: float, served_after: float, pause_from_ms: int, pause_ms: int
) -> Delays:
    """Return the delays under a load in records per minute with one pause; no record waits at the start.

    ``served_before`` and ``served_after`` are the most records per minute the job can serve, until the pause and after it.
    """
    records = np.repeat(np.asarray(per_minute, dtype=np.float64), MINUTE_MS // STEP_MS) * (STEP_MS / MINUTE_MS)
    ends_ms = pause_from_ms + pause_ms
    waits = np.zeros(len(records))
    lag = 0.0
    for step, entered in enumerate(records):
        at_ms = step * STEP_MS
        most = (served_before if at_ms < pause_from_ms else served_after) * (STEP_MS / MINUTE_MS)
        is_paused = pause_from_ms <= at_ms < ends_ms
        # Take a record in the middle of the step: ahead of it are all waiting records and half of those that enter in the step.
        ahead = lag + entered / 2 if is_paused or lag + entered > most else 0.0
        waits[step] = ahead / most * STEP_MS + (ends_ms - at_ms - STEP_MS / 2 if is_paused else 0.0)
        lag = max(0.0, lag + entered - (0.0 if is_paused else most))
    return Delays(records, np.maximum(waits, 0.0))
