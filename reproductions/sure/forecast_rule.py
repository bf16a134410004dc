"""Size tasks by forecast: the load each task gets in the next hour, divided by the capacity of a subtask. Works without torch.

p' = ceil(arrivals per minute x service minutes per record / target). The ``-PRED`` forms of the traffic networks size this way.
The target is chosen per job on week 1, as for HPA. Service times are those measured over the last hour.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reproductions.sure.environment import View, follow, offsets
from reproductions.sure.hpa import TARGETS
from surescale.contracts.windows import FIGURE, Float32
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Reading
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import Terms

RECORDS_MIN = 1.0  # records per minute; below that, a ratio of two rates is meaningless


class Forecast(Protocol):
    """A forecaster of the next hour."""

    def log_change(self, view: View) -> Float64:
        """Return the logarithm [B, N] of the next hour's arrivals over the last hour's."""
        ...


def arrivals(figures: Float32) -> Float64:
    """Return records per minute [.., N] that reached each task in a window [.., L, N, F]: those it took in plus queue growth.

    Counts from the end of the first minute, when its queue is first known. Records waiting at another task have not arrived here.
    """
    taken, waiting = figures[..., FIGURE["records_in"]], figures[..., FIGURE["queued_records_last"]]
    records = taken[..., 1:, :].sum(axis=-2, dtype=np.float64) + waiting[..., -1, :] - waiting[..., 0, :]
    rate: Float64 = np.maximum(records / (taken.shape[-2] - 1), RECORDS_MIN)
    return rate


@dataclass(frozen=True, slots=True)
class ForecastRule:
    """The rule: enough subtasks for the forecast hour, at most doubled, within bounds and limit.

    Attributes:
        target: intended utilisation of subtasks; [B, 1] tries one target per row.
    """

    forecast: Forecast
    target: float | Float64

    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]. A task with unknown service time keeps its size."""
        seen, measured = view.observed, view.measured
        ahead = arrivals(seen.figures) * np.exp(self.forecast.log_change(view))
        exact = np.where(view.graph.scalable, ahead * measured.service_minutes / self.target, np.nan)
        reading = Reading(view.graph, measured, seen.current, seen.figures, seen.hourly_load, seen.ends_ms)
        return view.job.within_limits(np.minimum(reading.whole(exact), 2 * seen.current))


def tuned(
    forecast: Forecast, job: SizedJob, week_1: Workload, terms: Terms, runs: int, decisions: int
) -> tuple[ForecastRule, float]:
    """Return the rule with the best target on week 1, and its reward. All targets run side by side."""
    rule = ForecastRule(forecast, np.repeat(TARGETS, runs)[:, None])
    paid = follow(rule, job, week_1, np.tile(offsets(runs), len(TARGETS)), terms, decisions).reward
    by_target = paid.reshape(len(TARGETS), runs).mean(axis=1)
    best = int(np.argmax(by_target))
    return ForecastRule(forecast, TARGETS[best]), float(by_target[best])
