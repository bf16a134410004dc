"""The gate over a million events, and plans for a thousand fragments: seconds, memory, vnodes moved against the formula.

Times are processor seconds; events and clusters are seeded. What it does not do: read documents or topics.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rescaler import vnodes
from rescaler.gate import Entries, Gate, Mode, Target
from rescaler.gate_settings import resolve
from rescaler.reschedule import plan_desired
from rescaler.reschedule_cluster import Cluster, Distribution, Fragment, Worker, WorkerState
from runtime.conditions import peak_mebibytes

SEED = 7
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class GateRun:
    """What a gate made of seeded events."""

    events: int
    seconds: float
    """Of the gate alone; events are made in between, uncounted."""
    phases: int
    transitions: int
    grown_mb: float
    """Growth of peak memory after the first tenth of the events."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One plan for all fragments of a cluster."""

    name: str
    seconds: float
    moved: int
    """Vnodes that change their unit."""
    least: int
    """The least that any even mapping onto the planned units can do with."""


def run_gate(events: int) -> GateRun:
    """One gate of two fragments, changes of slots and targets, checkpoints, triggers and ends of rescales, up to 2 s apart."""
    settings, _ = resolve({"checkpoint-interval": 10_000})
    generator = random.Random(SEED)
    targets, current = {"a": Target(2, 4), "b": Target(1, 3)}, {"a": 2, "b": 2}
    gate, _ = Gate.start(settings, mode=Mode.EXECUTING, targets=targets, slots=4, current=current, now_ms=0)
    seconds, phases, transitions, now_ms, early_mb = 0.0, 0, 0, 0, 0.0
    for done in range(0, events, _BATCH):
        calls: list[Callable[[], Entries]] = []
        for _ in range(min(_BATCH, events - done)):
            now_ms += generator.randint(0, 2_000)
            calls.append(_event(gate, generator, now_ms))
        started = time.process_time()
        for call in calls:
            for entry in call():
                phases += 1
                transitions += entry.transition is not None
        seconds += time.process_time() - started
        if done <= events // 10:
            early_mb = peak_mebibytes()
    return GateRun(events, seconds, phases, transitions, peak_mebibytes() - early_mb)


def _event(gate: Gate, generator: random.Random, now_ms: int) -> Callable[[], Entries]:
    kind = generator.randrange(5)
    if kind == 0:
        slots = generator.randint(1, 8)
        return lambda: gate.on_change(slots=slots, now_ms=now_ms)
    if kind == 1:
        lower = generator.randint(1, 4)
        targets = {"a": Target(lower, lower + 2), "b": Target(1, lower)}
        return lambda: gate.on_change(targets=targets, now_ms=now_ms)
    if kind == 2:
        completed = generator.random() < 0.7
        return lambda: gate.on_checkpoint(completed=completed, now_ms=now_ms)
    if kind == 3:
        return lambda: gate.on_trigger(now_ms)
    return lambda: gate.on_rescaled(True, now_ms)


def run_plans(fragments: int = 1_000, workers: int = 100, units: int = 10) -> list[PlanRun]:
    """Plans for fragments on ``workers`` x ``units`` parallel units: out, in, and workers that go."""
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


def _plan(name: str, cluster: Cluster, wanted: int) -> PlanRun:
    started = time.process_time()
    plan = plan_desired(cluster, {fragment.id: wanted for fragment in cluster.fragments})
    seconds = time.process_time() - started
    least = sum(
        vnodes.least_moved(cluster.mapping_of(fragment) or (), plan.units[fragment.id])
        for fragment in cluster.fragments
        if fragment.id in plan.changes
    )
    return PlanRun(name, seconds, sum(plan.moved.values()), least)
