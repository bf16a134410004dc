"""``surescale dev bench simulator``: environment steps per second of the simulator on one core, by mode, world and job size."""

import time
from collections.abc import Callable
from functools import partial

import click
import numpy as np

from benchmarks.archive import load_job
from benchmarks.machine import conditions
from benchmarks.report import Document, say, show
from surescale.policies.features import SURE_WIDTH, WIDTH, encode
from surescale.runtime import options
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Mode, Terms
from surescale.simulation.model.worlds import CALM, PRESSURE, World

JOBS = {6: "j_2521346", 16: "j_1351665", 46: "j_3803524"}  # tasks, source and sink included
TARGETS: dict[Mode, dict[int, int]] = {
    "clean": {6: 100_000, 16: 40_000, 46: 14_000},
    "compat": {6: 40_000, 16: 12_000, 46: 4_000},
}
OFFICIAL = {6: 10.8, 16: 3.7, 46: 0.38}
"""Steps per second of the SURE paper's own event-driven code: one environment on one core of a similar shared machine."""
MODES: tuple[tuple[str, Mode, World], ...] = (
    ("clean", "clean", CALM),
    ("pressure", "clean", PRESSURE),
    ("compat", "compat", CALM),
    ("slo", "slo", CALM),
)
SPAN_MINUTES = 60
WARM_UP_STEPS = 3


def steps_per_second(mode: Mode, world: World, tasks: int, rows: int, seed: int, seconds: float) -> Document:
    """Run random plans around a reasonable size on many rows. A step is one decision of one row, an hour of simulated time.

    Four figures: ``reward_alone`` reads nothing but the reward; ``with_figures`` also reads all figures of the window;
    ``encoded`` also runs the encoder of training and serving on them; ``encoded_sure`` encodes only the paper's 27 slots.
    Times are processor time, the best of many short stretches, because the machine may be busy with other work.
    """
    workload, generator = load_workload("clarknet"), np.random.default_rng(seed)
    job = load_job(JOBS[tasks], workload)
    first = 60 * generator.integers(24, 160, rows)
    terms = Terms(mode=mode, span_minutes=SPAN_MINUTES, world=world, restart_ms=world.restart_ms)
    envs = LoopRows(job, workload, first, np.tile(job.start_parallelism, (rows, 1)), terms)
    changes = generator.integers(-1, 2, (8, rows, job.size))
    plans = [job.within_limits(job.configured_parallelism + change) for change in changes]

    def look() -> None:
        envs.observe()

    def look_and_encode(width: int) -> None:
        seen = envs.observe()
        encode(seen.figures, envs.graph, seen.ends_ms, seen.hourly_load, width=width)

    ways: dict[str, Callable[[], None]] = {
        "with_figures": look,
        "reward_alone": lambda: None,
        "encoded": partial(look_and_encode, WIDTH),
        "encoded_sure": partial(look_and_encode, SURE_WIDTH),
    }
    found: Document = {"target": TARGETS[mode][tasks]} if mode in TARGETS and not world.has_pressure else {}
    for name, see in ways.items():
        found[name] = round(rows / _seconds_per_step(envs, plans, see, seconds))
    return found


def _seconds_per_step(envs: LoopRows, plans: list[np.ndarray], see: Callable[[], None], seconds: float) -> float:
    """Return the shortest processor time of one step of all rows. The rows continue from their present state."""
    best, ends_s, number = float("inf"), time.monotonic() + seconds, 0
    while time.monotonic() < ends_s or number < 2 * WARM_UP_STEPS:
        began_s = time.process_time()
        see()
        envs.reward(envs.step(plans[number % len(plans)]))
        if number >= WARM_UP_STEPS:
            best = min(best, time.process_time() - began_s)
        number += 1
    return best


@click.command("simulator")
@click.option("--rows", type=click.IntRange(min=1), default=64, show_default=True, help="Environments simulated side by side.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the plans and of places in the workload."
)
@click.option("--seconds", type=options.FiniteRange(min=0), default=3.0, show_default=True, help="For each figure.")
@options.as_json
def command(rows: int, seed: int, seconds: float, as_json: bool) -> None:
    """Steps of the simulator per second.

    A step is one decision for one hour. Measures on one core.

    Set OMP_NUM_THREADS=1 to keep numpy to it. Takes about two minutes.
    """
    found: Document = {"conditions": conditions(seed), "rows": rows, "span_minutes": SPAN_MINUTES}
    for name, mode, world in MODES:
        for tasks in JOBS:
            say(f"{name}, {tasks} tasks")
            found[f"{name}_{tasks}_tasks"] = steps_per_second(mode, world, tasks, rows, seed, seconds)
    found["official_code"] = {f"{tasks}_tasks": rate for tasks, rate in OFFICIAL.items()}
    show("simulator, environment steps a second", found, as_json=as_json)
