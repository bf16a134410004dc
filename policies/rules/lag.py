"""The rule ``lag``: KEDA's scaler on consumer lag, one per task.

p' = ceil(lag / threshold), at least one: so many waiting records per subtask are accepted. KEDA's threshold is a number of
records; here it is a time, the minutes that a subtask needs to work off its share (records = minutes / d), so that one value
means the same at fast and slow tasks. Without lag the rule goes to one subtask: it knows nothing of the load.
"""

from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import Int64
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer
from policies.rules.reading import Reading, answer_of


@dataclass(frozen=True, slots=True)
class Lag:
    """Accepts ``threshold_minutes`` of waiting work per subtask."""

    threshold_minutes: float = 0.1
    name: str = "lag"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        work = reading.measured.backlog_records * reading.measured.service_minutes
        return reading.whole(np.where(reading.graph.scalable, work, np.nan) / self.threshold_minutes)

    def sentence(self, reading: Reading) -> str:
        """Say what waits."""
        waiting = float(reading.measured.backlog_records.sum())
        return f"{waiting:.0f} records wait; {self.threshold_minutes:g} minutes of work per subtask are accepted."

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios towards one subtask per accepted lag."""
        return answer_of(self, window)
