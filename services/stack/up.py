"""``surescale up``: the roles of the road against given addresses, until stopped."""

import os
from pathlib import Path
from typing import Any

import click

from contracts.settings import RoadSettings, from_environment


@click.command("up")
@click.option("--bootstrap", help="Kafka bootstrap servers (SURESCALE_BOOTSTRAP).")
@click.option("--redis", "redis_url", help="Redis address (SURESCALE_REDIS_URL).")
@click.option("--engine", "engine_url", help="Engine API (SURESCALE_ENGINE_URL).")
@click.option("--cluster", help="Cluster to serve (SURESCALE_CLUSTER).")
@click.option("--policy", help="Policy for jobs whose settings name none (SURESCALE_POLICY).")
@click.option("--http-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port of the HTTP API.")
@click.option("--spark-master", default="local[2]", show_default=True)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Folder of the Spark checkpoint; kept between runs.")
@click.option("--road-clock/--wall-clock", default=None, help="Follow the topic `clock` (a simulated engine), or the wall clock.")
def command(
    *,
    http_port: int,
    spark_master: str,
    checkpoint: Path | None,
    **given: Any,
) -> None:
    """Run monitor, Spark job, agent, rescaler and state projector against a Kafka, a Redis and an engine that are there."""
    from services.stack.ports import LOOPBACK
    from services.stack.road import RoadPorts, road_roles, spark_environment
    from services.stack.supervisor import StopRequested, Supervisor

    settings = from_environment(RoadSettings, **given)
    ports = RoadPorts.free(http=http_port)
    folder = Path(os.environ.get("SURESCALE_RUN_FOLDER", "runs/up"))
    place = checkpoint or folder / "checkpoint"
    arguments = ["--master", spark_master, "--checkpoint", str(place.absolute())]
    try:
        with Supervisor(folder, progress=say) as supervisor:
            for role in road_roles(settings, ports, spark_env=spark_environment(say), spark_arguments=arguments):
                supervisor.start(role)
            say(f"http://{LOOPBACK}:{ports.http}/ serves the state; logs are in {folder / 'logs'}; Ctrl-C stops")
            supervisor.wait(lambda: False)
    except StopRequested:
        say("stopped; nothing is left running")


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(line, err=True)
