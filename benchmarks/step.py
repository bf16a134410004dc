"""``surescale dev bench step``: how policies answer a load that becomes four times as large, in every world of the simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.simulation.engine.running_job import RunningJob
    from surescale.simulation.load.jobs import SizedJob
    from surescale.simulation.load.workload import Workload
    from surescale.simulation.model.worlds import World

JOB = "j_2521346"  # six tasks, source and sink included
POLICIES = ("sure", "forecast", "target-utilisation", "ds2-gate", "flink", "ds2", "hpa", "lag", "threshold")
BEFORE_HOURS = 26  # a day of history, an hour to settle, an hour to be settled
WATCHED_MINUTES = 180
OFF_SPAN_MINUTES = 3  # the step comes this long after a decision


@dataclass(frozen=True, slots=True)
class StepResponse:
    """One policy's answer to one step.

    Attributes:
        right_sized_minutes: from the step until the bottleneck has the subtasks that the new load needs; infinite if never.
        rescales: within the time watched.
        waiting_max: most records inside the job or in its broker.
        backlog: record-minutes of these.
        subtask_minutes: of the real tasks.
    """

    right_sized_minutes: float
    rescales: float
    waiting_max: float
    backlog: float
    subtask_minutes: float


def answered(
    policy: str,
    world: World,
    load: float,
    factor: float,
    seed: int,
    step_up: float | None = None,
    *,
    emergency: bool = False,
    late_minutes: int = OFF_SPAN_MINUTES,
) -> StepResponse:
    """Follow a policy through a step from ``load`` records a minute (Poisson counts) to ``factor`` times as many.

    Decisions pass the guardrails and are carried out by the simulated engine as in the pipeline. The job is sized so that its
    heaviest task needs seven subtasks at the new load's 99th percentile. ``step_up``: the guardrail's factor; None: the simulated
    engine's. ``emergency``: plain overload is answered at once, as on a real engine. ``late_minutes``: from the end of a span to
    the step.
    """
    from benchmarks.archive import load_job
    from surescale.contracts.job_settings import JobSettings
    from surescale.policies.decide import decide_if_due
    from surescale.policies.registry import load_policy
    from surescale.simulation.engine.cluster import RunOptions
    from surescale.simulation.engine.episode import run_episode
    from surescale.simulation.model.costs import RestartCost

    workload, step = stepped(load, factor, seed, late_minutes)
    job = load_job(JOB, workload, minutes=(step, workload.minutes))
    loaded, begin = load_policy(policy), step - 2 * 60 - late_minutes
    settings = JobSettings(job=f"sim/{job.name}", total_limit=job.total_limit, step_up_max=step_up, emergency_growth=emergency)
    cost = RestartCost(restart_ms=world.restart_ms)
    episode = run_episode(
        [job],
        workload,
        lambda window: decide_if_due(window, loaded, settings, seed=seed),
        options=RunOptions(minutes=workload.minutes - begin, start_minute=begin, world=world, cost=cost),
        span_minutes=1,
    )
    return _figures(episode.cluster.job(job.name), job, load * factor)


def stepped(load: float, factor: float, seed: int, late_minutes: int = OFF_SPAN_MINUTES) -> tuple[Workload, int]:
    """Return a workload of Poisson counts and the minute of its step."""
    import numpy as np

    from surescale.simulation.load.workload import Workload

    step = BEFORE_HOURS * 60 + late_minutes
    means = np.full(step + WATCHED_MINUTES, load)
    means[step:] *= factor
    return Workload("step", np.random.default_rng(seed).poisson(means).astype(np.int64), 0), step


def _figures(ran: RunningJob, job: SizedJob, load: float) -> StepResponse:
    import numpy as np

    from surescale.contracts.windows import FIGURE

    minutes = list(ran.minutes)[-WATCHED_MINUTES:]
    rows = np.stack([minute.rows for minute in minutes])
    bottleneck = int(np.argmax(job.service_minutes))
    enough = rows[:, bottleneck, FIGURE["parallelism"]] >= load * job.service_minutes[bottleneck] - 1e-9
    waiting = rows[..., FIGURE["queued_records_last"]].sum(axis=1)
    return StepResponse(
        right_sized_minutes=float(np.argmax(enough)) if enough.any() else math.inf,
        rescales=float((rows[:, bottleneck, FIGURE["restarts"]] > 0).sum()),
        waiting_max=float(waiting.max()),
        backlog=float(sum(ran.ledger.backlog_minutes[-WATCHED_MINUTES:])),
        subtask_minutes=float(rows[:, 1:-1, FIGURE["parallelism"]].sum()),
    )


def mean_of(found: Sequence[StepResponse]) -> dict[str, float | None]:
    """Return the mean of each figure; None where it is infinite for one seed."""
    from dataclasses import asdict

    sums = {name: sum(asdict(each)[name] for each in found) / len(found) for name in asdict(found[0])}
    return {name: round(value, 1) if math.isfinite(value) else None for name, value in sums.items()}


@click.command("step")
@options.policies(*POLICIES)
@click.option("--load", type=options.FiniteRange(1, 10_000), default=100.0, show_default=True, help="Records a minute before.")
@click.option("--factor", type=options.FiniteRange(1, 100), default=4.0, show_default=True, help="Load after over load before.")
@click.option("--seeds", type=click.IntRange(1, 20), default=3, show_default=True, help="Number of seeds of the load.")
@click.option(
    "--step-up",
    type=options.FiniteRange(1, 1_000_000, min_open=True),
    help="Largest factor by which one decision widens a task (default: the simulated engine's).",
)
@click.option("--emergency", is_flag=True, help="Answer plain overload at once, as on a real engine.")
@options.as_json
def command(
    policies: tuple[str, ...], load: float, factor: float, seeds: int, step_up: float | None, emergency: bool, as_json: bool
) -> None:
    """How policies answer a step of the load.

    Runs each with its shipped constants in every world of the simulator, and prints means over the seeds: minutes until the
    bottleneck has the subtasks it needs, rescales, and the backlog.
    """
    from benchmarks.machine import conditions
    from benchmarks.markdown import table
    from benchmarks.report import say, show
    from surescale.simulation.model.worlds import CALM, PRESSURE

    played = {world.name: world for world in (CALM, PRESSURE)}

    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for policy in policies:
        say(policy)
        found[policy] = {
            name: mean_of([answered(policy, world, load, factor, seed, step_up, emergency=emergency) for seed in range(seeds)])
            for name, world in played.items()
        }
    if as_json:
        show("step", {"conditions": conditions(0), "policies": found}, as_json=True)
        return
    names = ("right_sized_minutes", "rescales", "waiting_max", "backlog", "subtask_minutes")
    head = ["policy", *(f"{name.replace('_', ' ')}, {world}" for name in names for world in played)]
    click.echo(table(head, [[policy, *_cells(worlds, names)] for policy, worlds in found.items()]))


def _cells(worlds: dict[str, dict[str, Any]], names: Sequence[str]) -> list[str]:
    return ["never" if of[name] is None else f"{of[name]:,.0f}" for name in names for of in worlds.values()]
