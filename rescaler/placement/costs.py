"""The cost model: rent, communication, scheduling, and their weighted sum (eqs. 6-16), from an assignment alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import TypeVar

from surescale.rescaler.placement.loads import counts_by_host
from surescale.rescaler.placement.model import Edge, Sub
from surescale.rescaler.placement.problem import Problem

BYTES_PER_GB = 1e9

Place = TypeVar("Place", int, str)


@dataclass(frozen=True, slots=True)
class JobCost:
    """Cost of a whole run in $: rent, communication, scheduling, and the weighted cost of eq. 15."""

    rent: float
    communication: float
    scheduling: float
    weighted: float


@dataclass(frozen=True, slots=True)
class CostFigures:
    """Cost rates in $ per second, and the cost of the run where its length is known."""

    resource_per_s: float
    communication_per_s: float
    total_per_s: float
    wec_per_s: float
    """a1 rent + a2 communication; scheduling is paid once and so has no rate."""
    job: JobCost | None = None


def cost_figures(problem: Problem, assignment: Mapping[Sub, int]) -> CostFigures:
    """Return eqs. 6-16 for one assignment; every host in use is paid until the last one ends."""
    params = problem.request.params
    rent = rent_per_s(problem, assignment)
    sending = communication_per_s(problem, assignment)
    first, second, third = params.wec_weights
    job = None
    if params.exec_time_s is not None:
        run, send = rent * params.exec_time_s, sending * params.exec_time_s
        schedule = rent * params.sched_time_s
        job = JobCost(run, send, schedule, first * run + second * send + third * schedule)
    return CostFigures(rent, sending, rent + sending, first * rent + second * sending, job)


def rent_per_s(problem: Problem, assignment: Mapping[Sub, int]) -> float:
    """Return the sum of the prices of the hosts in use (eq. 6 per second)."""
    return fsum(problem.hosts[host].price for host in sorted(set(assignment.values())))


def communication_per_s(problem: Problem, assignment: Mapping[Sub, int]) -> float:
    """Return eq. 10 per second: price per GB x distance x GB/s over every edge between subtasks on different hosts."""
    return problem.request.network.price_per_gb * weighted_traffic(problem, assignment)


def weighted_traffic(problem: Problem, assignment: Mapping[Sub, int]) -> float:
    """Return GB/s sent between hosts, weighted by distance. Subtasks without a host send nothing."""
    network = problem.request.network
    return traffic(problem, assignment, network.same_zone, network.cross_zone)


def traffic(problem: Problem, assignment: Mapping[Sub, int], same_zone: float = 1.0, cross_zone: float = 1.0) -> float:
    """Return GB/s sent between hosts, weighted by distance; without weights every GB counts once."""
    by_host = _counts_by_task(problem, assignment)
    flows = []
    for edge, (source, target) in zip(problem.request.edges, problem.edges, strict=True):
        if edge.pattern == "forward":
            met = _forward_meetings(problem, assignment, source, target)
        else:
            met = all_meetings(problem, by_host[source], by_host[target])
        flows.append(gb_per_s_of_pair(problem, edge, source, target) * met.distance(same_zone, cross_zone))
    return fsum(flows)


def gb_per_s_of_pair(problem: Problem, edge: Edge, source: int, target: int) -> float:
    """Return what one pair of subtasks sends over `edge`, in GB per second: R b / pairs."""
    width = problem.tasks[source].parallelism
    pairs = width if edge.pattern == "forward" else width * problem.tasks[target].parallelism
    return edge.records_per_s * edge.bytes_per_record / BYTES_PER_GB / pairs if pairs else 0.0


@dataclass(frozen=True, slots=True)
class Meetings:
    """Pairs of placed subtasks over one edge: all of them, those in one zone, those on one host."""

    pairs: int
    in_zone: int
    on_host: int

    def distance(self, same_zone: float, cross_zone: float) -> float:
        """Return the sum of the distances of the pairs: 0 on one host, `same_zone` in one zone, else `cross_zone`."""
        return same_zone * (self.in_zone - self.on_host) + cross_zone * (self.pairs - self.in_zone)


def _counts_by_task(problem: Problem, assignment: Mapping[Sub, int]) -> list[Counter[int]]:
    by_task: list[Counter[int]] = [Counter() for _ in problem.tasks]
    for host, counts in enumerate(counts_by_host(problem, assignment)):
        for task, count in counts.items():
            by_task[task][host] = count
    return by_task


def all_meetings(problem: Problem, sources: Counter[int], targets: Counter[int]) -> Meetings:
    """Return the meetings over an `all` edge from counts per host, without walking the pairs."""
    return Meetings(
        pairs=sources.total() * targets.total(),
        in_zone=_products(by_zone(problem, sources), by_zone(problem, targets)),
        on_host=_products(sources, targets),
    )


def by_zone(problem: Problem, by_host: Counter[int]) -> Counter[str]:
    """Return counts per zone from counts per host."""
    zones: Counter[str] = Counter()
    for host, count in by_host.items():
        zones[problem.hosts[host].zone] += count
    return zones


def _products(left: Counter[Place], right: Counter[Place]) -> int:
    return sum(count * right[place] for place, count in left.items())


def _forward_meetings(problem: Problem, assignment: Mapping[Sub, int], source: int, target: int) -> Meetings:
    pairs = in_zone = on_host = 0
    for ordinal in range(problem.tasks[source].parallelism):
        left, right = assignment.get(Sub(source, ordinal)), assignment.get(Sub(target, ordinal))
        if left is None or right is None:
            continue
        pairs += 1
        in_zone += problem.hosts[left].zone == problem.hosts[right].zone
        on_host += left == right
    return Meetings(pairs, in_zone, on_host)
