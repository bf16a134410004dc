"""``surescale job approve``: let the rescaler carry out what it has advised."""

import click

from surescale.contracts.settings import PipelineSettings
from surescale.runtime import options
from surescale.runtime.printable import printable


@click.command("approve")
@click.argument("target", metavar="DECISION_ID|JOB")
@options.by
@options.connected()
def command(settings: PipelineSettings, target: str, by: str | None) -> None:
    """Carry out what was advised for a job in mode advise.

    A job's name means its newest advice. It is carried out exactly as advised, once, if it is still the newest and still possible
    when the rescaler reads the approval. Otherwise it is refused: `surescale job decisions JOB` shows what came of it.
    """
    from surescale.contracts.job_settings import Approval
    from surescale.services.job_settings.advice import chosen, open_advice
    from surescale.services.job_settings.snapshot import change

    who = options.author(by)
    job, advice = chosen(open_advice(settings), target)
    named = advice.decision_id
    done = change(settings, job, lambda snapshot: {"approval": Approval(decision_id=named, by=who, at_ms=snapshot.now_ms)}, who)
    sizes = ", ".join(f"{task} {size}" for task, size in sorted(advice.targets.items()))
    if not done.differences:
        click.echo(printable(f"{job}: {named} is approved by {who} already; nothing was written"))
        return
    click.echo(printable(f"{job}: {named} is approved by {who}: {sizes}; settings version {done.after.version}, at once"))
    if done.overtaken_by:
        click.echo(printable(f"{done.overtaken_by} changed the settings at the same time and wrote last"))
