"""`surescale dev bench gate`: one gate over a million events. Measures processor seconds and the growth of memory."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import click

from benchmarks.machine import conditions, conditions_line, peak_mebibytes
from surescale.rescaler.gate import Entries, Gate, Mode, Target
from surescale.rescaler.gate_settings import resolve
from surescale.runtime import options

SEED = 7
TARGET_S, GROWN_MB_MAX = 5.0, 5.0
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class GateRun:
    """What one gate did with seeded events."""

    events: int
    seconds: float
    """Spent in the gate alone. The events are made between the timed stretches."""
    phases: int
    transitions: int
    grown_mb: float
    """Growth of peak memory after the first tenth of the events."""


def run_gate(events: int) -> GateRun:
    """Feed one gate of two fragments with changes of slots and targets, checkpoints, triggers and ends of rescales.

    Events lie up to 2 s apart.
    """
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


@click.command("gate")
@click.option("--events", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Number of events.")
@options.as_json
def command(events: int, as_json: bool) -> None:
    """One gate over a million events: time and memory.

    Prints processor seconds and the growth of memory.

    Exits with 1 if memory grows.
    """
    taken_under = conditions(SEED)
    found = run_gate(events)
    if as_json:
        click.echo(json.dumps({"conditions": taken_under, "target_s": TARGET_S, **asdict(found)}, indent=2))
    else:
        click.echo(conditions_line(taken_under))
        click.echo(f"{found.events:,} events: {found.seconds:.2f} s (target for a million: {TARGET_S:g} s)")
        click.echo(f"{found.phases:,} phases entered, {found.transitions:,} transitions; memory grew by {found.grown_mb:.1f} MB")
    sys.exit(0 if found.grown_mb <= GROWN_MB_MAX else 1)
