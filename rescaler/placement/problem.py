"""What every algorithm needs to know about a request, computed once: ranks, demands per task, hosts by cost efficiency."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

from .efficiency import cost_efficiency
from .model import Host, PlaceRequest, Sub, Task
from .order import ascending, subtask_key, subtask_list, topological_ranks


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
    """CE per host [$ per record, or $ per subtask where estimated]; infinite: takes nothing."""
    by_efficiency: tuple[int, ...]
    """NPL: hosts by CE, best first."""

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
        """Whether STL interleaves all tasks."""
        return self.request.params.order == "interleaved"

    def subtask_list(self) -> list[Sub]:
        """Return STL: all subtasks of the job in placing order."""
        return subtask_list([task.parallelism for task in self.tasks], self.ranks, self.interleaved)

    def key(self, sub: Sub) -> tuple[float, int, int]:
        """Place of any subtask in STL, also of one beyond the task's parallelism."""
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
