"""``surescale engine``: the simulated engine as a process."""

from typing import TYPE_CHECKING, Any

import click

from contracts.settings import PORT_MAX
from runtime.options import FiniteRange
from services import options

if TYPE_CHECKING:
    from simulation.engine import SimulatedCluster

DEFAULT_JOB = "j_1351665"


@click.command("engine")
@click.option(
    "--workload", default="clarknet", show_default=True, help="clarknet, nasa, twitter, or a CSV with columns minute,requests."
)
@click.option("--job", "jobs", multiple=True, help=f"Job by name, or a CSV of a graph, FILE or FILE#JOB. [{DEFAULT_JOB}]")
@click.option("--minutes", type=click.IntRange(min=1), default=240, show_default=True, help="Minutes of the trace to run.")
@click.option("--start-minute", type=click.IntRange(min=0), help="Minute of the trace to start at (clarknet: a Friday, 07:00).")
@click.option("--pace", type=click.Choice(["lockstep", "free"]), help="Wait for the road's answers, or let the clock run.")
@click.option("--speed", type=FiniteRange(min=0.1), help="Event seconds per second (free: 60; lockstep: 6000).")
@click.option("--span-minutes", type=click.IntRange(min=1), help="How often the policy decides. [10]")
@click.option("--load-parallelism", type=FiniteRange(min=0.1, max=100), default=7.0, show_default=True,
              help="Subtasks that the heaviest task needs at the workload's P99.")  # fmt: skip
@click.option("--sample-interval-ms", type=int, default=15_000, show_default=True, help="15000, 30000 or 60000.")
@click.option("--rescale", type=click.Choice(["learners", "restart"]), default="learners", show_default=True,
              help="State is restored before it moves, or the job restarts.")  # fmt: skip
@click.option("--restart-ms", type=int, default=60_000, show_default=True,
              help="How long a restart takes; a multiple of 15000.")  # fmt: skip
@click.option("--restore-mib-per-s", type=FiniteRange(min=0.001), default=8.0, show_default=True,
              help="State that one host restores in a second (learners).")  # fmt: skip
@click.option(
    "--checkpoint-interval-ms", type=click.IntRange(min=60_000), default=60_000, show_default=True, help="Whole minutes."
)
@click.option("--kill-host", "kill_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end the busiest host dies; repeatable.")  # fmt: skip
@click.option("--join-host", "join_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end another host joins; repeatable.")  # fmt: skip
@click.option("--seed", type=int, help="Seed of the road; the engine itself draws nothing.")
@click.option("--stop-wait-s", type=FiniteRange(min=0.1), help="Wall limit of the wait at a stop. [60]")
@click.option("--host", "engine_host", help="Address to listen on. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, PORT_MAX), default=8090, show_default=True, help="Port; 0: a free one.")
@click.option(
    "--bootstrap", "--kafka", "bootstrap", help="Kafka bootstrap servers, or none: no clock topic (default: SURESCALE_BOOTSTRAP)."
)
@options.prefix
@click.option("--cluster", help="Name of the cluster. [sim]")
def command(
    *,
    jobs: tuple[str, ...],
    port: int,
    bootstrap: str | None,
    prefix: str | None,
    pace: str | None,
    speed: float | None,
    span_minutes: int | None,
    seed: int | None,
    stop_wait_s: float | None,
    engine_host: str | None,
    cluster: str | None,
    **run_options: Any,
) -> None:
    """Run jobs under a real trace and own the road's clock; stands still until POST /clock/start."""
    from contracts.settings import from_environment
    from runtime.logs import set_up_logs
    from services.engine.process import run
    from services.engine.settings import EngineSettings

    no_kafka = bootstrap == "none"
    settings = from_environment(
        EngineSettings,
        bootstrap=None if no_kafka else bootstrap,
        use_kafka=False if no_kafka else None,
        topic_prefix=prefix,
        pace=pace,
        speed=speed,
        span_minutes=span_minutes,
        seed=seed,
        stop_wait_s=stop_wait_s,
        engine_host=engine_host,
        cluster=cluster,
    )
    set_up_logs("engine")
    run(_cluster(settings.cluster, jobs or (DEFAULT_JOB,), **run_options), settings, port)


def _cluster(
    cluster: str,
    jobs: tuple[str, ...],
    *,
    workload: str,
    load_parallelism: float,
    rescale: str,
    restart_ms: int,
    restore_mib_per_s: float,
    **run_options: Any,
) -> "SimulatedCluster":
    from simulation.costs import chosen_cost
    from simulation.engine import RunOptions, SimulatedCluster
    from simulation.jobs import load_job
    from simulation.workload import load_workload

    load = load_workload(workload)
    cost = chosen_cost(rescale, restart_ms, restore_mib_per_s)
    options = RunOptions(cluster=cluster, cost=cost, **run_options)
    return SimulatedCluster([load_job(job, load, load_parallelism) for job in jobs], load, options)
