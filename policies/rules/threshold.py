"""The rule ``threshold``: one more subtask above a high mark of utilisation, one fewer below a low mark, for each task alone.

Where work is dealt out it is the next even size instead (``policies.dealt``): one more of 32 carries no more.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.dealt import larger, smaller
from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Reading, RuleWithoutModel


@dataclass(frozen=True, slots=True)
class Threshold(RuleWithoutModel):
    """One more subtask above a high mark of utilisation, one fewer below a low.

    p' = p + 1 above ``high``, p - 1 below ``low``, by the utilisation of the last minutes.
    """

    high: float = 0.8
    low: float = 0.3
    metric_minutes: int = 10
    name: str = "threshold"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        current, dealt = reading.current, reading.graph.deal
        helps = reading.graph.scalable & ~np.isnan(reading.measured.divided(current.astype(np.float64)))
        used = np.where(helps, reading.utilisation(self.metric_minutes), np.nan)
        busy = used * current / reading.carried  # of the busiest
        low, high = self._marks(reading)
        return np.where(busy > high, larger(current, dealt), np.where(busy < low, smaller(current, dealt), current))

    def _marks(self, reading: Reading) -> tuple[float, float]:
        """Return both marks; those of an owner who wants another utilisation are as far apart, relative to it."""
        middle = (self.low + self.high) / 2.0
        shift = reading.aim(middle) / middle
        return self.low * shift, min(1.0, self.high * shift)

    def sentence(self, reading: Reading) -> str:
        """Return the marks."""
        low, high = self._marks(reading)
        return f"The next larger size for tasks above {high:.0%} busy, the next smaller one below {low:.0%}."
