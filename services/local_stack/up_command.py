"""``surescale up``: the roles of the pipeline against given addresses, until stopped."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.settings import PORT_MAX, from_environment
from surescale.engines.options import engine_options
from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.services.pipeline_file import PipelineFile

WAIT_S = 180.0
_OWN = frozenset({"spark_master", "checkpoint", "one_process", "create_topics", "own_redis", "wait_s"})
"""Options that are no settings of the roles; a pipeline's file may name them."""


@click.command("up")
@click.option("--file", type=click.Path(path_type=Path),
              help="The pipeline's file (default: SURESCALE_FILE, else surescale.toml, if it is there).")  # fmt: skip
@options.bootstrap
@options.prefix
@options.redis_url
@engine_options
@options.default_policy
@click.option("--http-port", type=click.IntRange(0, PORT_MAX),
              help="Port of the HTTP API; 0: a free one (default: SURESCALE_HTTP_PORT, else 8070).")  # fmt: skip
@click.option("--master", "spark_master", help="Spark master (default: SURESCALE_SPARK_MASTER, else local[2]).")
@click.option("--checkpoint", help="Folder or URL of Spark's windows and offsets, kept between runs "
              "(default: SURESCALE_SPARK_CHECKPOINT, else a folder next to the logs).")  # fmt: skip
@click.option("--one-process", is_flag=True, help="Monitor, agent, rescaler and state service share a process, for few jobs.")
@click.option("--create-topics", is_flag=True, help="Create the topics that are missing first.")
@click.option("--own-redis", is_flag=True, help="Start a Redis first, at the loopback address that the settings name.")
@click.option("--wait", "wait_s", type=options.FiniteRange(1.0, 86_400.0),
              help="Seconds until Kafka and Redis must answer, and then until every role must be ready; "
              "after that up ends with exit code 1 (default: 180, and 600 for the roles).")  # fmt: skip
@click.option("--pipeline-clock/--wall-clock", default=None, help="Follow the topic clock (simulated engine), or the wall clock.")
@click.pass_context
def command(ctx: click.Context, /, file: Path | None, **given: Any) -> None:
    """Run all roles against an existing Kafka, Redis and engine.

    The roles are monitor, Spark job, agent, rescaler and state service. `surescale init` writes the file that says everything.
    Without it the topics must exist: create them with `surescale topics create`.
    """
    from surescale.services.pipeline_file import chosen, used

    with used(chosen(file)) as found:
        _up(found, **(_with_file(ctx, found, given) if found else given))


def _with_file(ctx: click.Context, file: "PipelineFile", given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options, with those of the file where the command line has none.

    Raises:
        SettingsError: the file names no such option, or its value cannot be read.
    """
    from surescale.contracts.suggestions import meant
    from surescale.services.pipeline_file import SETTINGS, UP

    known = {each.opts[0].lstrip("-"): each for each in ctx.command.params if each.name in _OWN}
    found = dict(given)
    for name, value in file.up.items():
        place = f"{file.path.name}: [{UP}] {name}"
        option = known.get(name)
        if option is None or option.name is None:
            raise SettingsError(
                f"{place}: there is no such option here; {meant(name, sorted(known))} (settings belong to [{SETTINGS}])"
            )
        if ctx.get_parameter_source(option.name) != ParameterSource.DEFAULT:
            continue
        try:
            found[option.name] = option.type_cast_value(ctx, value)
        except click.BadParameter as error:
            raise SettingsError(f"{place}: {options.in_plain_words(error.message)}") from None
        except TypeError as error:
            raise SettingsError(f"{place}: {error}") from None
    return found


def _up(
    file: "PipelineFile | None",
    *,
    http_port: int | None,
    spark_master: str | None,
    checkpoint: str | None,
    one_process: bool,
    create_topics: bool,
    own_redis: bool,
    wait_s: float | None,
    **given: Any,
) -> None:
    from surescale.engines.settings import ClusterSettings
    from surescale.runtime.kafka_security import uses_iam
    from surescale.runtime.ports import LOOPBACK, is_free
    from surescale.services.local_stack import before_roles
    from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
    from surescale.services.local_stack.supervisor import StopRequested, Supervisor
    from surescale.services.state.settings import StateSettings
    from surescale.services.tools.job_settings.file_commands import apply_files, checked_entries

    settings = options.settings_of(ClusterSettings, **given)
    before_roles.check_addresses(settings)
    spark_master = spark_master or os.environ.get("SURESCALE_SPARK_MASTER") or "local[2]"
    before_roles.check_spark_master(spark_master)
    place = before_roles.checkpoint_place(checkpoint)
    before_roles.check_chains(settings)
    if file and file.has_jobs:
        checked_entries(settings, file.path)
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
    arguments = ["--master", spark_master, "--checkpoint", place or str((folder / "checkpoint").absolute())]
    if file:
        for name in file.overruled():
            say(f"{file.path.name}: {file.place(name)} is ignored: the variable {name} wins")
    try:
        with Supervisor(folder, progress=say) as supervisor:
            if own_redis:
                supervisor.start(before_roles.own_redis(settings, folder))
            before_roles.await_servers(settings, supervisor, wait_s or WAIT_S, say)
            before_roles.warn_of_policy(settings, say)
            before_roles.warn_of_modes(settings, file.path if file and file.has_jobs else None, say)
            if create_topics:
                before_roles.create_missing_topics(settings, say)
            if file and file.has_jobs:
                apply_files(settings, file.path, lambda line: say(f"jobs: {line}"))
            spark_env = spark_environment(say, iam=uses_iam(settings))
            roles = pipeline_roles(settings, ports, spark_env=spark_env, spark_arguments=arguments, one_process=one_process)
            longer = "; a busy machine takes longer, which --wait allows"
            roles = [replace(role, ready_timeout_s=wait_s or role.ready_timeout_s, ready_hint=longer) for role in roles]
            supervisor.start_together(roles)
            say(f"the page and the state API are at http://{LOOPBACK}:{ports.http}/; logs are in {folder / 'logs'}; Ctrl-C stops")
            supervisor.wait(lambda: False)
    except StopRequested:
        if settings.actuator == "processes":
            say("stopped; the workers of jobs go on: `surescale workers list` shows them, `surescale workers stop JOB` ends them")
        else:
            say("stopped; nothing is left running")


def say(line: str) -> None:
    """Print a line of progress on standard error."""
    click.echo(line, err=True)
