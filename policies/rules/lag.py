"""The rule ``lag``: KEDA's scaler on consumer lag, one per task.

p' = ceil(lag / threshold), at least one: the threshold is the lag accepted per subtask. KEDA's threshold is a number of records.
Here it is a time, the minutes a subtask needs to drain its share (records = minutes / d), so one value means the same for fast
and slow tasks. Of a task of unknown cost it is records, as KEDA's, and the most that waited in the last minutes counts, as in
the HorizontalPodAutoscaler that KEDA makes. Without lag the rule goes to one subtask: it knows nothing about the load. A task
whose lag nobody knows keeps its size.
"""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.plurals import records
from surescale.contracts.windows import FIGURE
from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.graph import Int64
from surescale.policies.measure import waiting_told
from surescale.policies.policy import WithoutModel
from surescale.policies.question import Question
from surescale.policies.rules.reading import Reading, answer_of

STABLE_MINUTES = 5


@dataclass(frozen=True, slots=True)
class Lag(WithoutModel):
    """As KEDA's scaler on lag, one per task: accepts some backlog per subtask.

    That is ``threshold_minutes`` of work, or ``threshold_records`` where nobody knows what a record costs.
    """

    threshold_minutes: float = 0.1
    threshold_records: float = 100.0
    name: str = "lag"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        waiting, service = reading.measured.waiting_records, reading.measured.service_minutes
        known = reading.graph.scalable & waiting_told(reading.figures, reading.graph)
        exact = waiting * service / self.threshold_minutes
        if (unknown := known & np.isnan(service)).any():
            lately = np.fmax.reduce(reading.figures[..., -STABLE_MINUTES:, :, FIGURE["queued_records_last"]], axis=-2)
            exact = np.where(unknown, np.fmax(waiting, lately) / self.threshold_records, exact)
        return reading.whole(reading.measured.divided(np.where(known, exact, np.nan)))

    def sentence(self, reading: Reading) -> str:
        """Return the backlog."""
        waiting = float(reading.measured.backlog_records.sum())
        is_unknown = np.isnan(reading.measured.service_minutes[reading.graph.scalable]).any()
        accepted = f"{self.threshold_records:g} records" if is_unknown else f"{self.threshold_minutes:g} minutes of backlog"
        told = records(waiting)
        return f"{told} {'waits' if told == '1 record' else 'wait'}; {accepted} per subtask are accepted."

    def answer(self, question: Question) -> Answer:
        """Return one subtask per accepted lag; no change while nobody knows of any backlog."""
        reading = Reading.of(question)
        if not (waiting_told(reading.figures, reading.graph) & reading.graph.scalable).any():
            return RawAnswer(reading.current, "Nobody knows how many records wait, so sizes stay as they are.")
        return answer_of(self, question)
