"""The rule ``lag``: KEDA's scaler on consumer lag, one per task.

p' = ceil(lag / threshold), at least one: the threshold is the lag accepted per subtask. KEDA's threshold is a number of records.
Here it is a time, the minutes a subtask needs to drain its share (records = minutes / d), so one value means the same for fast
and slow tasks. Without lag the rule goes to one subtask: it knows nothing about the load. A task whose lag nobody knows keeps its
size.
"""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.windows import FIGURE
from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.graph import Bool, Int64
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.question import Question
from surescale.policies.rules.reading import Reading, answer_of


@dataclass(frozen=True, slots=True)
class Lag:
    """As KEDA's scaler on lag, one per task: accepts some backlog per subtask.

    That is ``threshold_minutes`` of work.
    """

    threshold_minutes: float = 0.1
    name: str = "lag"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        work = reading.measured.waiting_records * reading.measured.service_minutes
        known = reading.graph.scalable & self._is_told(reading)
        return reading.whole(reading.measured.divided(np.where(known, work, np.nan) / self.threshold_minutes))

    def _is_told(self, reading: Reading) -> Bool:
        """Return [.., N] whether the queue of a task, or of a source, is known in any minute."""
        told = np.asarray((~np.isnan(reading.figures[..., FIGURE["queued_records_last"]])).any(axis=-2))
        at_source = np.asarray(told[..., reading.graph.by_level[0]].any(axis=-1, keepdims=True))
        known: Bool = told | at_source
        return known

    def sentence(self, reading: Reading) -> str:
        """Return the backlog."""
        waiting = float(reading.measured.backlog_records.sum())
        return f"{waiting:.0f} records wait; {self.threshold_minutes:g} minutes of backlog per subtask are accepted."

    def answer(self, question: Question) -> Answer:
        """Return one subtask per accepted lag; no change while nobody knows of any backlog."""
        reading = Reading.of(question)
        if not (self._is_told(reading) & reading.graph.scalable).any():
            return RawAnswer(reading.current, "Nobody knows how many records wait, so sizes stay as they are.")
        return answer_of(self, question)
