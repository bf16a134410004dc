"""CETSA (Algorithm 1 of the paper): first fit over the hosts by cost efficiency, best first, never revised.

Hosts on which subtasks stay are filled first: they are already paid for, so one more subtask there is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model import TOLERANCE, Sub
from .order import ascending, twelve_digits
from .problem import Problem
from .room import Room, place_first_fit


def assign(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in STL order); subtasks that fit nowhere are left out of the answer."""
    paid = [host for host in problem.by_efficiency if room.own[host]]
    rest = [host for host in problem.by_efficiency if not room.own[host]]
    return place_first_fit(room, todo, paid + rest)


def repair(problem: Problem, room: Room, kept: Mapping[Sub, int], placed: Mapping[Sub, int]) -> dict[Sub, int]:
    """Move everything from the host opened last to the cheapest unused host that takes it, if that is cheaper.

    Greedy filling overshoots most on its last host, so this repair costs almost nothing. `room` is the room
    left after `placed`. Hosts that hold kept subtasks are left alone.
    """
    held = set(kept.values())
    opened = [host for host in dict.fromkeys(placed.values()) if host not in held]
    if not opened:
        return dict(placed)
    last = opened[-1]
    tasks = [sub.task for sub, host in placed.items() if host == last]
    cpu = sum(problem.tasks[task].cpu for task in tasks)
    memory = sum(problem.tasks[task].memory for task in tasks)
    price = twelve_digits(problem.hosts[last].price)
    for host in ascending(range(len(problem.hosts)), lambda at: problem.hosts[at].price):
        if twelve_digits(problem.hosts[host].price) >= price:
            break
        free = room.slots[host] >= len(tasks) and room.own[host] == 0
        if free and cpu <= room.cpu[host] + TOLERANCE and memory <= room.memory[host] + TOLERANCE:
            return {sub: host if at == last else at for sub, at in placed.items()}
    return dict(placed)
