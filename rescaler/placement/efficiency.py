"""Cost efficiency CE of a host (eq. 22): what one record, or one subtask, costs there.

Observed if the host has a history. A host without data would have CE = cost / 0, so its CE is estimated from its price and its
room. Beware of the feedback: CE falls when a host receives more data, so observed figures favour hosts that are already busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, fsum, inf, isfinite

from .model import TOLERANCE, Host, PlaceRequest, Task


def cost_efficiency(request: PlaceRequest) -> tuple[float, ...]:
    """Return CE per host, in the request's order. Smaller is better; infinite: the host can take nothing.

    Hosts without history: price / (mean subtasks the host can take), scaled by the median of observed / estimated over
    the hosts that have both, so that both kinds are comparable.
    """
    mean_cpu, mean_memory = mean_demand(request.tasks)
    estimated = [estimate(host, request.delta, mean_cpu, mean_memory) for host in request.hosts]
    observed = [host.history.efficiency for host in request.hosts]
    ratios = [seen / guess for seen, guess in zip(observed, estimated, strict=True) if seen is not None and 0 < guess < inf]
    ratios = [ratio for ratio in ratios if isfinite(ratio)]
    scale = median(ratios) if ratios else 1.0
    return tuple(
        seen if seen is not None else (guess * scale if isfinite(guess) else inf)
        for seen, guess in zip(observed, estimated, strict=True)
    )


def mean_demand(tasks: Sequence[Task]) -> tuple[float, float]:
    """Return mean cores and GB of a subtask of the job; zeros for a job without subtasks."""
    count = sum(task.parallelism for task in tasks)
    if count == 0:
        return 0.0, 0.0
    cpu = fsum(task.parallelism * task.cpu for task in tasks)
    return cpu / count, fsum(task.parallelism * task.memory for task in tasks) / count


def estimate(host: Host, delta: float, mean_cpu: float, mean_memory: float) -> float:
    """Return the price over the mean subtasks `host` can take beside others' use: whole ones if it takes at least one."""
    room = float(host.slots - host.used_slots)
    if mean_cpu > 0:
        room = min(room, (delta * host.cpu - host.used_cpu) / mean_cpu)
    if mean_memory > 0:
        room = min(room, (delta * host.memory - host.used_memory) / mean_memory)
    if room + TOLERANCE >= 1:
        room = floor(room + TOLERANCE)
    return host.price / room if room > 0 else inf


def median(values: Sequence[float]) -> float:
    """Return the middle value; for an even count the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2
