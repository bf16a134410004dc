"""``surescale pause`` and ``surescale resume``: stop rescales of a job or of a whole cluster, and let them go on."""

from typing import TYPE_CHECKING

import click

from surescale.runtime import options
from surescale.runtime.printable import printable

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.job_settings.snapshot import ChangeResult


@click.command("pause")
@click.argument("target", metavar="JOB|CLUSTER")
@click.option(
    "--direction", type=click.Choice(["up", "down", "both"]), default="both", show_default=True, help="What is stopped."
)
@click.option("--until", metavar="TIME", help="When it ends, by the pipeline's clock: ISO 8601, in UTC unless stated.")
@click.option("--for", "lasting", metavar="DURATION", help="How long it lasts by the pipeline's clock, like 90m, 2h or 1d.")
@click.option("--why", required=True, help="Why, for those who come later.")
@options.by
@options.connected()
def pause(
    settings: "PipelineSettings", target: str, direction: str, until: str | None, lasting: str | None, why: str, by: str | None
) -> None:
    """Stop rescales of a job, or of all jobs of a cluster.

    Both directions also stop what the rescaler does by itself, like balancing. A rescale that is under way is finished, and a
    job that loses its hosts is still restarted. Without --until and --for the pause lasts until `surescale resume`.
    """
    from surescale.services.job_settings.pause import pause_of, scope_of
    from surescale.services.job_settings.snapshot import change

    who = options.author(by)
    done = change(
        settings,
        scope_of(target),
        lambda snapshot: {
            "pause": pause_of(direction, until=until, lasting=lasting, why=why, by=who, now_ms=snapshot.now_ms)  # type: ignore[arg-type]  # click has checked it
        },
        who,
    )
    _tell(target, done)


@click.command("resume")
@click.argument("target", metavar="JOB|CLUSTER")
@options.by
@options.connected()
def resume(settings: "PipelineSettings", target: str, by: str | None) -> None:
    """End a pause of a job, or of a cluster.

    A pause of the cluster still applies to the job as long as it lasts.
    """
    from surescale.services.job_settings.pause import scope_of
    from surescale.services.job_settings.snapshot import change, read_snapshot

    who = options.author(by)
    done = change(settings, scope_of(target), lambda _: {"pause": None}, who)
    if not done.differences:
        click.echo(printable(f"{target}: was not paused; nothing was written"))
    else:
        _tell(target, done)
    still = read_snapshot(settings, scope_of(target)).pauses
    if still.paused:
        click.echo(printable(f"still in force: {still}"))


def _tell(target: str, done: "ChangeResult") -> None:
    from surescale.contracts.pauses import Paused

    pause = done.after.pause
    what = "resumed" if pause is None else str(Paused(target, pause))
    click.echo(printable(f"{target}: {what}; settings version {done.after.version}, at once"))
    if done.overtaken_by:
        click.echo(printable(f"{done.overtaken_by} changed them at the same time and wrote last"))
