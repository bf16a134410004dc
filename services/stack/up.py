"""``surescale up``: the roles of the road against given addresses, until stopped."""

import os
from pathlib import Path
from typing import Any

import click

from contracts.errors import SettingsError, reason_of
from contracts.settings import PORT_MAX, from_environment
from runtime.options import engine_url
from services import options


@click.command("up")
@options.bootstrap
@options.prefix
@options.redis_url
@engine_url
@click.option("--cluster", help="Cluster to serve (default: SURESCALE_CLUSTER).")
@click.option("--policy", help="Policy for jobs whose settings name none and none is released (default: SURESCALE_POLICY).")
@click.option("--http-port", type=click.IntRange(0, PORT_MAX),
              help="Port of the HTTP API; 0: a free one (default: SURESCALE_HTTP_PORT, else 8070).")  # fmt: skip
@click.option("--spark-master", default="local[2]", show_default=True, help="Where Spark runs.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Folder of the Spark checkpoint; kept between runs.")
@click.option("--road-clock/--wall-clock", default=None, help="Follow the topic `clock` (a simulated engine), or the wall clock.")
def command(
    *,
    http_port: int | None,
    spark_master: str,
    checkpoint: Path | None,
    **given: Any,
) -> None:
    """Run monitor, Spark job, agent, rescaler and state projector against a Kafka, a Redis and an engine that are there.

    The topics must be there, too: `surescale topics create` makes them.
    """
    from services.stack.ports import LOOPBACK, is_free
    from services.stack.road import RoadPorts, road_roles, spark_environment
    from services.stack.supervisor import StopRequested, Supervisor
    from services.state.settings import StateSettings

    settings = options.road_settings(**given)
    ports = RoadPorts.free(http=from_environment(StateSettings).http_port if http_port is None else http_port)
    if not is_free(ports.http):
        raise SettingsError(f"--http-port: port {ports.http} of {LOOPBACK} is taken; name another one")
    folder = Path(os.environ.get("SURESCALE_RUN_FOLDER", "runs/up"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"SURESCALE_RUN_FOLDER: {folder} cannot be made ({reason_of(error)}); name another folder") from None
    place = checkpoint or folder / "checkpoint"
    arguments = ["--master", spark_master, "--checkpoint", str(place.absolute())]
    try:
        with Supervisor(folder, progress=say) as supervisor:
            roles = road_roles(settings, ports, spark_env=spark_environment(say), spark_arguments=arguments)
            supervisor.start_together(roles)
            say(f"http://{LOOPBACK}:{ports.http}/ serves the state; logs are in {folder / 'logs'}; Ctrl-C stops")
            supervisor.wait(lambda: False)
    except StopRequested:
        say("stopped; nothing is left running")


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(line, err=True)
