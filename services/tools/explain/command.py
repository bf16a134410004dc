"""``surescale job explain``: show why a decision was made and what became of it, from Kafka alone."""

import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.recomputation.records import Log
    from surescale.services.tools.explain.explanation import Explanation, OwnActExplanation


@click.command("explain")
@click.argument("wanted", metavar="DECISION|COMMAND|JOB")
@click.option(
    "--recompute", "again", is_flag=True, help="Decide again on the same window, and say whether the answer is the same."
)
@click.option(
    "--without",
    "cut",
    metavar="TASK|MINUTE",
    multiple=True,
    help="Also decide without a task's figures, or a minute's (09:45, or -3 from the end); repeatable, one at a time.",
)
@click.option("--attention", is_flag=True, help="Also show the minutes and neighbours that a learned policy looked at.")
@options.as_json
@options.connected(options.policy_folder)
def command(settings: "PipelineSettings", wanted: str, again: bool, cut: tuple[str, ...], attention: bool, as_json: bool) -> None:
    """Explain why a decision was made and what followed.

    Takes a decision (job@span end/policy), a command (job#generation.step) for what is behind it, or a job for its newest
    decision. What the rescaler started by itself, because of hosts or limits, is explained as well.
    Exit code 1 if --recompute gives another answer.
    """
    import msgspec

    from surescale.contracts.topics import EXPLAIN_GROUP
    from surescale.runtime.kafka_errors import readable_errors
    from surescale.services.recomputation.records import Log
    from surescale.services.tools.explain.explanation import Explanation
    from surescale.services.tools.explain.screen import show

    with readable_errors(settings), closing(Log(settings, EXPLAIN_GROUP)) as log:
        explained = _explained(settings, log, wanted, again, cut)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(explained), indent=2))
    else:
        show(explained, attention=attention)
    if isinstance(explained, Explanation) and explained.recomputed and not explained.recomputed.same:
        sys.exit(1)


def _explained(
    settings: "PipelineSettings", log: "Log", wanted: str, again: bool, cut: tuple[str, ...]
) -> "Explanation | OwnActExplanation":
    from surescale.runtime.limited_graphs import opener_for
    from surescale.services.recomputation.counterfactual import question_of, without
    from surescale.services.recomputation.records import Found, find_settings, find_window
    from surescale.services.tools.explain.explanation import explanation, own_act_explanation, recompute
    from surescale.services.tools.explain.lookup import find, find_aftermath, find_surroundings, gate_now

    found = find(log, wanted)
    job = found.origin.job
    aftermath, gate = find_aftermath(log, found), gate_now(settings, job, found.origin.act_id)
    now = find_surroundings(settings, job)
    if not isinstance(found, Found):
        if again or cut:
            option = "--recompute" if again else "--without"
            raise click.UsageError(f"{option} decides again; no policy decided this, the rescaler started it by itself")
        return own_act_explanation(found, aftermath, gate=gate, labels=now.labels)
    decision, recomputed, answers = found.decision, None, None
    if again or cut:
        folder, span_minutes = settings.policy_folder, settings.span_minutes
        made_from = (decision, find_window(log, found), find_settings(log, found), folder, span_minutes)
        recomputed = recompute(found.raw, *made_from) if again else None
        answers = without(question_of(*made_from, opener=opener_for(folder)), cut) if cut else None
    return explanation(
        decision,
        aftermath,
        gate=gate,
        labels=now.labels,
        slot_price_per_s=now.slot_price_per_s,
        next_in_words=now.next_in_words(found, settings.span_minutes),
        recomputed=recomputed,
        without=answers,
    )
