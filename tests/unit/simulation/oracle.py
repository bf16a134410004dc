"""An event-driven simulation of single records: what the fluid model is compared with. Slow, exact, independent of it."""

import heapq

import numpy as np

from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model.queueing import Float64


def arrival_times(requests: list[int]) -> Float64:
    """Return when each record arrives, in minutes, evenly within its minute."""
    return np.concatenate([minute + (np.arange(count) + 0.5) / count for minute, count in enumerate(requests) if count])


def mean_sojourn_minutes(
    job: SizedJob, parallelism: list[int], arrivals: Float64, down: tuple[float, float] = (0.0, 0.0)
) -> float:
    """Return the mean time from a record's arrival to its leaving the job.

    Every task has p servers and one queue in order of arrival; a record is ready for a task when all parents have finished it.
    Nothing is served in the interval ``down``; what was in service when it began is served again from its end on.
    """
    finished: list[Float64] = []
    for task, parents in enumerate(job.graph.upstream):
        ready = np.max([finished[parent] for parent in parents], axis=0) if parents else arrivals
        finished.append(_served(ready, float(job.service_minutes[task]), int(parallelism[task]), down))
    return float((finished[-1] - arrivals).mean())


def _served(ready: Float64, service: float, servers: int, down: tuple[float, float]) -> Float64:
    if service == 0:
        return ready
    free = [0.0] * servers
    done = np.empty_like(ready)
    for record, at in enumerate(ready):
        begin = max(at, heapq.heappop(free))
        if begin + service > down[0] and begin < down[1]:
            begin = down[1]
        done[record] = begin + service
        heapq.heappush(free, done[record])
    return done
