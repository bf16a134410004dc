"""The free room on each host while subtasks are placed, and the search for the first host that fits.

`fits` is the package's only admission rule: a free slot, and CPU and memory within the algorithm's share of the capacity after
others' use and what is already placed, give or take TOLERANCE.

`Columns` is a room as numpy columns, for the algorithms that look at every host for every subtask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from surescale.rescaler.placement.model import TOLERANCE, Sub
from surescale.rescaler.placement.order import twelve_digits
from surescale.rescaler.placement.problem import Problem


class Room:
    """Free cores, GB and slots per host within delta of the capacity, and the job's subtasks per host."""

    def __init__(self, problem: Problem, kept: Iterable[tuple[Sub, int]] = ()) -> None:
        delta = problem.delta
        self.demand = [(task.cpu, task.memory) for task in problem.tasks]
        self.cpu = [delta * host.cpu - host.used_cpu for host in problem.hosts]
        self.memory = [delta * host.memory - host.used_memory for host in problem.hosts]
        self.slots = [host.slots - host.used_slots for host in problem.hosts]
        self.own = [0] * len(self.cpu)
        for sub, host in kept:
            self.take(host, sub.task)

    def copy(self) -> Room:
        """Return a copy, to try things in."""
        twin = object.__new__(Room)
        twin.demand = self.demand
        twin.cpu, twin.memory = self.cpu[:], self.memory[:]
        twin.slots, twin.own = self.slots[:], self.own[:]
        return twin

    def fits(self, host: int, task: int) -> bool:
        """Say whether one more subtask of `task` may go to `host`."""
        cpu, memory = self.demand[task]
        return self.slots[host] > 0 and cpu <= self.cpu[host] + TOLERANCE and memory <= self.memory[host] + TOLERANCE

    def take(self, host: int, task: int) -> None:
        """Put one subtask of `task` on `host`, fitting or not."""
        cpu, memory = self.demand[task]
        self.cpu[host] -= cpu
        self.memory[host] -= memory
        self.slots[host] -= 1
        self.own[host] += 1

    def release(self, host: int, task: int) -> None:
        """Take one subtask of `task` off `host`."""
        cpu, memory = self.demand[task]
        self.cpu[host] += cpu
        self.memory[host] += memory
        self.slots[host] += 1
        self.own[host] -= 1


_Free = tuple[int, float, float]
_NOTHING: _Free = (0, float("-inf"), float("-inf"))


class FirstFit:
    """Finds the first host of `order` that has room, usually in O(log n).

    A segment tree over `order`; each node holds the most free slots, cores and GB below it. The three maxima may come
    from different hosts, so the walk may have to backtrack; hosts without a slot count as empty, which keeps that rare. Call
    `refresh` after every change of a host's room.
    """

    def __init__(self, room: Room, order: Sequence[int], active: Iterable[int] | None = None) -> None:
        self.room = room
        self.order = tuple(order)
        self.leaves = 1 << max(0, len(self.order) - 1).bit_length()
        self.leaf_of = {host: self.leaves + at for at, host in enumerate(self.order)}
        self.best: list[_Free] = [_NOTHING] * (2 * self.leaves)
        for host in self.order if active is None else active:
            self.best[self.leaf_of[host]] = self._free(host)
        for node in range(self.leaves - 1, 0, -1):
            self.best[node] = self._join(node)

    def _free(self, host: int) -> _Free:
        slots = self.room.slots[host]
        return (slots, self.room.cpu[host], self.room.memory[host]) if slots > 0 else _NOTHING

    def _join(self, node: int) -> _Free:
        left, right = self.best[2 * node], self.best[2 * node + 1]
        return (
            left[0] if left[0] > right[0] else right[0],
            left[1] if left[1] > right[1] else right[1],
            left[2] if left[2] > right[2] else right[2],
        )

    def refresh(self, host: int) -> None:
        """Update a host's room in the tree; a host that was left out is back in."""
        self._set(host, self._free(host))

    def leave_out(self, host: int) -> None:
        """Do not find this host until it is refreshed."""
        self._set(host, _NOTHING)

    def _set(self, host: int, free: _Free) -> None:
        node = self.leaf_of[host]
        self.best[node] = free
        node >>= 1
        while node:
            joined = self._join(node)
            if joined == self.best[node]:
                return
            self.best[node] = joined
            node >>= 1

    def first(self, task: int, start: int = 0) -> int | None:
        """Return the first host at position `start` of the order or later that fits one subtask of `task`."""
        cpu, memory = self.room.demand[task]
        return self.first_with(1, cpu, memory, start)

    def first_with(self, slots: int, cpu: float, memory: float, start: int = 0) -> int | None:
        """Return the first host from `start` on with that many free slots, cores and GB."""
        if start >= len(self.order):
            return None
        best, leaves = self.best, self.leaves
        node = leaves + start if start else 1
        while node:
            free = best[node]
            if free[0] >= slots and cpu <= free[1] + TOLERANCE and memory <= free[2] + TOLERANCE:
                if node >= leaves:
                    return self.order[node - leaves]
                node *= 2
                continue
            while node & 1:
                node >>= 1
            node = node + 1 if node else 0
        return None


def place_first_fit(room: Room, todo: Sequence[Sub], order: Sequence[int]) -> dict[Sub, int]:
    """Place each subtask on the first host of `order` that fits; those that fit nowhere are left out.

    Room only shrinks here, so a host that could not take a subtask of a task never will: each task's search continues where its
    last one ended.
    """
    tree = FirstFit(room, order)
    start: dict[int, int] = {}
    placed: dict[Sub, int] = {}
    for sub in todo:
        host = tree.first(sub.task, start.get(sub.task, 0))
        if host is None:
            start[sub.task] = len(order)
            continue
        start[sub.task] = tree.leaf_of[host] - tree.leaves
        room.take(host, sub.task)
        tree.refresh(host)
        placed[sub] = host
    return placed


Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Columns:
    """Free cores, GB and slots of the hosts in `order`, kept in step with a room through `take`."""

    def __init__(self, room: Room, order: Sequence[int]) -> None:
        self.room = room
        self.order = tuple(order)
        self.cpu: Floats = np.array([room.cpu[host] for host in order], dtype=np.float64)
        self.memory: Floats = np.array([room.memory[host] for host in order], dtype=np.float64)
        self.slots = np.array([room.slots[host] for host in order], dtype=np.int64)

    def fitting(self, task: int) -> Flags:
        """Return which hosts fit one more subtask of `task`, by the rule of `Room.fits`."""
        cpu, memory = self.room.demand[task]
        flags: Flags = (self.slots > 0) & (self.cpu + TOLERANCE >= cpu) & (self.memory + TOLERANCE >= memory)
        return flags

    def take(self, at: int, task: int) -> int:
        """Put one subtask of `task` on the host at position `at` of the order; returns that host."""
        host = self.order[at]
        self.room.take(host, task)
        self.cpu[at], self.memory[at] = self.room.cpu[host], self.room.memory[host]
        self.slots[at] = self.room.slots[host]
        return host


def first_smallest(values: Floats) -> int | None:
    """Return the position of the smallest value, the first of those that tie at twelve digits; None if all are infinite.

    Only candidates within 1e-11 of the smallest can round to the same twelve digits, so only they are rounded.
    """
    if not len(values):
        return None
    smallest = float(values[np.argmin(values)])
    if smallest == np.inf:
        return None
    key = twelve_digits(smallest)
    slack = 1e-11 * abs(smallest)
    for at in np.flatnonzero(values <= smallest + slack).tolist():
        if twelve_digits(float(values[at])) == key:
            return int(at)
    raise AssertionError("the smallest value rounds to its own key")
