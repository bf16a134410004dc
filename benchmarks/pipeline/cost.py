"""``surescale dev bench cost``: what a job costs, as processor time and memory of each role.

Two runs. In the first, one job runs at its own pace: what every role takes though there is next to nothing to do. In the
second, many jobs run as fast as the pipeline answers: what each further hour of a job takes.
"""

import time
from collections.abc import Mapping

import click

from benchmarks.archive import archived, load_graph, where
from benchmarks.machine import conditions
from benchmarks.pipeline.usage import cores_used, memory_mb, processor_s
from benchmarks.report import Document, say, show
from surescale.contracts.clock import MINUTE_MS
from surescale.runtime import options
from surescale.runtime.signals import end_in_order
from surescale.services.local_stack.local_pipeline import LocalPipeline, PipelineOptions
from surescale.services.local_stack.supervisor import StopRequested
from surescale.simulation.load.graphs import JobGraph

JOBS = 25
TASKS = (18, 26)
WARM_MINUTES = 70  # from here on windows span their whole 60 minutes, and Spark's JVM has compiled what it runs often
MINUTES = 100
REST_WARM_MINUTES = 2
REST_MINUTES = 3
_OURS = ("monitor", "spark_jvm", "spark_driver", "spark_workers", "agent", "rescaler", "projector")
_SERVERS = ("broker", "redis")


def typical_graphs(count: int) -> list[JobGraph]:
    """Return graphs of the archive of a middling size, by name."""
    graphs = [load_graph(name) for name in archived()]
    return [graph for graph in graphs if TASKS[0] <= graph.size - 2 <= TASKS[1]][:count]


def resting(graph: JobGraph, minutes: int, policy: str, seed: int) -> Document:
    """Measure a pipeline of one job at its own pace, after two minutes in which the roles warm up."""
    say(f"at rest: one job of {graph.size - 2} tasks, {minutes} minutes as they pass")
    alone, enough = (where(graph.name),), REST_WARM_MINUTES + minutes + 60
    wanted = PipelineOptions(jobs=alone, minutes=enough, pace="free", speed=1.0, seed=seed, policy=policy, twins=())
    with LocalPipeline(wanted, say) as pipeline:
        pipeline.start()
        pipeline.wait_for_minute(REST_WARM_MINUTES)
        before, began_s = processor_s(), time.monotonic()
        pipeline.wait_for_minute(REST_WARM_MINUTES + minutes)
        return {"cores": _ours(cores_used(before, processor_s(), time.monotonic() - began_s)), "memory_mb": _ours(memory_mb())}


def working(graphs: list[JobGraph], minutes: int, policy: str, seed: int, rest_cores: Mapping[str, float]) -> Document:
    """Measure a pipeline of many jobs at the pace of its answers, once windows are whole, less what it takes at rest."""
    say(f"at work: {len(graphs)} jobs, minutes {WARM_MINUTES} to {WARM_MINUTES + minutes}")
    names = tuple(where(graph.name) for graph in graphs)
    wanted = PipelineOptions(jobs=names, minutes=WARM_MINUTES + minutes, seed=seed, policy=policy, twins=())
    with LocalPipeline(wanted, say) as pipeline:
        pipeline.start()
        first = pipeline.wait_for_minute(WARM_MINUTES)
        before, began_s = processor_s(), time.monotonic()
        last = pipeline.wait_for_minute(WARM_MINUTES + minutes)
        after, wall_s, memory = processor_s(), time.monotonic() - began_s, memory_mb()
        counts = pipeline.report().counts
    hours = len(graphs) * (last.minutes_done - first.minutes_done) * MINUTE_MS / 3_600_000
    used = {kind: after[kind] - before.get(kind, 0.0) - rest_cores.get(kind, 0.0) * wall_s for kind in after}
    per_hour = _ours({kind: round(max(0.0, seconds) / hours, 3) for kind, seconds in used.items()})
    return {
        "jobs": len(graphs),
        "tasks_per_job": round(sum(graph.size - 2 for graph in graphs) / len(graphs), 1),
        "samples_per_job_minute": round(counts.metrics / (len(graphs) * last.minutes_done), 1),
        "job_hours": round(hours, 1),
        "wall_s": round(wall_s, 1),
        "processor_s_per_job_hour": per_hour,
        "of_our_roles": round(sum(per_hour.get(kind, 0.0) for kind in _OURS), 3),
        "with_broker_and_redis": round(sum(per_hour.values()), 3),
        "memory_mb": _ours(memory),
    }


def _ours(found: Mapping[str, float]) -> dict[str, float]:
    """Leave out the simulated engine and this process, which a deployment does not have."""
    return {kind: found[kind] for kind in (*_OURS, *_SERVERS) if kind in found}


@click.command("cost")
@click.option("--jobs", type=click.IntRange(2, JOBS), default=JOBS, show_default=True, help="Jobs of the second run.")
@click.option("--minutes", type=click.IntRange(10, 1_000), default=MINUTES, show_default=True, help="Minutes counted in it.")
@click.option(
    "--rest-minutes",
    type=click.IntRange(1, 60),
    default=REST_MINUTES,
    show_default=True,
    help="Minutes counted in the first run.",
)
@click.option("--policy", default="sure", show_default=True, help="Policy by name.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(jobs: int, minutes: int, rest_minutes: int, policy: str, seed: int, as_json: bool) -> None:
    """What a job costs: processor time and memory of each role.

    At rest, and for each hour of a job of about twenty tasks.
    """
    report: Document = {"conditions": conditions(seed)}
    graphs = typical_graphs(jobs)
    end_in_order()
    try:
        report["at_rest"] = rest = resting(graphs[0], rest_minutes, policy, seed)
        report["at_work"] = working(graphs, minutes, policy, seed, rest["cores"])
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    show("surescale dev bench cost", report, as_json=as_json)
