"""``surescale state-service``: the process that keeps the view in Redis and answers for it over HTTP."""

import click

from contracts.settings import PORT_MAX
from runtime.options import health_port
from services import options


@click.command("state-service")
@options.bootstrap
@options.prefix
@options.redis_url
@click.option("--host", help="Address that the HTTP API listens on (default: SURESCALE_HTTP_HOST, else loopback).")
@click.option("--port", type=click.IntRange(0, PORT_MAX), help="Port of the HTTP API (default: SURESCALE_HTTP_PORT, else 8070).")
@health_port
def command(
    bootstrap: str | None,
    prefix: str | None,
    redis_url: str | None,
    host: str | None,
    port: int | None,
    health_port: int | None,
) -> None:
    """Keep the view of all jobs in Redis and answer for it over HTTP, until stopped."""
    from contracts.settings import from_environment
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event
    from services.state.service import run
    from services.state.settings import StateSettings

    settings = from_environment(
        StateSettings,
        bootstrap=bootstrap,
        topic_prefix=prefix,
        redis_url=redis_url,
        http_host=host,
        http_port=port,
        health_port=health_port,
    )
    run(settings, stop_event(), set_up_logs("state-service"))
