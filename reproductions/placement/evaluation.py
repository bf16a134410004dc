"""Run the paper's comparison in a model: every algorithm on one job and cluster, and the time a run would take.

A job of N records at source rate r takes t0 + N slow / r. Here slow is the maximum over used hosts of max(1, u / 0.8), and u is
the higher of CPU and memory utilisation. This model is ours: the paper measures seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import sqrt
from statistics import fmean

from surescale.rescaler.placement.costs import traffic
from surescale.rescaler.placement.model import Algorithm, PlaceRequest, Sub
from surescale.rescaler.placement.problem import problem_of
from surescale.rescaler.placement.solve import PlaceResponse, place

START_S = 6.0
"""t0, the start-up time of a job."""
COMFORTABLE = 0.8
"""Utilisation above which a host slows down."""
SEEDS = tuple(range(200))
"""Seeds to average `default` over."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Cost, load and speed of one placement."""

    rent: float
    """$ per second."""
    traffic: float
    """GB per second between hosts."""
    std: float
    std_used: float
    slow: float
    u_cpu: float
    """Mean CPU utilisation of the used hosts."""
    u_memory: float
    hosts: float
    crossing: float
    """Share of a shuffle among all subtasks that would cross hosts: 1 - sum (n_h / m)^2."""
    cost: float
    """Rent x slow-down: the cost of one second's work at full speed [$]."""
    throughput: float
    """1 / slow-down: the rate as a share of the source rate."""

    def time_s(self, records: float, records_per_s: float) -> float:
        """Return the seconds for a job of this many records at this source rate."""
        return START_S + records * self.slow / records_per_s


@dataclass(frozen=True, slots=True)
class AlgorithmResult:
    """Mean figures of one algorithm, over seeds if it is random, and the standard error of the rent."""

    label: str
    figures: Figures
    rent_error: float = 0.0


def slow_down(response: PlaceResponse) -> float:
    """Return the maximum over used hosts of max(1, max(u_cpu, u_mem) / 0.8)."""
    used = [max(use.u_cpu, use.u_memory) / COMFORTABLE for use in response.hosts if use.subtasks]
    return max([1.0, *used])


def figures(response: PlaceResponse) -> Figures:
    """Return the figures of one answer."""
    request = response.request
    at = {host.id: position for position, host in enumerate(request.hosts)}
    task_at = {task.id: position for position, task in enumerate(request.tasks)}
    assignment = {Sub(task_at[sub.task], sub.index): at[host] for sub, host in response.assignment.items()}
    used = [use for use in response.hosts if use.subtasks]
    placed, slow = sum(use.subtasks for use in used), slow_down(response)
    return Figures(
        rent=response.cost.resource_per_s,
        traffic=traffic(problem_of(request), assignment),
        std=response.load.std,
        std_used=response.load.std_used,
        slow=slow,
        u_cpu=fmean(use.u_cpu for use in used) if used else 0.0,
        u_memory=fmean(use.u_memory for use in used) if used else 0.0,
        hosts=float(len(used)),
        crossing=1 - sum((use.subtasks / placed) ** 2 for use in used) if placed else 0.0,
        cost=response.cost.resource_per_s * slow,
        throughput=1 / slow,
    )


def evaluate(
    request: PlaceRequest, algorithm: Algorithm, *, spread: bool = False, seeds: Sequence[int] = SEEDS
) -> AlgorithmResult | None:
    """Return the figures of one algorithm on the request's job and cluster; None if it leaves subtasks unplaced."""
    asked = replace(request, algorithm=algorithm)
    if spread:
        asked = replace(asked, params=replace(request.params, lba_pick="spread"))
    runs = [place(replace(asked, seed=seed)) for seed in (seeds if algorithm == "default" else seeds[:1])]
    if not all(run.feasible for run in runs):
        return None
    each = [figures(run) for run in runs]
    rents = [one.rent for one in each]
    error = sqrt(fmean((rent - fmean(rents)) ** 2 for rent in rents) / max(1, len(rents) - 1))
    label = "lba-ce spread" if spread else algorithm
    return AlgorithmResult(label, _mean(each), error)


def _mean(each: Sequence[Figures]) -> Figures:
    return Figures(*(fmean(getattr(one, name.name) for one in each) for name in fields(Figures)))


def compare(request: PlaceRequest, algorithms: Iterable[Algorithm], *, seeds: Sequence[int] = SEEDS) -> list[AlgorithmResult]:
    """Return the results of every algorithm, then of LBA-CE with its spread pass. Algorithms without a placement are left out."""
    found = [evaluate(request, algorithm, seeds=seeds) for algorithm in algorithms]
    found.append(evaluate(request, "lba-ce", spread=True, seeds=seeds))
    return [result for result in found if result is not None]
