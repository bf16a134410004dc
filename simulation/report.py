"""What a run of one job came to: reward, latency, utilisation, task minutes. Pure.

The reward is the linear one of the SURE paper (IJCAI 2022), -lambda * latency + (1 - lambda) * utilisation, latency in minutes,
taken per block of 60 minutes and averaged over blocks; a last shorter block counts by its minutes. A block's latency is what its
records waited on the average (Little's law: backlog integral over arrivals) plus the service times on the longest path, at most
``LATENCY_MINUTES_MAX``: beyond that, ten minutes and ten hours of delay are equally useless.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from simulation.flow import Flow

Float64 = npt.NDArray[np.float64]

REWARD_LAMBDA = 0.5
BLOCK_MINUTES = 60
LATENCY_MINUTES_MAX = 10.0


@dataclass(frozen=True, slots=True)
class JobReport:
    """Figures of one job over the minutes reported.

    Attributes:
        reward: mean over blocks (see the module).
        latency_mean_s: mean over records, from entering the job to leaving it.
        latency_p99_s: 99th percentile over minutes, each weighted by its records.
        utilisation: busy over allocated subtask-minutes of the real tasks.
        task_minutes: sum over minutes of the real tasks' parallelism.
        rescales: commands that took effect.
        overload_minutes: minutes in which some task was offered more than its parallelism serves; restarts excluded.
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
    """What is noted of every minute of one job, for its report."""

    path_minutes: float
    arrivals: list[float] = field(default_factory=list)
    backlog_minutes: list[float] = field(default_factory=list)
    busy_minutes: list[float] = field(default_factory=list)
    overloaded: list[bool] = field(default_factory=list)
    rescaled: list[int] = field(default_factory=list)
    task_parallelism: list[tuple[int, ...]] = field(default_factory=list)

    def note(self, flow: Flow, task_parallelism: Sequence[int], *, rescaled: bool) -> None:
        """Note a flow of one minute and one environment; ``rescaled``: a command took effect at its beginning."""
        self.arrivals.append(float(flow.arrivals[0, 0]))
        self.backlog_minutes.append(float(flow.backlog_minutes[0, 0]))
        self.busy_minutes.append(float(flow.busy_minutes[0, 0]))
        self.overloaded.append(bool(flow.overloaded[0, 0]))
        self.rescaled.append(int(rescaled))
        self.task_parallelism.append(tuple(task_parallelism))

    def report(self, first_minute: int = 0, reward_lambda: float = REWARD_LAMBDA) -> JobReport:
        """Return the figures of the minutes from ``first_minute`` of the run on; zeros while there are none."""
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


def block_reward(
    arrivals: Float64, backlog_minutes: Float64, busy: Float64, allocated: Float64, path_minutes: float, reward_lambda: float
) -> Float64:
    """Return the reward of blocks, from each block's sums over its minutes; all arguments of one shape."""
    latency = np.minimum(latency_minutes(backlog_minutes, arrivals, path_minutes), LATENCY_MINUTES_MAX)
    reward: Float64 = -reward_lambda * latency + (1 - reward_lambda) * busy / np.maximum(allocated, 1e-9)
    return reward


def latency_minutes(backlog_minutes: Float64, arrivals: Float64, path_minutes: float) -> Float64:
    """Return the mean latency by Little's law; without arrivals, the cap if anything waited, else the path alone."""
    waited: Float64 = np.where(backlog_minutes > 0, LATENCY_MINUTES_MAX, 0.0)
    np.divide(backlog_minutes, arrivals, out=waited, where=arrivals > 0)
    waited += path_minutes
    return waited


def mean_reward(
    arrivals: Float64, backlog: Float64, busy: Float64, allocated: Float64, path_minutes: float, reward_lambda: float
) -> float:
    """Return the mean block reward of per-minute series [m]; 0 while there are no minutes."""
    if not len(arrivals):
        return 0.0
    starts = np.arange(0, len(arrivals), BLOCK_MINUTES)
    entered, waited, used, paid = (np.add.reduceat(series, starts) for series in (arrivals, backlog, busy, allocated))
    rewards = block_reward(entered, waited, used, paid, path_minutes, reward_lambda)
    lengths = np.diff(np.append(starts, len(arrivals)))
    return float((rewards * lengths).sum() / lengths.sum())


def weighted_percentile(values: Float64, weights: Float64, share: float) -> float:
    """Return the least value that at least this share of the weight does not pass; 0 without weight."""
    if not weights.sum() > 0:
        return 0.0
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(passed, share * passed[-1], side="left")])
