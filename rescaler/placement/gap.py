"""The gap between an answer and the optimum: exact for small instances, else above a lower bound of the rent.

The reference is the best fresh placement at the same share of the hosts: for an incremental answer the gap includes the
price of leaving subtasks where they run.

The bound: for equal demands it is exact. Host i takes cap_i subtasks, so the least rent is a 0/1 covering knapsack, min sum
P_i y_i with sum cap_i y_i >= m, solved by dynamic programming over m in O(n m). For mixed demands it is the largest of that
knapsack with the smallest demand per dimension, and of linear programs that cover the total of one resource, or of several
weighed together (slots may run out on some hosts and cores on others). Any weights give a valid bound; a grid of them gives a
good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import floor, fsum, inf, isfinite
from operator import mul

import numpy as np

from surescale.rescaler.placement import exact
from surescale.rescaler.placement.model import TOLERANCE, PlaceRequest, Task
from surescale.rescaler.placement.problem import Problem, problem_of
from surescale.rescaler.placement.room import Room
from surescale.rescaler.placement.solve import PlaceResponse

TABLE_STEPS_MAX = 400_000_000
"""Above this many steps (hosts x subtasks) the linear program replaces the knapsack."""
SHARE_MAX = 1e300
"""Cap on shares: with almost no demand a host takes infinitely many subtasks, and infinity times 0 is not a number."""
GRID = 12
"""Steps of the grid of weights over several resources."""


@dataclass(frozen=True, slots=True)
class RentBound:
    """No placement costs less rent than `per_s` [$/s]; `exact`: some placement costs exactly that."""

    per_s: float
    exact: bool


def rent_bound(problem: Problem) -> RentBound | None:
    """Return the least rent any fresh placement at this delta can have; None where the bound proves there is none."""
    tasks = [task for task in problem.tasks if task.parallelism]
    count = sum(task.parallelism for task in tasks)
    if not count:
        return RentBound(0.0, True)
    room = Room(problem)
    prices = [host.price for host in problem.hosts]
    cpu, memory = min(task.cpu for task in tasks), min(task.memory for task in tasks)
    capacities = [subtasks_that_fit(room, host, cpu, memory) for host in range(len(prices))]
    bounds = [covering_knapsack(prices, capacities, count)]
    equal = all(task.cpu == cpu and task.memory == memory for task in tasks)
    if not equal:
        bounds += _covering_bounds(prices, room, [host for host, most in enumerate(capacities) if most], tasks)
    best = max(bounds)
    exact = equal and len(prices) * count <= TABLE_STEPS_MAX
    return None if best == inf else RentBound(best, exact)


def _covering_bounds(prices: Sequence[float], room: Room, open_hosts: Sequence[int], tasks: Sequence[Task]) -> Iterator[float]:
    """Return bounds of linear programs over slots, cores and GB, in shares of the job's total, weighted over a grid."""
    totals = (
        float(sum(task.parallelism for task in tasks)),
        fsum(task.parallelism * task.cpu for task in tasks),
        fsum(task.parallelism * task.memory for task in tasks),
    )
    rooms: tuple[Sequence[float], ...] = (room.slots, room.cpu, room.memory)
    shares = [
        [min((free[host] + TOLERANCE) / total, SHARE_MAX) if total else 0.0 for host in open_hosts]
        for free, total in zip(rooms, totals, strict=True)
    ]
    rents = [prices[host] for host in open_hosts]
    for slots in range(GRID + 1):
        for cpu in range(GRID + 1 - slots):
            weights = [
                steps / GRID if total else 0.0 for steps, total in zip((slots, cpu, GRID - slots - cpu), totals, strict=True)
            ]
            weighed = [sum(map(mul, weights, each)) for each in zip(*shares, strict=True)]
            yield covering_lp(rents, weighed, sum(weights))


def subtasks_that_fit(room: Room, host: int, cpu: float, memory: float) -> int:
    """Return how many equal subtasks `host` takes."""
    most = float(max(0, room.slots[host]))
    if room.cpu[host] < -TOLERANCE or room.memory[host] < -TOLERANCE:
        return 0
    if cpu > 0:
        most = min(most, (room.cpu[host] + TOLERANCE) / cpu)
    if memory > 0:
        most = min(most, (room.memory[host] + TOLERANCE) / memory)
    return max(0, floor(most))


def covering_knapsack(prices: Sequence[float], capacities: Sequence[int], count: int) -> float:
    """Return the least sum of prices of hosts whose capacities sum to `count` or more; infinite if there are none."""
    if len(prices) * count > TABLE_STEPS_MAX:
        return covering_lp(prices, [float(capacity) for capacity in capacities], float(count))
    least = np.full(count + 1, np.inf)
    least[0] = 0.0
    for price, capacity in zip(prices, capacities, strict=True):
        taken = min(capacity, count)
        if taken:
            with_host = np.concatenate((np.full(taken, least[0]), least[: count + 1 - taken])) + price
            np.minimum(least[1:], with_host[1:], out=least[1:])
    return float(least[count])


def covering_lp(prices: Sequence[float], rooms: Sequence[float], total: float) -> float:
    """Return the least rent that covers `total` when hosts may be rented in part: best price per room first."""
    hosts = sorted((price / free, price, free) for price, free in zip(prices, rooms, strict=True) if free > 0)
    rent, missing = 0.0, total * (1 - 1e-12)
    for _, price, free in hosts:
        if missing <= free:
            return rent + price * max(0.0, missing) / free
        rent += price
        missing -= free
    return rent if missing <= 0 else inf


def gap_document(response: PlaceResponse) -> dict[str, object] | None:
    """Return the gap as a JSON-able object; None for an infeasible answer.

    `rent`: bound, whether it is the optimum, and rent / bound - 1. `total` (rent plus communication): the optimum, how
    it was found, and the gap; null where the instance is too large. A gap above a bound of (almost) 0 is null.
    """
    if not response.feasible:
        return None
    problem = problem_of(at_delta(response.request, delta_reached(response)))
    bound = rent_bound(problem)
    optimum, method = total_optimum(problem)
    rent, total = response.cost.resource_per_s, response.cost.total_per_s
    return {
        "threshold": problem.delta,
        "rent": bound and {"bound_per_s": bound.per_s, "exact": bound.exact, "gap": relative(rent, bound.per_s)},
        "total": None if optimum is None else {"optimum_per_s": optimum, "method": method, "gap": relative(total, optimum)},
    }


def relative(value: float, reference: float) -> float | None:
    """Return `value` / `reference` - 1; None if only the reference is (almost) 0, and 0 if both are."""
    if reference == 0:
        return 0.0 if value == 0 else None
    gap = value / reference - 1
    return gap if isfinite(gap) else None


def at_delta(request: PlaceRequest, delta: float) -> PlaceRequest:
    """Return the same instance with hosts that any algorithm may fill up to `delta`."""
    return replace(request, params=replace(request.params, threshold=delta, threshold_scope="all"))


def delta_reached(response: PlaceResponse) -> float:
    """Return the share the answer had to keep to; 1 if subtasks that stayed exceed it."""
    delta = response.request.delta
    for host, use in zip(response.request.hosts, response.hosts, strict=True):
        if use.subtasks and (use.cpu > delta * host.cpu + TOLERANCE or use.memory > delta * host.memory + TOLERANCE):
            return 1.0
    return delta


def total_optimum(problem: Problem) -> tuple[float | None, str]:
    """Return the least rent plus communication [$/s] of a fresh placement, and how it was found; None: too large."""
    if exact.countable(problem):
        best = exact.brute_force(problem)
        return (None if best is None else best.total_per_s), "enumeration"
    if exact.programmable(problem) and find_spec("scipy") is not None:
        assignment = exact.mixed_integer_optimum(problem)
        return (None if assignment is None else exact.total_per_s(problem, assignment)), "mixed integer program"
    return None, "too large"
