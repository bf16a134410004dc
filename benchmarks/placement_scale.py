"""Placement of 10,000 subtasks on 1,000 hosts: seconds, memory, growth, and how far and why rent exceeds the lower bound.

Seeds are fixed. Each algorithm runs in its own process, so peak memory is measured separately. Times are processor seconds of
the whole `place` call (orders, placement, figures), the best of three, because the machine may be busy with other work.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from math import fsum, log2
from statistics import fmean

from benchmarks import charts
from benchmarks.configuration_bound import configuration_bound
from benchmarks.machine import conditions, conditions_line, peak_mebibytes
from benchmarks.markdown import table
from surescale.rescaler.placement import ALGORITHMS, Edge, Host, Network, Params, PlaceRequest, Task, place
from surescale.rescaler.placement.gap import at_delta, covering_lp, rent_bound
from surescale.rescaler.placement.problem import problem_of
from surescale.rescaler.placement.room import Room

SEED = 7
PRICE_SEEDS = range(10)
SUBTASKS, HOSTS = 10_000, 1_000
RUNS = 3
TYPES = ((8, 16, 2.417e-3), (16, 24, 4.861e-3), (24, 32, 7.778e-3))
"""The paper's three types at twice the size, so that a host holds a few dozen subtasks."""
SHAPES = ((0.2, 1.0), (0.5, 0.5), (0.8, 0.3), (1.0, 1.2))
FAMILIES = ("equal demands", "four shapes", "four shapes, scarce slots", "10,000 tasks of one subtask")
VARIANTS = (*ALGORITHMS, "lba-ce spread")

Growth = dict[str, list[tuple[int, int, float]]]
"""Subtasks, hosts and processor seconds, by algorithm."""


def cluster(hosts: int, slots: int, seed: int) -> tuple[Host, ...]:
    """Return hosts of the three types in turn, with prices varied by 10 % either way."""
    generator = random.Random(seed)
    found = []
    for at in range(hosts):
        cpu, memory, price = TYPES[at % len(TYPES)]
        found.append(Host(f"h{at}", cpu, memory, slots, price * generator.uniform(0.9, 1.1), zone="ab"[at % 2]))
    return tuple(found)


def instance(family: str, subtasks: int = SUBTASKS, hosts: int = HOSTS, seed: int = SEED) -> PlaceRequest:
    """Return one seeded instance: a chain of tasks with shuffles between them."""
    generator = random.Random(seed)
    if family == "equal demands":
        tasks = [Task("t0", subtasks, 0.7, 0.9)]
    elif family == "10,000 tasks of one subtask":
        tasks = [Task(f"t{at}", 1, generator.uniform(0.1, 1.0), generator.uniform(0.1, 1.2)) for at in range(subtasks)]
    else:
        share = subtasks // len(SHAPES)
        tasks = [Task(f"t{at}", share, cpu, memory) for at, (cpu, memory) in enumerate(SHAPES)]
    edges = tuple(Edge(left.id, right.id, 1e6, 100.0) for left, right in pairwise(tasks))
    slots = 16 if family == "four shapes, scarce slots" else 64
    return PlaceRequest("cetsa", cluster(hosts, slots, seed), tuple(tasks), edges, Network(0.01))


def variant(request: PlaceRequest, name: str) -> PlaceRequest:
    """Return the request for one algorithm, or for LBA-CE with its spread pass."""
    if name == "lba-ce spread":
        return replace(request, algorithm="lba-ce", params=replace(request.params, lba_pick="spread"))
    return replace(request, algorithm=next(algorithm for algorithm in ALGORITHMS if algorithm == name))


def measure(name: str, family: str) -> dict[str, float]:
    """Return seconds, peak memory, and rent above the bound, of one variant on one family."""
    request = variant(instance(family), name)
    seconds = []
    for _ in range(RUNS):
        started = time.process_time()
        answer = place(request)
        seconds.append(time.process_time() - started)
    megabytes = peak_mebibytes()
    bound = rent_bound(problem_of(at_delta(request, request.delta)))
    gap = answer.cost.resource_per_s / bound.per_s - 1 if bound and answer.feasible else float("nan")
    return {"seconds": min(seconds), "megabytes": megabytes, "gap": gap}


def measure_apart(name: str, family: str) -> dict[str, float]:
    """Measure in a separate process."""
    command = [sys.executable, "-m", "benchmarks.placement_scale", name, family]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def exact_percent(share: float) -> str:
    """Return a signed percentage with two digits."""
    return f"{round(share * 100, 2) + 0.0:+.2f} %"


def scale_table() -> str:
    """Return the table of every variant on every family."""
    rows = []
    for name in VARIANTS:
        found = [measure_apart(name, family) for family in FAMILIES]
        cells = [f"{each['seconds']:.2f} s, {exact_percent(each['gap'])}" for each in found]
        rows.append([name, *cells, f"{max(each['megabytes'] for each in found):.0f}"])
    return table(["algorithm", *FAMILIES, "peak MB"], rows)


def growth() -> Growth:
    """Measure processor seconds as subtasks and hosts grow together."""
    found: Growth = {}
    for name in ("cetsa", "lba-ce"):
        for hosts in (250, 500, 1000, 2000, 4000):
            request = variant(instance("four shapes", 10 * hosts, hosts), name)
            seconds = []
            for _ in range(RUNS):
                started = time.process_time()
                place(request)
                seconds.append(time.process_time() - started)
            found.setdefault(name, []).append((10 * hosts, hosts, min(seconds)))
    return found


def growth_table(found: Growth) -> str:
    """Return the table of seconds, and of microseconds per m log2 n."""
    rows = []
    for steps in zip(*found.values(), strict=True):
        subtasks, hosts, _ = steps[0]
        cells = [f"{seconds:.3f} s, {seconds * 1e6 / (subtasks * log2(hosts)):.2f}" for _, _, seconds in steps]
        rows.append([f"{subtasks:,} x {hosts:,}", *cells])
    return table(["subtasks x hosts", *(f"{name}: s, µs per m log2 n" for name in found)], rows)


def growth_plot(found: Growth) -> str:
    """Draw seconds over m log2 n, which come close to a straight line through 0."""
    series = {
        name: [(subtasks * log2(hosts) / 1e3, seconds) for subtasks, hosts, seconds in steps] for name, steps in found.items()
    }
    return charts.growth("Seconds to place m subtasks on n = m / 10 hosts", "m log2 n, thousands", "processor seconds", series)


@dataclass(frozen=True, slots=True)
class Excess:
    """Why the rent of an answer exceeds the lower bound, as shares of it."""

    above: float
    """Rent / bound - 1."""
    above_configurations: float
    """Rent / configuration bound - 1. No way to fill hosts with whole subtasks is cheaper than that bound."""
    free: float
    """Cores of the rented hosts left free within the threshold, over the cores the job needs."""
    dearer: float
    """Cost of the rented hosts above that of the cheapest hosts with as many cores."""


def excess(request: PlaceRequest, *, repair: bool = False) -> Excess:
    """Return why the rent of one answer exceeds the bound. In this family CPU is the scarce resource."""
    answer = place(request, repair=repair)
    problem = problem_of(at_delta(request, request.delta))
    bound = rent_bound(problem)
    assert bound is not None, "the family is feasible"
    room, rent = Room(problem), answer.cost.resource_per_s
    prices = [host.price for host in problem.hosts]
    rented = fsum(cores for cores, use in zip(room.cpu, answer.hosts, strict=True) if use.subtasks)
    needed = fsum(task.parallelism * task.cpu for task in problem.tasks)
    return Excess(
        above=rent / bound.per_s - 1,
        above_configurations=rent / configuration_bound(problem) - 1,
        free=rented / needed - 1,
        dearer=rent / covering_lp(prices, room.cpu, rented) - 1,
    )


def gap_table() -> str:
    """Return the table of rent above the bounds over ten sets of prices, by STL order, with its causes."""
    rows = []
    for params in (Params(order="interleaved"), Params(order="topological")):
        for name in ("cetsa", "cetsa --repair", "lba-ce"):
            found = [_excess(name, params, seed) for seed in PRICE_SEEDS]
            above = [each.above for each in found]
            reasons = [fmean(each.above_configurations for each in found), fmean(each.free for each in found)]
            cells = [fmean(above), max(above), *reasons, fmean(each.dearer for each in found)]
            rows.append([params.order, name, *map(exact_percent, cells)])
    head = ["order", "algorithm", "mean", "worst", "above the configuration bound", "cores left free", "dearer hosts"]
    return table(head, rows)


def bounds_table() -> str:
    """Return the table of both bounds where subtasks have few shapes. It shows how much of a gap is slack of the plain bound."""
    rows = []
    for family in FAMILIES[:3]:
        for name in ("cetsa", "lba-ce"):
            found = excess(variant(instance(family), name))
            rows.append([family, name, exact_percent(found.above), exact_percent(found.above_configurations)])
    return table(["family", "algorithm", "above the bound", "above the configuration bound"], rows)


def _excess(name: str, params: Params, seed: int) -> Excess:
    algorithm, _, repair = name.partition(" ")
    request = variant(instance("four shapes", seed=seed), algorithm)
    return excess(replace(request, params=params), repair=bool(repair))


def report(found: Growth) -> str:
    """Return all tables, with the conditions they were measured under."""
    head = (
        f"{SUBTASKS:,} subtasks on {HOSTS:,} hosts, prices ±10 %: processor seconds (best of {RUNS}), rent above the lower bound."
    )
    parts = [
        conditions_line(conditions(SEED)) + ".",
        head,
        scale_table(),
        "Growth:",
        growth_table(found),
        "![Seconds over m log2 n](figures/placement-growth.svg)",
        f"Rent above the bound, four shapes, {len(PRICE_SEEDS)} sets of prices:",
        gap_table(),
        "Both bounds, one set of prices:",
        bounds_table(),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
