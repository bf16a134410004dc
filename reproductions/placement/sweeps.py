"""Beyond the paper's one cluster: sweeps of parallelism and demand, random clusters, and gaps to the true optimum."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from reproductions.placement.evaluation import compare
from reproductions.placement.paper import COMPARED, HOST_TYPES, NETWORK, cluster
from surescale.rescaler.placement import exact
from surescale.rescaler.placement.gap import relative
from surescale.rescaler.placement.model import ALGORITHMS, Algorithm, Edge, Host, Network, Pattern, PlaceRequest, Task
from surescale.rescaler.placement.problem import problem_of
from surescale.rescaler.placement.solve import place

SWEEP_SEEDS = tuple(range(10))


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and worst case of one ratio to round robin."""

    middle: float
    worst: float


def grid() -> list[PlaceRequest]:
    """Return requests on the paper's cluster with one task of 12 to 40 subtasks at 0.6 to 1.05 cores."""
    return [
        PlaceRequest("rr", cluster(), (Task("task", width, cpu, 1.2),), network=NETWORK)
        for width in range(12, 41, 4)
        for cpu in (0.6, 0.75, 0.9, 1.05)
    ]


def random_clusters(count: int, generator: random.Random) -> list[PlaceRequest]:
    """Return requests on 6 to 24 hosts of the paper's types, prices varied by 10 %, with a chain of three mixed tasks."""
    requests = []
    for _ in range(count):
        hosts = []
        for at in range(generator.randint(6, 24)):
            kind, cpu, memory, price = HOST_TYPES[generator.choice(sorted(HOST_TYPES))]
            hosts.append(Host(f"h{at}", cpu, memory, 4, price * generator.uniform(0.9, 1.1), type=kind))
        widths = [max(1, len(hosts) * generator.randint(1, 3) // 3) for _ in range(3)]
        tasks = tuple(
            Task(f"t{at}", width, generator.uniform(0.3, 1.0), generator.uniform(0.4, 1.4)) for at, width in enumerate(widths)
        )
        edges = tuple(Edge(f"t{at}", f"t{at + 1}", 60_000.0, 100.0) for at in range(2))
        requests.append(PlaceRequest("rr", tuple(hosts), tasks, edges, NETWORK))
    return requests


def against_round_robin(requests: Sequence[PlaceRequest], names: Sequence[str]) -> dict[str, list[Spread]]:
    """Return the named figures relative to round robin's, by algorithm, over the requests that all algorithms can place."""
    ratios: dict[str, list[list[float]]] = {}
    for request in requests:
        results = {result.label: result.figures for result in compare(request, COMPARED, seeds=SWEEP_SEEDS)}
        if len(results) <= len(COMPARED):
            continue
        reference = [float(getattr(results["rr"], name)) for name in names]
        for label, figures in results.items():
            columns = ratios.setdefault(label, [[] for _ in names])
            for column, name, other in zip(columns, names, reference, strict=True):
                if other:
                    column.append(float(getattr(figures, name)) / other)
    return {label: [Spread(median(each), max(each)) for each in columns] for label, columns in ratios.items()}


def small_instances(count: int, generator: random.Random) -> list[tuple[PlaceRequest, exact.Candidate]]:
    """Return feasible instances of 2 to 4 hosts and 1 to 3 tasks, small enough to enumerate, each with its optimum."""
    found: list[tuple[PlaceRequest, exact.Candidate]] = []
    while len(found) < count:
        request = _small_instance(generator)
        best = exact.brute_force(problem_of(request))
        if best is not None:
            found.append((request, best))
    return found


def _small_instance(generator: random.Random) -> PlaceRequest:
    hosts = []
    for at in range(generator.randint(2, 4)):
        _, cpu, memory, price = HOST_TYPES[generator.choice(sorted(HOST_TYPES))]
        hosts.append(Host(f"h{at}", cpu, memory, 4, price * generator.uniform(0.9, 1.1), zone=generator.choice("ab")))
    width = generator.randint(1, 3)
    forward = generator.random() < 0.5
    tasks = tuple(
        Task(f"t{at}", width if forward else generator.randint(1, 3), generator.uniform(0.3, 2.5), generator.uniform(0.4, 3.0))
        for at in range(generator.randint(1, 3))
    )
    pattern: Pattern = "forward" if forward else "all"
    edges = tuple(Edge(f"t{at}", f"t{at + 1}", 60_000.0, 200.0, pattern) for at in range(len(tasks) - 1))
    return PlaceRequest("cetsa", tuple(hosts), tasks, edges, Network(0.05))


@dataclass(frozen=True, slots=True)
class Gap:
    """Total cost above the true optimum at delta 1, over the instances an algorithm could place."""

    mean: float
    worst: float
    placed: int


def gaps(instances: Sequence[tuple[PlaceRequest, exact.Candidate]]) -> dict[Algorithm, Gap]:
    """Return the gap of rent plus communication to the optimum of each instance, by algorithm."""
    found: dict[Algorithm, list[float]] = {algorithm: [] for algorithm in ALGORITHMS}
    for request, best in instances:
        for algorithm in ALGORITHMS:
            answer = place(replace(request, algorithm=algorithm))
            if answer.feasible:
                found[algorithm].append(relative(answer.cost.total_per_s, best.total_per_s) or 0.0)
    return {algorithm: Gap(fmean(each), max(each), len(each)) for algorithm, each in found.items() if each}
