"""The rule ``flink``: the arithmetic of the Flink Kubernetes operator's autoscaler (FLIP-271).

The capacity a vertex should have, in records a minute:

    capacity(u) = rate / u + lag / catch_up + rate x restart / catch_up

rate = mean over the metrics window, propagated along the graph; lag = records waiting at the vertex or before it, as many as
will reach it; the last term is the lag that builds up during the restart itself. p' = ceil(p x capacity(u) / true capacity), true
capacity = p / d, where the busiest subtask counts (the operator's busy time is the maximum over subtasks). The job
stays as it is while every vertex whose p' differs from p carries between capacity(u + boundary), without the restart term, and
capacity(u - boundary). A vertex whose p' rounds to p does not make the others change.

The operator's other limits are settings of the job for every policy: steps, bounds and excluded periods are guardrails, and the
interval between scale-downs is kept by the rescaler, which has a memory. The job's settings ``catch_up_minutes`` and
``restart_seconds`` take the place of the constants here.
"""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.plurals import records
from surescale.contracts.saturation import NEVER_RESTS
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.measure import mean_of_last, waiting_told
from surescale.policies.rules.reading import Reading, RuleWithoutModel, changed_where, mean_in_words

UTILISATION_MIN = 0.05  # lower bound of u - boundary


@dataclass(frozen=True, slots=True)
class FlinkAutoscaler(RuleWithoutModel):
    """As the autoscaler of Flink's Kubernetes operator (FLIP-271).

    Defaults are the operator's: u 0.7, boundary 0.3, catch-up 30 min, restart 5 min, metrics window 15 min.
    """

    utilisation: float = 0.7
    boundary: float = 0.3
    catch_up_minutes: float = 30.0
    restart_minutes: float = 5.0
    metrics_minutes: int = 15
    name: str = "flink"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while all vertices are within the boundaries."""
        aim = reading.aim(self.utilisation)
        asked = self._capacity(reading, aim, restart=True)
        least = self._capacity(reading, min(1.0, aim + self.boundary), restart=False)
        most = self._capacity(reading, max(UTILISATION_MIN, aim - self.boundary), restart=True)
        wanted = reading.whole(asked)
        outside = (wanted != reading.current) & ((reading.carried < least) | (reading.carried > most))  # False where NaN
        # Nobody knows what waits for a task that never rests: what it gets through hides how much more comes.
        hidden = (reading.utilisation(self.metrics_minutes) >= NEVER_RESTS) & ~waiting_told(reading.figures, reading.graph)
        outside |= hidden & (wanted > reading.current)
        return changed_where(np.asarray(outside.any(axis=-1)), wanted, reading.current)

    def _capacity(self, reading: Reading, utilisation: float, *, restart: bool) -> Float64:
        """Return the wanted capacity in subtasks [.., N]: records a minute times d."""
        rate = mean_of_last(reading.measured.load, self.metrics_minutes)
        busy = reading.demand(rate)
        measured = reading.measured
        lag = measured.flows.carried(measured.backlog_records) * measured.service_minutes
        stopped = self.restart_minutes if reading.restart_minutes is None else reading.restart_minutes
        again = stopped if restart else 0.0
        catch_up = reading.catch_up(self.catch_up_minutes)
        return measured.widened(busy / reading.target(utilisation) + (lag + busy * again) / catch_up)

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        rate, aim = float(mean_of_last(reading.measured.load, self.metrics_minutes)), reading.aim(self.utilisation)
        stopped = reading.restart_minutes
        restart = "the restart" if stopped is None else f"a restart of {60.0 * stopped:.3g} s"
        load = f"{records(rate)} a minute ({mean_in_words(self.metrics_minutes)})"
        return f"Capacity for {load} at {aim:.0%} busy, plus the backlog and {restart}."
