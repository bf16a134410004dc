"""``surescale run engine``: the simulated engine as a process."""

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from surescale.contracts.settings import PORT_MAX
from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.simulation.engine.cluster import SimulatedCluster


class _Stretch(TypedDict):
    """Options that `simulation.engine.cluster.RunOptions` takes as they are."""

    minutes: int
    start_minute: int | None
    sample_interval_ms: int
    checkpoint_interval_ms: int
    kill_host_minutes: tuple[int, ...]
    join_host_minutes: tuple[int, ...]


class _SimulatedRun(_Stretch):
    """All of `runtime.options.simulated_run_options` but the jobs."""

    workload: str
    load_parallelism: float
    world: str
    world_seed: int
    rescale: str
    restart_ms: int | None
    restore_mib_per_s: float


@click.command("engine")
@options.simulated_run_options
@options.pace
@options.speed
@options.span_minutes("10")
@options.seed
@click.option("--stop-wait-s", type=options.FiniteRange(min=0.1), help="Longest wait at a stop, in real seconds (default: 60).")
@click.option("--host", "engine_host", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, PORT_MAX), default=8090, show_default=True, help="Port; 0: a free one.")
@click.option("--bootstrap", help="Kafka bootstrap servers, or none: no clock topic (default: SURESCALE_BOOTSTRAP).")
@options.prefix
@options.cluster
def command(
    *,
    jobs: tuple[str, ...],
    port: int,
    bootstrap: str | None,
    topic_prefix: str | None,
    pace: str | None,
    speed: float | None,
    span_minutes: int | None,
    seed: int | None,
    stop_wait_s: float | None,
    engine_host: str | None,
    cluster: str | None,
    **run: Unpack[_SimulatedRun],
) -> None:
    """Simulate an engine that runs jobs under a load.

    Owns the pipeline's clock, which is stopped until POST /clock/start.
    """
    from surescale.contracts.settings import from_environment
    from surescale.runtime.logs import set_up_logs
    from surescale.services.engine.process import serve
    from surescale.services.engine.settings import EngineSettings

    no_kafka = bootstrap == "none"
    settings = from_environment(
        EngineSettings,
        bootstrap=None if no_kafka else bootstrap,
        use_kafka=False if no_kafka else None,
        topic_prefix=topic_prefix,
        pace=pace,
        speed=speed,
        span_minutes=span_minutes,
        seed=seed,
        stop_wait_s=stop_wait_s,
        engine_host=engine_host,
        cluster=cluster,
    )
    set_up_logs("engine")
    serve(_cluster(settings.cluster, jobs, **run), settings, port)


def _cluster(
    cluster: str,
    jobs: tuple[str, ...],
    *,
    workload: str,
    load_parallelism: float,
    world: str,
    world_seed: int,
    rescale: str,
    restart_ms: int | None,
    restore_mib_per_s: float,
    **stretch: Unpack[_Stretch],
) -> "SimulatedCluster":
    from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
    from surescale.simulation.load.jobs import load_job
    from surescale.simulation.load.workload import load_workload
    from surescale.simulation.model.costs import chosen_cost
    from surescale.simulation.model.worlds import cluster_world

    played = cluster_world(world, world_seed)
    load = load_workload(workload)
    cost = chosen_cost(rescale, restart_ms, restore_mib_per_s, played)
    asked = RunOptions(cluster=cluster, cost=cost, world=played, **stretch)
    return SimulatedCluster([load_job(job, load, load_parallelism) for job in jobs], load, asked)
