"""What stays where it runs: forced departures, the subtasks a scale-in stops, and the new indices of the survivors.

Subtasks leave a live host only if they exceed its capacity or slots, or if a smaller parallelism stops them. A scale-in empties
whole hosts where it can: stopping evenly everywhere saves no rent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from math import fsum

from .model import TOLERANCE, Sub
from .order import descending, twelve_digits
from .problem import Problem


def kept_subtasks(problem: Problem) -> dict[Sub, int]:
    """Return the subtasks that stay, under their new indices, with the host each stays on."""
    by_host: dict[int, list[Sub]] = {}
    for sub, host in sorted(problem.running.items(), key=lambda item: problem.key(item[0])):
        if host is not None:
            by_host.setdefault(host, []).append(sub)
    for host, subs in by_host.items():
        _shed(problem, host, subs)
    living = {sub: host for host, subs in by_host.items() for sub in subs}
    stopping = _Stopping(problem, living)
    stopping.empty_hosts()
    stopping.stop_the_rest()
    return _renumbered(problem, stopping.staying())


def _shed(problem: Problem, host: int, here: list[Sub]) -> None:
    """Drop subtasks of a host above its full capacity, the last of `here` first, until it fits."""
    capacity = problem.hosts[host]
    while here:
        cpu = fsum([capacity.used_cpu, *(problem.tasks[sub.task].cpu for sub in here)])
        memory = fsum([capacity.used_memory, *(problem.tasks[sub.task].memory for sub in here)])
        slots = capacity.used_slots + len(here)
        if slots <= capacity.slots and cpu <= capacity.cpu + TOLERANCE and memory <= capacity.memory + TOLERANCE:
            return
        here.pop()


class _Stopping:
    """Chooses the surplus subtasks to stop, by counts; at the end the highest indices of each host stop."""

    def __init__(self, problem: Problem, living: Mapping[Sub, int]) -> None:
        self.problem = problem
        self.indices: dict[int, dict[int, list[int]]] = {}
        for sub, host in sorted(living.items()):
            self.indices.setdefault(host, {}).setdefault(sub.task, []).append(sub.ordinal)
        count = Counter(sub.task for sub in living)
        self.surplus = {at: count[at] - task.parallelism for at, task in enumerate(problem.tasks) if count[at] > task.parallelism}
        worst_first = tuple(reversed(problem.by_efficiency))
        self.worst_first = [host for host in worst_first if host in self.indices]

    def staying(self) -> list[tuple[Sub, int]]:
        """Return the survivors under their old indices."""
        return [
            (Sub(task, index), host)
            for host, tasks in self.indices.items()
            for task, indices in tasks.items()
            for index in indices
        ]

    def empty_hosts(self) -> None:
        """Empty hosts whose subtasks are all surplus, the highest price per stopped subtask first.

        One walk is enough: the surplus only falls, so a host that cannot be emptied now never can.
        """
        for host in descending(self.worst_first, self._price_per_stop):
            if self._can_be_emptied(host):
                for task, indices in self.indices.pop(host).items():
                    self._lower_surplus(task, len(indices))

    def _can_be_emptied(self, host: int) -> bool:
        return all(len(indices) <= self.surplus.get(task, 0) for task, indices in self.indices[host].items())

    def _price_per_stop(self, host: int) -> float:
        return self.problem.hosts[host].price / sum(map(len, self.indices[host].values()))

    def _lower_surplus(self, task: int, by: int) -> None:
        self.surplus[task] -= by
        if self.surplus[task] == 0:
            del self.surplus[task]

    def stop_the_rest(self) -> None:
        """Stop what is still surplus, task by task: LBA-CE on the most loaded host, the others on the worst by CE."""
        holders: dict[int, list[int]] = {task: [] for task in self.surplus}
        for host in self.worst_first:
            for task in self.indices.get(host, {}):
                holders.setdefault(task, []).append(host)
        stop = self._stop_on_most_loaded if self.problem.request.algorithm == "lba-ce" else self._stop_on_worst
        for task in sorted(self.surplus, key=self.problem.ranks.__getitem__):
            stop(task, holders[task], self.surplus[task])

    def _stop_on_worst(self, task: int, hosts: list[int], count: int) -> None:
        for host in hosts:
            stopped = min(count, len(self.indices[host][task]))
            del self.indices[host][task][len(self.indices[host][task]) - stopped :]
            count -= stopped

    def _stop_on_most_loaded(self, task: int, hosts: list[int], count: int) -> None:
        """Stop one at a time. Stopping lowers the load of that host only, so a heap holds one entry per host."""
        heap = [(-self._load_with_one_more(host, task), at) for at, host in enumerate(hosts)]
        heapq.heapify(heap)
        for _ in range(count):
            _, at = heapq.heappop(heap)
            host = hosts[at]
            self.indices[host][task].pop()
            if self.indices[host][task]:
                heapq.heappush(heap, (-self._load_with_one_more(host, task), at))

    def _load_with_one_more(self, host: int, task: int) -> float:
        used, added = self.problem.hosts[host], self.problem.tasks[task]
        own = [(self.problem.tasks[at], len(indices)) for at, indices in sorted(self.indices[host].items())]
        cpu = fsum([used.used_cpu, added.cpu, *(count * each.cpu for each, count in own)])
        memory = fsum([used.used_memory, added.memory, *(count * each.memory for each, count in own)])
        return twelve_digits(self.problem.load(host, cpu, memory))


def _renumbered(problem: Problem, staying: list[tuple[Sub, int]]) -> dict[Sub, int]:
    """Renumber: survivors with an index below the parallelism keep it; the others take the free ones, ascending."""
    kept: dict[Sub, int] = {}
    homeless: list[tuple[Sub, int]] = []
    for sub, host in sorted(staying):
        if sub.ordinal < problem.tasks[sub.task].parallelism:
            kept[sub] = host
        else:
            homeless.append((sub, host))
    free: dict[int, int] = {}
    for sub, host in homeless:
        index = free.get(sub.task, 0)
        while Sub(sub.task, index) in kept:
            index += 1
        kept[Sub(sub.task, index)] = host
        free[sub.task] = index + 1
    return kept
