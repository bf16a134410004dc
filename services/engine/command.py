"""``surescale engine``: the simulated engine as a process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from simulation.engine import SimulatedCluster

DEFAULT_JOB = "j_1351665"


@dataclass(frozen=True, slots=True)
class _Run:
    workload: str
    jobs: tuple[str, ...]
    minutes: int
    start_minute: int | None
    load_parallelism: float
    sample_interval_ms: int
    restart_ms: int
    rescale: str
    restore_mib_per_s: float
    checkpoint_interval_ms: int
    kill_host_minutes: tuple[int, ...]
    join_host_minutes: tuple[int, ...]


@click.command("engine")
@click.option("--workload", default="clarknet", show_default=True, help="clarknet, nasa, or a CSV with columns minute,requests.")
@click.option("--job", "jobs", multiple=True, help=f"Job by name, or a CSV of a graph, FILE or FILE#JOB. [{DEFAULT_JOB}]")
@click.option("--minutes", type=click.IntRange(min=1), default=240, show_default=True, help="Minutes of the trace to run.")
@click.option("--start-minute", type=click.IntRange(min=0), help="Minute of the trace to start at (clarknet: a Friday, 07:00).")
@click.option("--pace", type=click.Choice(["lockstep", "free"]), help="Wait for the road's answers, or let the clock run.")
@click.option("--speed", type=click.FloatRange(min=0.1), help="Event seconds per second (free: 60; lockstep: 6000).")
@click.option("--span-minutes", type=click.IntRange(min=1), help="How often the policy decides. [10]")
@click.option("--load-parallelism", type=click.FloatRange(min=0.1, max=100), default=7.0, show_default=True,
              help="Subtasks that the heaviest task needs at the workload's P99.")  # fmt: skip
@click.option("--sample-interval-ms", type=int, default=15_000, show_default=True, help="15000, 30000 or 60000.")
@click.option("--rescale", type=click.Choice(["learners", "restart"]), default="learners", show_default=True,
              help="State is restored before it moves, or the job restarts.")  # fmt: skip
@click.option("--restart-ms", type=int, default=60_000, show_default=True,
              help="How long a restart takes; a multiple of 15000.")  # fmt: skip
@click.option("--restore-mib-per-s", type=click.FloatRange(min=0.001), default=8.0, show_default=True,
              help="State that one host restores in a second (learners).")  # fmt: skip
@click.option(
    "--checkpoint-interval-ms", type=click.IntRange(min=60_000), default=60_000, show_default=True, help="Whole minutes."
)
@click.option("--kill-host", "kill_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end the busiest host dies; repeatable.")  # fmt: skip
@click.option("--join-host", "join_host_minutes", type=click.IntRange(min=1), multiple=True,
              help="Minute of the run at whose end another host joins; repeatable.")  # fmt: skip
@click.option("--seed", type=int, help="Seed of the road; the engine itself draws nothing.")
@click.option("--stop-wait-s", type=click.FloatRange(min=0.1), help="Wall limit of the wait at a stop. [60]")
@click.option("--host", "engine_host", help="Address to listen on. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=8090, show_default=True, help="Port; 0: a free one.")
@click.option("--kafka", "bootstrap", help="Bootstrap servers, or none: no clock topic (SURESCALE_BOOTSTRAP).")
@click.option("--prefix", help="Stands before every topic name.")
@click.option("--cluster", help="Name of the cluster. [sim]")
def command(
    *,
    workload: str,
    jobs: tuple[str, ...],
    minutes: int,
    start_minute: int | None,
    load_parallelism: float,
    sample_interval_ms: int,
    restart_ms: int,
    rescale: str,
    restore_mib_per_s: float,
    checkpoint_interval_ms: int,
    kill_host_minutes: tuple[int, ...],
    join_host_minutes: tuple[int, ...],
    port: int,
    bootstrap: str | None,
    prefix: str | None,
    **given: Any,
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
        **given,
    )
    set_up_logs("engine")
    chosen = _Run(
        workload,
        jobs or (DEFAULT_JOB,),
        minutes,
        start_minute,
        load_parallelism,
        sample_interval_ms,
        restart_ms,
        rescale,
        restore_mib_per_s,
        checkpoint_interval_ms,
        kill_host_minutes,
        join_host_minutes,
    )
    run(_cluster(chosen, settings.cluster), settings, port)


def _cluster(chosen: _Run, cluster: str) -> "SimulatedCluster":
    from simulation.costs import chosen_cost
    from simulation.engine import RunOptions, SimulatedCluster
    from simulation.jobs import load_job
    from simulation.workload import load_workload

    workload = load_workload(chosen.workload)
    options = RunOptions(
        minutes=chosen.minutes,
        start_minute=chosen.start_minute,
        cluster=cluster,
        sample_interval_ms=chosen.sample_interval_ms,
        cost=chosen_cost(chosen.rescale, chosen.restart_ms, chosen.restore_mib_per_s),
        checkpoint_interval_ms=chosen.checkpoint_interval_ms,
        kill_host_minutes=chosen.kill_host_minutes,
        join_host_minutes=chosen.join_host_minutes,
    )
    return SimulatedCluster([load_job(job, workload, chosen.load_parallelism) for job in chosen.jobs], workload, options)
