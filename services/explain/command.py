"""``surescale explain``: why a decision was made and what became of it, from Kafka alone."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from services import options

if TYPE_CHECKING:
    from contracts.settings import RoadSettings
    from services.explain.log import Log


@click.command("explain")
@click.argument("wanted", metavar="DECISION|COMMAND|JOB")
@click.option(
    "--recompute", "again", is_flag=True, help="Decide again on the same window and say whether the answer is the same."
)
@options.as_json
@options.policy_folder
@options.bootstrap
@options.prefix
def command(
    wanted: str, again: bool, as_json: bool, policy_folder: str | None, bootstrap: str | None, prefix: str | None
) -> None:
    """Explain a decision (job@span end/policy), the one behind a command (job#generation.step), or a job's newest."""
    from services.explain.log import Log
    from services.explain.screen import show
    from services.road_topics import readable

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix, policy_folder=policy_folder)
    with readable(settings):
        log = Log(settings)
        try:
            explained = _explained(settings, log, wanted, again)
        finally:
            log.close()
    if as_json:
        click.echo(json.dumps(explained, indent=2))
    else:
        show(explained)
    if again and not explained["recomputed"]["same"]:
        sys.exit(1)


def _explained(settings: "RoadSettings", log: "Log", wanted: str, again: bool) -> dict[str, Any]:
    from services.explain.document import document, with_recomputed
    from services.explain.gate import gate_now
    from services.explain.lookup import find_aftermath, find_decision, find_settings, find_window
    from services.explain.recompute import recompute

    found = find_decision(log, wanted)
    decision = found.decision
    told = document(decision, find_aftermath(log, found), gate=gate_now(settings, decision))
    if not again:
        return told
    window = find_window(log, found)
    answer = recompute(found.raw, decision, window, find_settings(settings, found), settings.policy_folder)
    return with_recomputed(told, answer)
