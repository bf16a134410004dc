"""The figures of one job over a run: a ledger notes every minute, a report sums them up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from surescale.simulation.model.attempts import Flow
from surescale.simulation.model.reward import REWARD_LAMBDA, Float64, latency_minutes, mean_reward


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one job did over the minutes reported."""

    reward: float
    """Mean reward over blocks."""
    latency_mean_s: float
    """Mean over records, from entering the job to leaving it."""
    latency_p99_s: float
    """99th percentile over minutes, each weighted by its records."""
    utilisation: float
    """Busy over allocated subtask-minutes of the real tasks."""
    task_minutes: int
    """Sum over minutes of the real tasks' parallelism."""
    rescales: int
    """Commands that took effect."""
    overload_minutes: int
    """Minutes in which some task was offered more than its parallelism serves; restarts excluded."""
    parallelism: tuple[int, ...]
    """Per minute, sum over real tasks."""


class JobReport(RunFigures, frozen=True, kw_only=True, omit_defaults=True):
    """The same, and where the job stands."""

    minutes: int
    """Minutes reported."""
    load_records_per_minute: float
    """Load of the last minute."""
    task_parallelism: tuple[tuple[int, ...], ...] = ()
    """Per minute, parallelism of each real task."""


@dataclass(slots=True)
class JobLedger:
    """The figures of every minute of one job, kept for its report."""

    path_minutes: float
    arrivals: list[float] = field(default_factory=list)
    backlog_minutes: list[float] = field(default_factory=list)
    busy_minutes: list[float] = field(default_factory=list)
    overloaded: list[bool] = field(default_factory=list)
    rescaled: list[int] = field(default_factory=list)
    task_parallelism: list[tuple[int, ...]] = field(default_factory=list)

    def note(self, flow: Flow, task_parallelism: Sequence[int], *, rescaled: bool) -> None:
        """Add a flow of one minute and one environment; ``rescaled``: a command took effect at its start."""
        self.arrivals.append(float(flow.arrivals[0, 0]))
        self.backlog_minutes.append(float(flow.backlog_minutes[0, 0]))
        self.busy_minutes.append(float(flow.busy_minutes[0, 0]))
        self.overloaded.append(bool(flow.overloaded[0, 0]))
        self.rescaled.append(int(rescaled))
        self.task_parallelism.append(tuple(task_parallelism))

    def report(self) -> JobReport:
        """Return the figures of the run so far; zeros while there are none."""
        arrivals, backlog = np.array(self.arrivals), np.array(self.backlog_minutes)
        busy, series = np.array(self.busy_minutes), tuple(self.task_parallelism)
        totals = tuple(sum(tasks) for tasks in series)
        allocated = np.array(totals, dtype=np.float64)
        minute_latency_s = 60.0 * latency_minutes(backlog, arrivals, self.path_minutes)
        records = float(arrivals.sum())
        mean_s = 60.0 * (float(backlog.sum()) / records + self.path_minutes) if records else 0.0
        return JobReport(
            reward=mean_reward(arrivals, backlog, busy, allocated, self.path_minutes, REWARD_LAMBDA),
            latency_mean_s=mean_s,
            latency_p99_s=weighted_percentile(minute_latency_s, arrivals, 0.99),
            utilisation=float(busy.sum() / allocated.sum()) if any(totals) else 0.0,
            task_minutes=sum(totals),
            rescales=sum(self.rescaled),
            overload_minutes=sum(self.overloaded),
            minutes=len(totals),
            load_records_per_minute=float(arrivals[-1]) if totals else 0.0,
            parallelism=totals,
            task_parallelism=series,
        )


def weighted_percentile(values: Float64, weights: Float64, share: float) -> float:
    """Return the smallest value that covers at least this share of the weight; 0 without weight."""
    if not weights.sum() > 0:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, share * passed[-1], side="left")])
