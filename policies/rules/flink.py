"""The rule ``flink``: what the autoscaler of the Flink Kubernetes operator computes (FLIP-271).

Capacity wanted of a vertex, in records a minute:

    capacity(u) = rate / u + lag / catch_up + rate x restart / catch_up

rate = mean over the metrics window, carried along the graph; lag = records waiting at the vertex or before it; the last term
is what piles up during the restart itself. p' = ceil(p x capacity(u) / true capacity), true capacity = p / d. The job stays as
it is while every vertex whose p' differs from p lies between capacity(u + boundary), without the restart term, and
capacity(u - boundary); a vertex that rounding keeps at its p cannot make the others change.

Of the operator's further limits, ``scale-down.max-factor`` (at most 60 % fewer) is wider than the guardrails' half, and the
interval between two scale-downs is a memory, which a policy here does not have.
"""

from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import Int64, JobGraph
from policies.measure import mean_of_last
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, Float64
from policies.rules.reading import Reading, answer_of, changed_where

UTILISATION_MIN = 0.05  # what is left of u - boundary


@dataclass(frozen=True, slots=True)
class FlinkAutoscaler:
    """Defaults are the operator's: u 0.7, boundary 0.3, catch-up 30 min, restart 5 min, metrics window 15 min."""

    utilisation: float = 0.7
    boundary: float = 0.3
    catch_up_minutes: float = 30.0
    restart_minutes: float = 5.0
    metrics_minutes: int = 15
    name: str = "flink"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while all vertices are within the boundaries."""
        asked = self._capacity(reading, self.utilisation, restart=True)
        least = self._capacity(reading, self.utilisation + self.boundary, restart=False)
        most = self._capacity(reading, max(UTILISATION_MIN, self.utilisation - self.boundary), restart=True)
        wanted = reading.whole(asked)
        outside = (wanted != reading.current) & ((reading.current < least) | (reading.current > most))  # False where NaN
        return changed_where(np.asarray(outside.any(axis=-1)), wanted, reading.current)

    def _capacity(self, reading: Reading, utilisation: float, *, restart: bool) -> Float64:
        """Return the capacity wanted, in subtasks [.., N]: records a minute times d."""
        rate = mean_of_last(reading.measured.load, self.metrics_minutes)
        busy = reading.demand(rate)
        lag = carried_lag(reading.measured.backlog_records, reading.graph) * reading.measured.service_minutes
        again = self.restart_minutes if restart else 0.0
        return busy / utilisation + (lag + busy * again) / self.catch_up_minutes

    def sentence(self, reading: Reading) -> str:
        """Say for which load."""
        rate = float(mean_of_last(reading.measured.load, self.metrics_minutes))
        return f"Capacity for {rate:.0f} records a minute at {self.utilisation:.0%} busy, waiting work and the restart."

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios towards the wanted capacity, or ones within the boundaries."""
        return answer_of(self, window)


def carried_lag(waiting: Float64, graph: JobGraph) -> Float64:
    """Return the records [.., N] that wait at a task or, along its worst path, before it."""
    lag = np.array(waiting, dtype=np.float64)
    if not lag.any():
        return lag
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        lag[..., members] += np.where(known, lag[..., parents], 0.0).max(axis=-1)
    return lag
