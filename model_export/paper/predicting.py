"""Sizing by forecast: what the next hour will bring to each task, divided by what a subtask can do. No torch.

p' = ceil(arrivals per minute x service minutes per record / target), as ``-PRED`` forms of the paper's traffic networks size; the
target is chosen per job on week 1, as HPA's is. Service times are those measured over the last hour.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from contracts.windows import FIGURE, Float32
from model_export.paper.hpa import TARGETS
from model_export.paper.world import View, follow, offsets
from policies.graph import Int64
from policies.proposal import Float64
from policies.rules.reading import Reading
from simulation.jobs import SizedJob
from simulation.loop import Terms, within_limits
from simulation.workload import Workload

RECORDS_MIN = 1.0  # records a minute: below that a ratio of two rates says nothing


class Forecast(Protocol):
    """Something that looks an hour ahead."""

    def log_change(self, view: View) -> Float64:
        """Return the logarithm [B, N] of the next hour's arrivals over the last hour's."""
        ...


def arrivals(figures: Float32) -> Float64:
    """Return records per minute [.., N] that reached each task in a window [.., L, N, F]: taken in, and what its queue grew by.

    After the first minute, at whose end the first queue was seen. What waits in front of another task has not arrived here.
    """
    taken, waiting = figures[..., FIGURE["records_in"]], figures[..., FIGURE["queued_records_last"]]
    records = taken[..., 1:, :].sum(axis=-2, dtype=np.float64) + waiting[..., -1, :] - waiting[..., 0, :]
    rate: Float64 = np.maximum(records / (taken.shape[-2] - 1), RECORDS_MIN)
    return rate


@dataclass(frozen=True, slots=True)
class Predicting:
    """Enough subtasks for the forecast hour, within the paper's step of two, bounds and limit.

    Attributes:
        target: how busy subtasks shall be; [B, 1] tries a target per row.
    """

    forecast: Forecast
    target: float | Float64

    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]; a task whose service time is unknown stays."""
        seen, measured = view.observed, view.measured
        ahead = arrivals(seen.figures) * np.exp(self.forecast.log_change(view))
        exact = np.where(view.graph.scalable, ahead * measured.service_minutes / self.target, np.nan)
        reading = Reading(view.graph, measured, seen.current, seen.figures, seen.hourly_load, seen.ends_ms)
        return within_limits(np.minimum(reading.whole(exact), 2 * seen.current), view.job)


def tuned(
    forecast: Forecast, job: SizedJob, week_1: Workload, terms: Terms, runs: int, decisions: int
) -> tuple[Predicting, float]:
    """Return the rule with the target that pays best on week 1, and what it pays; all targets run side by side."""
    rule = Predicting(forecast, np.repeat(TARGETS, runs)[:, None])
    paid = follow(rule, job, week_1, np.tile(offsets(runs), len(TARGETS)), terms, decisions).reward
    by_target = paid.reshape(len(TARGETS), runs).mean(axis=1)
    best = int(np.argmax(by_target))
    return Predicting(forecast, TARGETS[best]), float(by_target[best])
