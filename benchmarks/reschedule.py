"""`surescale dev bench reschedule`: plans for a thousand fragments. Measures seconds, and vnodes moved against the formula."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import click

from benchmarks.machine import conditions, conditions_line
from surescale.rescaler.reschedule import Cluster, Distribution, Fragment, Worker, WorkerState, plan_desired
from surescale.runtime import options

SEED = 7
TARGET_S = 1.0


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One plan for all fragments of a cluster."""

    name: str
    seconds: float
    moved: int
    """Vnodes that change their unit."""
    least: int
    """Fewest moves with which any even mapping onto the planned units can manage."""


def run_plans(fragments: int = 1_000, workers: int = 100, units: int = 10) -> list[PlanRun]:
    """Plan for fragments on ``workers`` x ``units`` parallel units: scale out, scale in, and lose workers."""
    cases = (("8 to 12 units each", 8, 12, 0), ("100 to 130", 100, 130, 0), ("250 to 100", 250, 100, 0),
             ("200 units, 5 workers go", 200, 200, 5))  # fmt: skip
    return [
        _plan(
            name,
            _cluster(fragments, workers, units, min(before, workers * units), leaving),
            min(after, (workers - leaving) * units),
        )
        for name, before, after, leaving in cases
    ]


def _cluster(fragments: int, workers: int, units: int, parallelism: int, leaving: int) -> Cluster:
    generator = random.Random(SEED)
    states = [WorkerState.REMOVED_SOON if at < leaving else WorkerState.RUNNING for at in range(workers)]
    offered = tuple(
        Worker(at, f"worker-{at}", tuple(range(at * units, (at + 1) * units)), state) for at, state in enumerate(states)
    )
    every = range(workers * units)
    return Cluster(
        generation=1,
        workers=offered,
        fragments=tuple(
            Fragment(at, Distribution.HASH, tuple(sorted(generator.sample(every, parallelism)))) for at in range(fragments)
        ),
    )


def least_moved(mapping: Sequence[int], units: Iterable[int]) -> int:
    """Return the least number of vnodes that must move for an even mapping onto ``units``, by formula.

    ``vnodes - sum(min(held, q)) - min(r, number of kept units holding more than q)``, over the units that are kept.
    """
    held, ordered = Counter(mapping), set(units)
    quota, extra = divmod(len(mapping), len(ordered))
    kept = [held[unit] for unit in ordered if held[unit]]
    return len(mapping) - sum(min(count, quota) for count in kept) - min(extra, sum(count > quota for count in kept))


def _plan(name: str, cluster: Cluster, desired: int) -> PlanRun:
    started = time.process_time()
    plan = plan_desired(cluster, {fragment.id: desired for fragment in cluster.fragments})
    seconds = time.process_time() - started
    least = sum(
        least_moved(cluster.mapping_of(fragment) or (), plan.units[fragment.id])
        for fragment in cluster.fragments
        if fragment.id in plan.changes
    )
    return PlanRun(name, seconds, sum(plan.moved.values()), least)


@click.command("reschedule")
@options.as_json
def command(as_json: bool) -> None:
    """Plans for 1,000 fragments on 1,000 parallel units.

    Prints processor seconds, and vnodes moved next to the fewest possible.

    Exits with 1 if more vnodes move than necessary.
    """
    taken_under = conditions(SEED)
    found = run_plans()
    if as_json:
        document = {"conditions": taken_under, "target_s": TARGET_S, "plans": [asdict(each) for each in found]}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(conditions_line(taken_under))
        for each in found:
            click.echo(f"{each.name:<26}{each.seconds:5.2f} s   {each.moved:>9,} vnodes moved, least {each.least:,}")
        click.echo(f"target: {TARGET_S:g} s each")
    sys.exit(0 if all(each.moved == each.least for each in found) else 1)
