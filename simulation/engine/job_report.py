"""The figures of one job over a run: a ledger notes every minute, a report sums them up. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surescale.simulation.model.attempts import Flow
from surescale.simulation.model.reward import REWARD_LAMBDA, Float64, latency_minutes, mean_reward


@dataclass(frozen=True, slots=True)
class JobReport:
    """Figures of one job over the minutes reported.

    Attributes:
        reward: mean over blocks (see the module).
        latency_mean_s: mean over records, from entry into the job to exit.
        latency_p99_s: 99th percentile over minutes, each weighted by its records.
        utilisation: busy over allocated subtask-minutes of the real tasks.
        task_minutes: sum over minutes of the real tasks' parallelism.
        rescales: commands that took effect.
        overload_minutes: minutes in which some task received more than its parallelism can serve; restarts excluded.
        minutes: minutes reported.
        load_records_per_minute: of the last minute.
        parallelism: per minute, sum over real tasks.
        task_parallelism: per minute, parallelism of each real task.
    """

    reward: float
    latency_mean_s: float
    latency_p99_s: float
    utilisation: float
    task_minutes: int
    rescales: int
    overload_minutes: int
    minutes: int
    load_records_per_minute: float
    parallelism: tuple[int, ...]
    task_parallelism: tuple[tuple[int, ...], ...]


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

    def report(self, first_minute: int = 0, reward_lambda: float = REWARD_LAMBDA) -> JobReport:
        """Return the figures from minute ``first_minute`` of the run on; zeros while there are none."""
        chosen = slice(first_minute, None)
        arrivals, backlog = np.array(self.arrivals[chosen]), np.array(self.backlog_minutes[chosen])
        busy, series = np.array(self.busy_minutes[chosen]), tuple(self.task_parallelism[chosen])
        totals = tuple(sum(tasks) for tasks in series)
        allocated = np.array(totals, dtype=np.float64)
        minute_latency_s = 60.0 * latency_minutes(backlog, arrivals, self.path_minutes)
        records = float(arrivals.sum())
        mean_s = 60.0 * (float(backlog.sum()) / records + self.path_minutes) if records else 0.0
        return JobReport(
            reward=mean_reward(arrivals, backlog, busy, allocated, self.path_minutes, reward_lambda),
            latency_mean_s=mean_s,
            latency_p99_s=weighted_percentile(minute_latency_s, arrivals, 0.99),
            utilisation=float(busy.sum() / allocated.sum()) if any(totals) else 0.0,
            task_minutes=sum(totals),
            rescales=sum(self.rescaled[chosen]),
            overload_minutes=sum(self.overloaded[chosen]),
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
