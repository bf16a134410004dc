"""``surescale up``: the roles of the pipeline against given addresses, until stopped."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.settings import PORT_MAX, from_environment
from surescale.engines.options import engine_options
from surescale.runtime import options


@click.command("up")
@options.bootstrap
@options.prefix
@options.redis_url
@engine_options
@options.default_policy
@click.option("--http-port", type=click.IntRange(0, PORT_MAX),
              help="Port of the HTTP API; 0: a free one (default: SURESCALE_HTTP_PORT, else 8070).")  # fmt: skip
@click.option("--master", "spark_master", default="local[2]", show_default=True, help="Spark master.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Folder of Spark's offsets and windows, kept between runs.")
@click.option("--one-process", is_flag=True, help="Monitor, agent, rescaler and state service share a process, for few jobs.")
@click.option("--wait", "wait_s", type=options.FiniteRange(1.0, 86_400.0),
              help="Seconds until every role must be ready; then up ends with exit code 1 (default: 180).")  # fmt: skip
@click.option("--pipeline-clock/--wall-clock", default=None, help="Follow the topic clock (simulated engine), or the wall clock.")
def command(
    *,
    http_port: int | None,
    spark_master: str,
    checkpoint: Path | None,
    one_process: bool,
    wait_s: float | None,
    **given: Any,
) -> None:
    """Run all roles against an existing Kafka, Redis and engine.

    The roles are monitor, Spark job, agent, rescaler and state service. The topics must exist: create them with
    `surescale topics create`.
    """
    from surescale.engines.settings import ClusterSettings
    from surescale.runtime.ports import LOOPBACK, is_free
    from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
    from surescale.services.local_stack.supervisor import StopRequested, Supervisor
    from surescale.services.state.settings import StateSettings

    settings = options.settings_of(ClusterSettings, **given)
    ports = PipelinePorts.free(http=from_environment(StateSettings).http_port if http_port is None else http_port)
    if not is_free(ports.http):
        raise SettingsError(f"--http-port: port {ports.http} of {LOOPBACK} is taken; name another one")
    folder = Path(os.environ.get("SURESCALE_RUN_FOLDER", "runs/up"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"SURESCALE_RUN_FOLDER: {folder} cannot be created ({reason_of(error)}); name another folder"
        ) from None
    place = checkpoint or folder / "checkpoint"
    arguments = ["--master", spark_master, "--checkpoint", str(place.absolute())]
    try:
        with Supervisor(folder, progress=say) as supervisor:
            spark_env = spark_environment(say)
            roles = pipeline_roles(settings, ports, spark_env=spark_env, spark_arguments=arguments, one_process=one_process)
            if wait_s is not None:
                roles = [replace(role, ready_timeout_s=wait_s) for role in roles]
            supervisor.start_together(roles)
            say(f"the page and the state API are at http://{LOOPBACK}:{ports.http}/; logs are in {folder / 'logs'}; Ctrl-C stops")
            supervisor.wait(lambda: False)
    except StopRequested:
        say("stopped; nothing is left running")


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(line, err=True)
