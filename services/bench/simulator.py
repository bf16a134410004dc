"""``surescale bench simulator``: environment steps a second of the simulator, by mode and size of job, on one core."""

import time
from collections.abc import Callable
from functools import partial

import click
import numpy as np

from policies.features import SURE_WIDTH, WIDTH, encode
from runtime.conditions import conditions
from runtime.options import FiniteRange
from services.bench.report import Document, say, show
from simulation.cores import Mode, Terms
from simulation.jobs import load_job
from simulation.loop import LoopRows, within_limits
from simulation.workload import load_workload

JOBS = {6: "j_2521346", 16: "j_1351665", 46: "j_3803524"}  # tasks, source and sink included
TARGETS: dict[Mode, dict[int, int]] = {
    "clean": {6: 100_000, 16: 40_000, 46: 14_000},
    "compat": {6: 40_000, 16: 12_000, 46: 4_000},
}
OFFICIAL = {6: 10.8, 16: 3.7, 46: 0.38}
"""The SURE paper's own event-driven code, one environment on one core of a shared machine of this kind."""
SPAN_MINUTES = 60
WARM_UP_STEPS = 3


def steps_per_second(mode: Mode, tasks: int, rows: int, seed: int, seconds: float) -> Document:
    """Run random plans about a sound size on many rows; a step is one decision of one row, an hour of its time.

    ``with_figures``: with reward and all figures of the window, from which features are encoded. ``reward_alone``: nobody looks.
    ``encoded``: and the encoder of training and serving run on them; ``encoded_sure``: of the paper's 27 slots alone. Processor
    time, the best of many short stretches: the machine may be busy with other work.
    """
    workload, generator = load_workload("clarknet"), np.random.default_rng(seed)
    job = load_job(JOBS[tasks], workload)
    first = 60 * generator.integers(24, 160, rows)
    terms = Terms(mode=mode, span_minutes=SPAN_MINUTES)
    envs = LoopRows(job, workload, first, np.tile(job.start_parallelism, (rows, 1)), terms)
    changes = generator.integers(-1, 2, (8, rows, job.size))
    plans = [within_limits(job.configured_parallelism + change, job) for change in changes]

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
    found: Document = {"target": TARGETS[mode][tasks]} if mode in TARGETS else {}
    for name, see in ways.items():
        found[name] = round(rows / _seconds_per_step(envs, plans, see, seconds))
    return found


def _seconds_per_step(envs: LoopRows, plans: list[np.ndarray], see: Callable[[], None], seconds: float) -> float:
    """Return the least processor time of one step of all rows; the rows go on where they are."""
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
@click.option("--rows", type=click.IntRange(min=1), default=64, show_default=True, help="Environments side by side.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of plans and places in the workload.")
@click.option("--seconds", type=FiniteRange(min=0), default=3.0, show_default=True, help="For each figure.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(rows: int, seed: int, seconds: float, as_json: bool) -> None:
    """Measure how many environment steps (decisions, one hour each) the simulator makes in a second, on one core.

    Set OMP_NUM_THREADS=1 to keep numpy to it. Takes about two minutes.
    """
    found: Document = {"conditions": conditions(seed), "rows": rows, "span_minutes": SPAN_MINUTES}
    for mode in ("clean", "compat", "slo"):
        for tasks in JOBS:
            say(f"{mode}, {tasks} tasks")
            found[f"{mode}_{tasks}_tasks"] = steps_per_second(mode, tasks, rows, seed, seconds)  # type: ignore[arg-type]
    found["official_code"] = {f"{tasks}_tasks": rate for tasks, rate in OFFICIAL.items()}
    show("simulator, environment steps a second", found, as_json=as_json)
