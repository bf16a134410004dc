"""An event-driven simulation of batches, shard by shard: what the max-plus recursion is compared with. Slow, and written apart.

A batch arrives every minute. A task that has it from all parents splits it over its instances, idle ones first; every instance
works off its shards in order; the batch is done when its last shard is. A restart clears all instances and gives each task its
unfinished batches again. Times are minutes.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model.queueing import Float64

TIE = 1e-9
RESTART = 1.0
SILENT = 1.0


@dataclass
class Task:
    """One task: its instances and the batches that it has been handed and not finished."""

    service: float
    free: list[float]  # per instance, when its last shard ends
    shards: list[tuple[float, float]] = field(default_factory=list)  # begin and end of every shard
    unfinished: list[int] = field(default_factory=list)

    def take(self, size: int, now: float) -> float:
        """Give a batch to the instances and return when its last shard ends."""
        count = min(len(self.free), size)
        order = sorted(range(len(self.free)), key=lambda one: (self.free[one] > now + TIE, one))
        done = now
        for at in range(count):
            begin = max(self.free[order[at]], now)
            end = begin + (size // count + (at < size % count)) * self.service
            self.free[order[at]] = end
            self.shards.append((begin, end))
            done = max(done, end)
        return done

    def busy(self, now: float) -> int:
        """Return the instances at work at an instant."""
        self.shards = [shard for shard in self.shards if shard[1] > now + TIE]
        return sum(begin < now - TIE for begin, _ in self.shards)


class EventJob:
    """A job under one batch a minute, from time 0 on."""

    def __init__(self, job: SizedJob, parallelism: Sequence[int]) -> None:
        """Start empty."""
        self.job = job
        self.tasks = [Task(float(d), [0.0] * int(p)) for d, p in zip(job.service_minutes, parallelism, strict=True)]
        self.children: list[list[int]] = [[] for _ in self.tasks]
        for child, parents in enumerate(job.graph.upstream):
            for parent in parents:
                self.children[parent].append(child)
        self.events: list[tuple[float, int, int]] = []  # when, batch, task
        self.size: list[int] = []
        self.arrived: list[float] = []
        self.waits_for: list[list[int]] = []  # per batch and task, parents still to come
        self.left: list[tuple[float, int]] = []  # when, batch
        self.down_until = 0.0

    def arrive(self, size: int, now: float) -> None:
        """Hand the source a batch."""
        batch = len(self.size)
        self.size.append(size)
        self.arrived.append(now)
        self.waits_for.append([len(parents) for parents in self.job.graph.upstream])
        self._hand(0, batch, now)

    def run_until(self, now: float) -> None:
        """Let everything happen that ends by a time."""
        while self.events and self.events[0][0] <= now + TIE:
            at, batch, task = heapq.heappop(self.events)
            self.tasks[task].unfinished.remove(batch)
            if not self.children[task]:
                self.left.append((at, batch))
            for child in self.children[task]:
                self.waits_for[batch][child] -= 1
                if not self.waits_for[batch][child]:
                    self._hand(child, batch, at)

    def restart(self, parallelism: Sequence[int], now: float) -> None:
        """Throw away what is in service and begin again at another parallelism."""
        self.down_until, self.events = now + RESTART, []
        for index, (task, instances) in enumerate(zip(self.tasks, parallelism, strict=True)):
            task.free, task.shards = [self.down_until] * int(instances), []
            for batch in task.unfinished:
                heapq.heappush(self.events, (task.take(self.size[batch], self.down_until), batch, index))

    def utilisation(self, now: float) -> float:
        """Return the mean over all tasks of busy instances over instances."""
        return float(np.mean([task.busy(now) / len(task.free) for task in self.tasks]))

    def _hand(self, index: int, batch: int, now: float) -> None:
        task, begin = self.tasks[index], max(now, self.down_until)
        task.unfinished.append(batch)
        heapq.heappush(self.events, (task.take(self.size[batch], begin), batch, index))


@dataclass(frozen=True)
class Told:
    """Per span: latency and utilisation as the paper's code takes them; per batch that left: its sojourn."""

    latency: list[float]
    utilisation: list[float]
    sojourn: dict[int, float]


def as_the_paper_does(job: SizedJob, requests: Sequence[int], start: Sequence[int], plans: Sequence[Sequence[int]]) -> Told:
    """Run 60 minutes at ``start``, then one hour per plan; every plan restarts the job and is judged by its 59 snapshots."""
    events, latencies, shares, seen = EventJob(job, start), [], [], 0
    for minute in range(60 * (len(plans) + 1)):
        events.run_until(minute)
        hour, within = divmod(minute, 60)
        if hour and within != 1:
            fresh = events.left[seen:]
            per_request = [(at - events.arrived[batch]) / events.size[batch] for at, batch in fresh]
            latencies.append(float(np.mean(per_request)) if per_request else SILENT)
            shares.append(events.utilisation(minute))
        if within != 1 or not hour:
            seen = len(events.left)
        if hour and not within:
            events.restart(plans[hour - 1], minute)
        events.arrive(requests[minute], minute)
    by_span = [slice(59 * span, 59 * (span + 1)) for span in range(len(plans))]
    return Told(
        latency=[float(np.mean(latencies[span])) for span in by_span],
        utilisation=[float(np.mean(shares[span])) for span in by_span],
        sojourn={batch: at - events.arrived[batch] for at, batch in events.left},
    )


def mean_wait(arrivals: Float64, services: Float64, servers: int) -> float:
    """Return the mean wait of single requests before one of several servers takes them, first come first served."""
    free, waited = [0.0] * servers, 0.0
    for at, service in zip(arrivals, services, strict=True):
        begin = max(at, heapq.heappop(free))
        waited += begin - at
        heapq.heappush(free, begin + service)
    return waited / len(arrivals)
