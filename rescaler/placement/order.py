"""Orders that make every answer unique: topological ranks, the order in which subtasks are placed, and ties.

Ties are broken the same way everywhere: keys rounded to twelve significant digits, then the position in the list.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from surescale.rescaler.placement.model import Sub


class CycleError(ValueError):
    """The edges form a cycle; `cycle` holds task positions, first and last equal."""

    def __init__(self, cycle: list[int]) -> None:
        super().__init__("the edges form a cycle")
        self.cycle = cycle


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

    Raises CycleError if there is no order.
    """
    followers: list[list[int]] = [[] for _ in range(task_count)]
    waiting = [0] * task_count
    for source, target in edges:
        followers[source].append(target)
        waiting[target] += 1
    ready = [task for task in range(task_count) if waiting[task] == 0]
    ranks = [-1] * task_count
    done = 0
    while ready:
        task = heapq.heappop(ready)
        ranks[task] = done
        done += 1
        for target in followers[task]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, target)
    if done < task_count:
        raise CycleError(_one_cycle(ranks, edges))
    return tuple(ranks)


def _one_cycle(ranks: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Walk backwards from an unranked task until one repeats: every unranked task has an unranked source."""
    source_of: dict[int, int] = {}
    for source, target in edges:
        if ranks[source] < 0 and ranks[target] < 0:
            source_of.setdefault(target, source)
    task = next(iter(sorted(source_of)))
    seen: dict[int, int] = {}
    while task not in seen:
        seen[task] = len(seen)
        task = source_of[task]
    walked = [step for step, at in seen.items() if at >= seen[task]]
    return [task, *reversed(walked)]


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
