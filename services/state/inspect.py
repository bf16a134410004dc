"""``surescale state`` and ``surescale decisions``: the view as tables for people and as JSON for programs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from runtime.options import FiniteRange
from services import options

if TYPE_CHECKING:
    from contracts.settings import RoadSettings
    from services.state.view_store import ViewStore
    from services.state.views import Views

REBUILD_TIMEOUT_S = 300.0
EVERY_S = 2.0


@click.command("state")
@click.argument("job", required=False)
@options.as_json
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--every",
    type=FiniteRange(min=0.1),
    metavar="SECONDS",
    help=f"How often --watch shows it. [{EVERY_S:g}]",
)
@click.option("--rebuild", is_flag=True, help="Flush the view and build it anew from Kafka (--bootstrap) first.")
@options.redis_url
@options.prefix
@options.bootstrap
def state_command(
    job: str | None,
    as_json: bool,
    watch: bool,
    every: float | None,
    rebuild: bool,
    redis_url: str | None,
    prefix: str | None,
    bootstrap: str | None,
) -> None:
    """Show all jobs, or one JOB (cluster/name) with its tasks, gate and latest decision."""
    from services.state.views import Views

    if as_json and watch:
        raise click.UsageError("--watch is for people; programs ask again, or ask the HTTP API")
    if every is not None and not watch:
        raise click.UsageError("--every says how often --watch shows it; add --watch")

    settings = options.road_settings(redis_url=redis_url, prefix=prefix, bootstrap=bootstrap)
    with open_store(settings) as store:
        if rebuild:
            click.echo(_rebuild(settings, store), err=True)
        views = Views(store)
        if not watch:
            _show(views, job, as_json)
            return
        with suppress(KeyboardInterrupt):
            while True:
                _show(views, job, as_json, anew=True)
                time.sleep(every or EVERY_S)


def _show(views: "Views", job: str | None, as_json: bool, *, anew: bool = False) -> None:
    from services.state.tables import print_job, print_jobs, print_json

    document = views.job(job) if job else views.jobs()
    if anew:
        click.clear()  # does nothing where the output is no terminal
    if as_json:
        print_json(document)
    elif isinstance(document, list):
        print_jobs(document)
    else:
        print_job(document)


@click.command("decisions")
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 500), default=10, show_default=True, help="How many, the newest first.")
@options.as_json
@options.redis_url
@options.prefix
def decisions_command(job: str, limit: int, as_json: bool, redis_url: str | None, prefix: str | None) -> None:
    """Show the latest decisions on JOB (cluster/name): what was wanted, why, what amended it, and what became of it."""
    from services.state.tables import print_decisions, print_json
    from services.state.views import Views

    with open_store(options.road_settings(redis_url=redis_url, prefix=prefix)) as store:
        decisions = Views(store).decisions(job, limit)
    if as_json:
        print_json(decisions)
    else:
        print_decisions(job, decisions)


@contextmanager
def open_store(settings: "RoadSettings") -> "Iterator[ViewStore]":
    """Yield the view; Redis away, or an address of no Redis, is one readable line."""
    import redis

    from contracts.settings import without_password
    from services.state.view_store import ViewStore, connect

    shown = without_password(settings.redis_url)
    client = connect(settings.redis_url)
    try:
        yield ViewStore(client, settings.topic_prefix)
    except redis.RedisError as error:
        raise ConnectionError(
            f"Redis at {shown} does not answer ({error}); name another with --redis or SURESCALE_REDIS_URL"
        ) from None
    finally:
        client.close()


def _rebuild(settings: "RoadSettings", store: "ViewStore") -> str:
    """Flush the view and build it anew; a projector that runs meanwhile helps, whoever is first writes."""
    import logging

    from services.road_topics import readable
    from services.state.projector import Projector

    projector = Projector(settings, store, logging.getLogger("surescale.state"))
    try:
        with readable(settings):
            projector.catch_up(REBUILD_TIMEOUT_S)  # a Kafka that is away is found out before anything is flushed
            flushed = store.flush()
            projector.catch_up(REBUILD_TIMEOUT_S)
    finally:
        projector.close()
    return f"rebuilt from Kafka: {flushed} keys flushed, {len(list(store.own_keys()))} keys now"
