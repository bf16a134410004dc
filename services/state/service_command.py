"""``surescale run state-service``: the process that keeps the view in Redis and answers for it over HTTP."""

import logging
import threading

import click

from surescale.contracts.settings import PORT_MAX
from surescale.runtime import options


@click.command("state-service")
@options.bootstrap
@options.prefix
@options.redis_url
@click.option("--host", "http_host", help="Address that the HTTP API listens on (default: SURESCALE_HTTP_HOST, else loopback).")
@click.option(
    "--port",
    "http_port",
    type=click.IntRange(0, PORT_MAX),
    help="Port of the HTTP API (default: SURESCALE_HTTP_PORT, else 8070).",
)
@options.health_port
def command(**given: str | int | None) -> None:
    """Keep the view of all jobs in Redis and serve it over HTTP."""
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event

    serve(stop_event(), set_up_logs("state-service"), **given)


def serve(stop: threading.Event, log: logging.Logger, **given: str | int | None) -> None:
    """Run the state service until told to stop. Settings that are not given come from the environment."""
    from surescale.contracts.settings import from_environment
    from surescale.runtime.kafka_rotation import ended_by_new_secrets
    from surescale.services.state.service import run
    from surescale.services.state.settings import StateSettings

    settings = from_environment(StateSettings, **given)
    with ended_by_new_secrets(settings, stop, log):
        run(settings, stop, log)
