"""Orders that make every answer unique: topological ranks, the order in which subtasks are placed, and ties.

Ties are broken the same way everywhere: keys rounded to twelve significant digits, then the position in the list.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from graphlib import TopologicalSorter

from surescale.rescaler.placement.model import Sub


def twelve_digits(value: float) -> float:
    """Return `value` rounded to 12 significant decimal digits, by which ties are judged."""
    return float(f"{value:.11e}")


def ascending(positions: Iterable[int], key: Callable[[int], float]) -> list[int]:
    """Return `positions` by rounded key, smallest first; ties keep their order."""
    return sorted(positions, key=lambda position: twelve_digits(key(position)))


def descending(positions: Iterable[int], key: Callable[[int], float]) -> list[int]:
    """Return `positions` by rounded key, largest first; ties keep their order."""
    return sorted(positions, key=lambda position: -twelve_digits(key(position)))


def topological_ranks(task_count: int, edges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the rank of each task by Kahn's method, always taking the first ready task of the list.

    Raises graphlib.CycleError, with the tasks of a cycle as its second argument, if there is no order.
    """
    sources: dict[int, list[int]] = {task: [] for task in range(task_count)}
    for source, target in edges:
        sources[target].append(source)
    waiting = TopologicalSorter(sources)
    waiting.prepare()
    ready, ranks = list[int](), [-1] * task_count
    for rank in range(task_count):
        for task in waiting.get_ready():
            heapq.heappush(ready, task)
        first = heapq.heappop(ready)
        ranks[first] = rank
        waiting.done(first)
    return tuple(ranks)


def subtask_key(sub: Sub, parallelism: int, rank: int, interleaved: bool) -> tuple[float, int, int]:
    """Return the sort key of one subtask in placing order.

    Interleaved: (index / parallelism, rank, index): neighbours share hosts, as slot sharing does. The double
    i/p orders as the exact fraction does: division rounds correctly and fractions differ by at least 1/(p q),
    far above 2^-53 for the parallelism allowed.
    """
    if not interleaved:
        return (0.0, rank, sub.ordinal)
    return (sub.ordinal / parallelism if parallelism else float("inf"), rank, sub.ordinal)


def subtask_list(parallelism: Sequence[int], ranks: Sequence[int], interleaved: bool) -> list[Sub]:
    """Return every subtask of the job in the order in which it is placed."""
    subs = [Sub(task, index) for task, count in enumerate(parallelism) for index in range(count)]
    return sorted(subs, key=lambda sub: subtask_key(sub, parallelism[sub.task], ranks[sub.task], interleaved))
