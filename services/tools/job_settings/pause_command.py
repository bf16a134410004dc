"""``surescale job pause``, ``cluster pause`` and their ``resume``: stop rescales of one job or of all, and let them go on."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from surescale.contracts.errors import SettingsError
from surescale.contracts.pauses import all_jobs_of
from surescale.runtime import options
from surescale.runtime.printable import printable

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.job_settings.snapshot import ChangeResult


_pausing = options.grouped(
    click.option(
        "--direction", type=click.Choice(["up", "down", "both"]), default="both", show_default=True, help="What is stopped."
    ),
    click.option("--until", metavar="TIME", help="When it ends, by the pipeline's clock: ISO 8601, in UTC unless stated."),
    click.option("--for", "lasting", metavar="DURATION", help="How long it lasts by the pipeline's clock, like 90m, 2h or 1d."),
    click.option("--why", required=True, help="Why, for those who come later."),
)


@click.command("pause")
@click.argument("job")
@_pausing
@options.by
@options.connected()
def pause_job(settings: "PipelineSettings", job: str, **asked: Any) -> None:
    """Stop rescales of a job.

    JOB is cluster/name. Both directions also stop what the rescaler does by itself, like balancing. A rescale that is under way
    is finished, and a job that loses its hosts is still restarted. Without --until and --for the pause lasts until `surescale
    job resume JOB`.
    """
    _pause(settings, job, _scope_of_job(job, "pause"), **asked)


@click.command("pause")
@click.argument("cluster")
@_pausing
@options.by
@options.connected()
def pause_cluster(settings: "PipelineSettings", cluster: str, **asked: Any) -> None:
    """Stop rescales of all jobs of a cluster.

    Both directions also stop what the rescaler does by itself, like balancing. Rescales that are under way are finished, and a
    job that loses its hosts is still restarted. Without --until and --for the pause lasts until `surescale cluster resume
    CLUSTER`.
    """
    _pause(settings, cluster, _scope_of_cluster(cluster, "pause"), **asked)


@click.command("resume")
@click.argument("job")
@options.by
@options.connected()
def resume_job(settings: "PipelineSettings", job: str, by: str | None) -> None:
    """End the pause of a job.

    JOB is cluster/name. A pause of the cluster still applies to the job as long as it lasts.
    """
    _resume(settings, job, _scope_of_job(job, "resume"), by)


@click.command("resume")
@click.argument("cluster")
@options.by
@options.connected()
def resume_cluster(settings: "PipelineSettings", cluster: str, by: str | None) -> None:
    """End the pause of a cluster.

    A job that is paused by itself stays so.
    """
    _resume(settings, cluster, _scope_of_cluster(cluster, "resume"), by)


def _scope_of_job(job: str, word: str) -> str:
    if "/" not in job:
        raise SettingsError(f"JOB: {job} is a cluster; write CLUSTER/NAME, or `surescale cluster {word} {job}` for all its jobs")
    return job


def _scope_of_cluster(cluster: str, word: str) -> str:
    if "/" in cluster:
        raise SettingsError(f"CLUSTER: {cluster} is a job; `surescale job {word} {cluster}` is for one alone")
    return all_jobs_of(cluster)


def _pause(
    settings: "PipelineSettings",
    target: str,
    scope: str,
    *,
    direction: str,
    until: str | None,
    lasting: str | None,
    why: str,
    by: str | None,
) -> None:
    from surescale.services.job_settings.pause import pause_of
    from surescale.services.job_settings.snapshot import change

    who = options.author(by)
    pause_at = partial(pause_of, direction, until=until, lasting=lasting, why=why, by=who)  # type: ignore[arg-type]  # click has checked it
    pause_at(now_ms=0)  # what is wrong at any time is said at once, whether Kafka answers or not
    done = change(settings, scope, lambda snapshot: {"pause": pause_at(now_ms=snapshot.now_ms)}, who)
    _tell(target, done)


def _resume(settings: "PipelineSettings", target: str, scope: str, by: str | None) -> None:
    from surescale.services.job_settings.snapshot import change, read_snapshot

    who = options.author(by)
    done = change(settings, scope, lambda _: {"pause": None}, who)
    if not done.differences:
        click.echo(printable(f"{target}: was not paused; nothing was written"))
    else:
        _tell(target, done)
    still = read_snapshot(settings, scope).pauses
    if still.paused:
        click.echo(printable(f"still in force: {still}"))


def _tell(target: str, done: "ChangeResult") -> None:
    from surescale.contracts.pauses import Paused

    pause = done.after.pause
    what = "resumed" if pause is None else str(Paused(target, pause))
    click.echo(printable(f"{target}: {what}; settings version {done.after.version}, at once"))
    if done.overtaken_by:
        click.echo(printable(f"{done.overtaken_by} changed them at the same time and wrote last"))
