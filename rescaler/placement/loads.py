"""The load model: use and load per host, mean and deviation (eqs. 26-31), recomputed from an assignment alone.

Loads are never clipped: an overloaded host shows a load above 1. Background use by others counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from surescale.rescaler.placement.model import Sub
from surescale.rescaler.placement.problem import Problem


@dataclass(frozen=True, slots=True)
class HostUse:
    """One host under an assignment, with background."""

    subtasks: int
    """Subtasks of this job."""
    cpu: float
    memory: float
    slots: int
    u_cpu: float
    u_memory: float
    load: float


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Mean and population deviation of the load over all hosts, and the deviation over the job's hosts only.

    Eq. 31 averages over all hosts; a cheap placement leaves hosts empty and so looks uneven by it. The paper's claims
    can only hold over the hosts in use: `std_used`.
    """

    mean: float
    std: float
    std_used: float


def host_uses(problem: Problem, assignment: Mapping[Sub, int]) -> list[HostUse]:
    """Return use and load of every host, in the request's order."""
    counts = counts_by_host(problem, assignment)
    uses = []
    for at, (host, count) in enumerate(zip(problem.hosts, counts, strict=True)):
        by_task = sorted(count.items())
        cpu = fsum([host.used_cpu, *(n * problem.tasks[task].cpu for task, n in by_task)])
        memory = fsum([host.used_memory, *(n * problem.tasks[task].memory for task, n in by_task)])
        own = sum(count.values())
        load = problem.load(at, cpu, memory)
        uses.append(HostUse(own, cpu, memory, host.used_slots + own, cpu / host.cpu, memory / host.memory, load))
    return uses


def counts_by_host(problem: Problem, assignment: Mapping[Sub, int]) -> list[Counter[int]]:
    """Return, per host, how many subtasks of each task it runs."""
    counts: list[Counter[int]] = [Counter() for _ in problem.hosts]
    for sub, host in assignment.items():
        counts[host][sub.task] += 1
    return counts


def load_figures(uses: Sequence[HostUse]) -> LoadFigures:
    """Return eqs. 30-31 over all hosts, and the deviation over the hosts the job uses."""
    mean, std = mean_and_std([use.load for use in uses])
    return LoadFigures(mean, std, mean_and_std([use.load for use in uses if use.subtasks])[1])


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and population deviation (eqs. 30-31); 0 and 0 for no loads."""
    if not values:
        return 0.0, 0.0
    mean = fsum(values) / len(values)
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / len(values))
