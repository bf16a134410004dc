"""Placement at 10,000 subtasks x 1,000 hosts: seconds, memory, rent above the bound, growth.

Run from the repository root: `python -m benchmarks.placement [--write docs/placement.md]`. Seeds are fixed; each algorithm
runs in a process of its own, so that its peak memory is its own. Times are processor seconds of the whole `place` call
(orders, placement, figures), the best of three: the machine may be busy with other work.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from math import log2
from pathlib import Path
from statistics import fmean

import click

from rescaler.commands.bench_placement import between_markers
from rescaler.placement import ALGORITHMS, Edge, Host, Network, Params, PlaceRequest, Task, place
from rescaler.placement.bounds import rent_bound
from rescaler.placement.gap import at_delta
from rescaler.placement.problem import problem_of
from rescaler.placement.report import table

SEED = 7
PRICE_SEEDS = range(10)
SUBTASKS, HOSTS = 10_000, 1_000
RUNS = 3
TYPES = ((8, 16, 2.417e-3), (16, 24, 4.861e-3), (24, 32, 7.778e-3))
"""The paper's three types at twice the size, so that a host takes some tens of subtasks."""
SHAPES = ((0.2, 1.0), (0.5, 0.5), (0.8, 0.3), (1.0, 1.2))
FAMILIES = ("equal demands", "four shapes", "four shapes, scarce slots", "10,000 tasks of one subtask")
VARIANTS = (*ALGORITHMS, "lba-ce spread")


def cluster(hosts: int, slots: int, seed: int) -> tuple[Host, ...]:
    """Three types in turn, prices +-10 %."""
    generator = random.Random(seed)
    found = []
    for at in range(hosts):
        cpu, memory, price = TYPES[at % len(TYPES)]
        found.append(Host(f"h{at}", cpu, memory, slots, price * generator.uniform(0.9, 1.1), zone="ab"[at % 2]))
    return tuple(found)


def instance(family: str, subtasks: int = SUBTASKS, hosts: int = HOSTS, seed: int = SEED) -> PlaceRequest:
    """One seeded instance: a chain of tasks with shuffles between them."""
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
    """The request for one algorithm, or for LBA-CE with its spread pass."""
    if name == "lba-ce spread":
        return replace(request, algorithm="lba-ce", params=replace(request.params, lba_pick="spread"))
    return replace(request, algorithm=name)  # type: ignore[arg-type]


def measure(name: str, family: str) -> dict[str, float]:
    """Seconds, peak memory, and rent above the bound of one variant on one family."""
    request = variant(instance(family), name)
    seconds = []
    for _ in range(RUNS):
        started = time.process_time()
        answer = place(request)
        seconds.append(time.process_time() - started)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bound = rent_bound(problem_of(at_delta(request, request.delta)))
    gap = answer.cost.resource_per_s / bound.per_s - 1 if bound and answer.feasible else float("nan")
    return {"seconds": min(seconds), "megabytes": megabytes, "gap": gap}


def measure_apart(name: str, family: str) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.placement", "--one", name, family]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def exact_percent(share: float) -> str:
    """A percentage with two digits."""
    return f"{round(share * 100, 2) + 0.0:+.2f} %"


def scale_table() -> str:
    """Every variant on every family."""
    rows = []
    for name in VARIANTS:
        found = [measure_apart(name, family) for family in FAMILIES]
        cells = [f"{each['seconds']:.2f} s, {exact_percent(each['gap'])}" for each in found]
        rows.append([name, *cells, f"{max(each['megabytes'] for each in found):.0f}"])
    return table(["algorithm", *FAMILIES, "peak MB"], rows)


def growth_table() -> str:
    """Seconds and microseconds per m log2 n as both grow."""
    rows = []
    for hosts in (250, 500, 1000, 2000, 4000):
        subtasks = 10 * hosts
        cells = []
        for name in ("cetsa", "lba-ce"):
            request = variant(instance("four shapes", subtasks, hosts), name)
            seconds = []
            for _ in range(RUNS):
                started = time.process_time()
                place(request)
                seconds.append(time.process_time() - started)
            cells.append(f"{min(seconds):.3f} s, {min(seconds) * 1e6 / (subtasks * log2(hosts)):.2f}")
        rows.append([f"{subtasks:,} x {hosts:,}", *cells])
    return table(["subtasks x hosts", "cetsa: s, µs per m log2 n", "lba-ce: s, µs per m log2 n"], rows)


def gap_table() -> str:
    """Rent above the bound over ten sets of prices, by STL order, and what the repair adds."""
    rows = []
    for order in ("interleaved", "topological"):
        for name in ("cetsa", "cetsa --repair", "lba-ce"):
            gaps = [_gap(name, order, seed) for seed in PRICE_SEEDS]
            rows.append([order, name, exact_percent(fmean(gaps)), exact_percent(max(gaps))])
    return table(["order", "algorithm", "mean", "worst"], rows)


def _gap(name: str, order: str, seed: int) -> float:
    algorithm, _, repair = name.partition(" ")
    request = variant(instance("four shapes", seed=seed), algorithm)
    request = replace(request, params=Params(order=order))  # type: ignore[arg-type]
    bound = rent_bound(problem_of(at_delta(request, request.delta)))
    return place(request, repair=bool(repair)).cost.resource_per_s / bound.per_s - 1 if bound else float("nan")


def report() -> str:
    """All tables, with what the machine was doing."""
    load = os.getloadavg()[0]
    note = f"{os.cpu_count()} CPUs, one used; load average {load:.1f} at the start (other work ran beside it)."
    head = (
        f"{SUBTASKS:,} subtasks on {HOSTS:,} hosts, prices ±10 %: processor seconds (best of {RUNS}), rent above the lower bound."
    )
    return (
        "\n\n".join(
            (
                note,
                head,
                scale_table(),
                "Growth:",
                growth_table(),
                f"Rent above the bound, four shapes, {len(PRICE_SEEDS)} sets of prices:",
                gap_table(),
            )
        )
        + "\n"
    )


@click.command()
@click.option("--write", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Write into this page too.")
@click.option("--one", nargs=2, help="Measure one variant on one family, as JSON.")
def main(write: Path | None, one: tuple[str, str] | None) -> None:
    """Measure placement at scale."""
    if one is not None:
        click.echo(json.dumps(measure(*one)))
        return
    text = report()
    if write is not None:
        page = write.read_text(encoding="utf-8")
        write.write_text(between_markers(page, text, "benchmarks-placement"), encoding="utf-8")
    click.echo(text)


if __name__ == "__main__":
    main()
