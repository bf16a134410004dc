"""The reward of a job: -lambda * latency + (1 - lambda) * utilisation, latency in minutes (SURE paper, IJCAI 2022). Pure.

It is taken per block of 60 minutes and averaged over blocks; a shorter last block counts by its minutes. A block's latency is the
average wait of its records (Little's law: backlog integral over arrivals) plus the service times on the longest path, at most
``LATENCY_MINUTES_MAX``: ten hours of delay are as useless as ten minutes.
"""

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

REWARD_LAMBDA = 0.5
BLOCK_MINUTES = 60
LATENCY_MINUTES_MAX = 10.0


def block_reward(
    arrivals: Float64, backlog_minutes: Float64, busy: Float64, allocated: Float64, path_minutes: float, reward_lambda: float
) -> Float64:
    """Return the reward of blocks from the sums over each block's minutes; all arrays have one shape."""
    latency = np.minimum(latency_minutes(backlog_minutes, arrivals, path_minutes), LATENCY_MINUTES_MAX)
    reward: Float64 = -reward_lambda * latency + (1 - reward_lambda) * busy / np.maximum(allocated, 1e-9)
    return reward


def latency_minutes(backlog_minutes: Float64, arrivals: Float64, path_minutes: float) -> Float64:
    """Return the mean latency by Little's law. Without arrivals: the cap if anything waited, else the path alone."""
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
