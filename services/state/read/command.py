"""``surescale job list``, ``job show`` and ``job decisions``: the view as tables for people and as JSON for programs."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.state.read.queries import Queries

EVERY_S = 2.0


def _looking(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a look at the view, once or repeatedly."""
    for option in (
        click.option(
            "--rebuild", "is_rebuilt", is_flag=True, help="Flush the view and rebuild it from Kafka (--bootstrap) first."
        ),
        click.option(
            "--every",
            type=options.FiniteRange(min=0.1),
            metavar="SECONDS",
            help=f"How often --watch shows it. [{EVERY_S:g}]",
        ),
        click.option("--watch", is_flag=True, help="Show it repeatedly, until Ctrl-C."),
        options.as_json,
    ):
        command = option(command)
    return command


@click.command("list")
@_looking
@click.option(
    "--also",
    metavar="PREFIX",
    multiple=True,
    help="Also the jobs of another pipeline on the same Redis, by its topic prefix; repeatable.",
)
@options.connected(options.redis_url)
def list_command(settings: "PipelineSettings", **asked: Any) -> None:
    """Show all jobs, a line each.

    Exit code 1 if a job is down or restarts again and again, or figures, decisions or answers to these are due and do not come.
    """
    _look(settings, None, **asked)


@click.command("show")
@click.argument("job")
@_looking
@click.option("--wide", is_flag=True, help="Show labels of tasks as long as they are, and more partitions of consumer groups.")
@options.connected(options.redis_url)
def show_command(settings: "PipelineSettings", job: str, **asked: Any) -> None:
    """Show a job with its tasks and latest decision.

    JOB is cluster/name. Exit code 1 if it is down or restarts again and again, or figures, decisions or answers to these are due
    and do not come.
    """
    _look(settings, job, **asked)


def _look(
    settings: "PipelineSettings",
    job: str | None,
    *,
    as_json: bool,
    watch: bool,
    every: float | None,
    is_rebuilt: bool,
    wide: bool = False,
    also: Sequence[str] = (),
) -> None:
    from surescale.services.state.quick_reader import opened_to_look
    from surescale.services.state.read.queries import Queries
    from surescale.services.state.read.together import Together

    if as_json and watch:
        raise click.UsageError("--watch is for people; programs run the command again, or ask the HTTP API")
    if every is not None and not watch:
        raise click.UsageError("--every says how often --watch shows it; add --watch")

    if is_rebuilt:
        from surescale.services.state.connection import opened
        from surescale.services.state.write.projector import rebuild

        with opened(settings) as client:
            click.echo(rebuild(settings, client), err=True)
    with opened_to_look(settings, is_repeated=watch) as reader:
        queries = Queries(reader, settings.topic_prefix)
        if also:
            queries = Together(reader, tuple(dict.fromkeys((settings.topic_prefix, *also))), settings.span_minutes)
            silent = queries.silent()
            for prefix in dict.fromkeys(also):
                if prefix in silent:
                    click.echo(f"--also {prefix}: {silent[prefix]}", err=True)
        queries.span_minutes = settings.span_minutes
        if not watch:
            if _show(queries, job, as_json, wide):
                raise SystemExit(1)
            return
        with suppress(KeyboardInterrupt):
            while True:
                _show(queries, job, as_json, wide, clear=True)
                time.sleep(every or EVERY_S)


def _show(queries: "Queries", job: str | None, as_json: bool, wide: bool, *, clear: bool = False) -> bool:
    """Show it, and return whether something of it is stale or does not run."""
    from surescale.services.state.read.tables import print_job, print_jobs, print_json

    document = queries.job(job) if job else queries.jobs()
    if clear:
        click.clear()  # does nothing if the output is not a terminal
    if as_json:
        print_json(document)
    elif isinstance(document, list):
        print_jobs(document)
    else:
        print_job(document, wide=wide)
    shown = document if isinstance(document, list) else [document]
    if not shown and (why := queries.why_empty()):
        click.echo(why, err=True)
        return True
    return any(each.stale or each.status in ("down", "restarting") for each in shown)


@click.command("decisions")
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 500), default=10, show_default=True, help="How many, newest first.")
@options.as_json
@options.redis_url
@options.prefix
def decisions_command(job: str, limit: int, as_json: bool, redis_url: str | None, topic_prefix: str | None) -> None:
    """Show a job's latest decisions and what became of them.

    JOB is cluster/name. Besides what a policy decided it shows every act that no policy decided, such as units that follow hosts,
    and what disturbed the job. Each says why, and how guardrails amended it.
    """
    from surescale.services.state.quick_reader import opened_to_look
    from surescale.services.state.read.decision_lines import in_order, print_decisions
    from surescale.services.state.read.queries import Queries
    from surescale.services.state.read.tables import print_json

    settings = options.pipeline_settings(redis_url=redis_url, topic_prefix=topic_prefix)
    with opened_to_look(settings) as reader:
        queries = Queries(reader, settings.topic_prefix)
        entries = in_order(queries.decisions(job, limit), queries.own_acts(job, limit), queries.disturbances(job, limit), limit)
        labels = queries.labels(job)
    if as_json:
        print_json(entries)
    else:
        print_decisions(job, entries, labels)
