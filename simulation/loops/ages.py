"""How long ago the record came that leaves a job now: exact for flowing records that leave in the order they came. Pure.

If L records are inside at a minute's end, the one that leaves next is the L-th newest arrival. So its age follows from the
cumulative arrivals alone, whatever the job's graph does inside; while a job stands still, the age grows with the clock.
"""

from dataclasses import dataclass

import numpy as np

from policies.graph import Int64
from simulation.model.reward import Float64

_NONE_INSIDE = 1e-6  # records: rounding of the recursion


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Cumulative arrivals [2 M + 1] of a workload of M minutes, played twice: it repeats after its last minute."""

    until: Float64

    @classmethod
    def of(cls, requests: Int64) -> "Arrivals":
        """Return the arrivals of a workload [M]."""
        return cls(np.concatenate([[0.0], np.cumsum(np.tile(requests.astype(np.float64), 2))]))

    def ages(self, ends: Int64, inside: Float64) -> Float64:
        """Return minutes [B, m] since the record came that leaves at each of the m minute marks up to minute ``ends`` [B].

        ``inside`` [B, m]: records in the job at these marks. An age is at most the length of the workload.
        """
        minutes, count = (len(self.until) - 1) // 2, inside.shape[1]
        marks = (ends[:, None] - count + np.arange(1, count + 1)) % minutes + minutes
        left = self.until[marks] - np.where(inside > _NONE_INSIDE, inside, 0.0)
        came = np.interp(left, self.until, np.arange(len(self.until), dtype=np.float64))
        ages: Float64 = np.where(inside > _NONE_INSIDE, np.clip(marks - came, 0.0, minutes), 0.0)
        return ages
