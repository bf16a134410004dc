"""What every algorithm needs to know about a request, computed once: ranks, demands per task, hosts by cost efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, fsum, inf, isfinite

from surescale.rescaler.placement.model import TOLERANCE, Host, PlaceRequest, Sub, Task
from surescale.rescaler.placement.order import ascending, subtask_key, subtask_list, topological_ranks


def cost_efficiency(request: PlaceRequest) -> tuple[float, ...]:
    """Return the cost efficiency per host (eq. 22), in the request's order: what one record, or one subtask, costs there.

    Smaller is better; infinite: the host can take nothing. Observed if the host has a history. Beware of the feedback: it falls
    when a host receives more data, so observed figures favour hosts that are already busy. Hosts without history would have
    cost / 0, so they are estimated: price / (mean subtasks the host can take), scaled by the median of observed / estimated over
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


@dataclass(frozen=True, slots=True)
class Problem:
    """A request with its derived orders. Hosts and tasks are their positions in the request's lists."""

    request: PlaceRequest
    edges: tuple[tuple[int, int], ...]
    """Task positions of each edge, in the request's order."""
    ranks: tuple[int, ...]
    """Topological rank per task."""
    running: dict[Sub, int | None]
    """Where each subtask of `placement` runs now; None: its host is gone."""
    efficiency: tuple[float, ...]
    """Cost efficiency per host [$ per record, or $ per subtask where estimated]; infinite: takes nothing."""
    by_efficiency: tuple[int, ...]
    """Hosts by cost efficiency, best first."""

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The cluster, in the request's order."""
        return self.request.hosts

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The job's tasks, in the request's order."""
        return self.request.tasks

    @property
    def delta(self) -> float:
        """Share of a host this algorithm may fill."""
        return self.request.delta

    @property
    def interleaved(self) -> bool:
        """Whether the placing order interleaves all tasks."""
        return self.request.params.order == "interleaved"

    def subtask_list(self) -> list[Sub]:
        """Return all subtasks of the job in placing order."""
        return subtask_list([task.parallelism for task in self.tasks], self.ranks, self.interleaved)

    def key(self, sub: Sub) -> tuple[float, int, int]:
        """Place of any subtask in that order, also of one beyond the task's parallelism."""
        return subtask_key(sub, self.tasks[sub.task].parallelism, self.ranks[sub.task], self.interleaved)

    def running_cpu(self) -> list[float]:
        """Return the cores the job's own subtasks take on each host now."""
        taken: list[list[float]] = [[] for _ in self.hosts]
        for sub, host in self.running.items():
            if host is not None:
                taken[host].append(self.tasks[sub.task].cpu)
        return [fsum(cores) for cores in taken]

    def load(self, host: int, cpu: float, memory: float) -> float:
        """Return the load of `host` with `cpu` cores and `memory` GB in use (eqs. 26-29); above 1: overloaded."""
        params, capacity = self.request.params, self.hosts[host]
        return params.alpha * cpu / capacity.cpu + params.beta * memory / capacity.memory


def problem_of(request: PlaceRequest) -> Problem:
    """Return a request with its orders. Raises CycleError if the edges form a cycle."""
    position = {task.id: at for at, task in enumerate(request.tasks)}
    host_at = {host.id: at for at, host in enumerate(request.hosts)}
    edges = tuple((position[edge.source], position[edge.target]) for edge in request.edges)
    running = {
        Sub(position[subtask.task], subtask.index): host_at.get(host) for subtask, host in sorted(request.placement.items())
    }
    efficiency = cost_efficiency(request)
    return Problem(
        request=request,
        edges=edges,
        ranks=topological_ranks(len(request.tasks), edges),
        running=running,
        efficiency=efficiency,
        by_efficiency=tuple(ascending(range(len(efficiency)), efficiency.__getitem__)),
    )
