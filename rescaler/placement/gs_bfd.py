"""GS-BFD: greedy scheduling by best-fit decreasing. Largest subtasks first, each on the used host it fills best.

If no used host fits, the cheapest unused host that fits is opened, and of equally cheap ones the one it fills best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .columns import Columns, Floats, first_smallest
from .model import Sub
from .order import descending, twelve_digits
from .problem import Problem
from .room import Room


def assign(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo`; subtasks that fit nowhere are left out of the answer."""
    if not problem.hosts:
        return {}
    params = problem.request.params
    cpu_max = max(host.cpu for host in problem.hosts)
    memory_max = max(host.memory for host in problem.hosts)
    sizes = [max(task.cpu / cpu_max, task.memory / memory_max) for task in problem.tasks]
    columns = Columns(room, range(len(problem.hosts)))
    prices = np.array([twelve_digits(host.price) for host in problem.hosts])
    used = np.array([own > 0 for own in room.own])
    placed: dict[Sub, int] = {}
    for at in descending(range(len(todo)), lambda position: sizes[todo[position].task]):
        sub = todo[at]
        cpu, memory = room.demand[sub.task]
        fitting = columns.fitting(sub.task)
        left = params.alpha * (columns.cpu - cpu) / cpu_max + params.beta * (columns.memory - memory) / memory_max
        host = first_smallest(np.where(fitting & used, left, np.inf))
        if host is None:
            host = _host_to_open(np.where(fitting, prices, np.inf), left)
        if host is not None:
            placed[sub] = columns.take(host, sub.task)
            used[host] = True
    return placed


def _host_to_open(prices: Floats, left: Floats) -> int | None:
    """Return the cheapest host (infinite price: not available), of equally cheap ones the one with the least left over."""
    cheapest = prices.min()
    return None if cheapest == np.inf else first_smallest(np.where(prices == cheapest, left, np.inf))
