"""``surescale state-service``: the process that keeps the view in Redis and answers for it over HTTP."""

import click


@click.command("state-service")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", help="Stands before every topic name.")
@click.option("--redis", "redis_url", help="Address of Redis (default: SURESCALE_REDIS_URL).")
@click.option("--host", help="Address that the HTTP API listens on (default: 127.0.0.1).")
@click.option("--port", type=int, help="Port of the HTTP API (default: 8070).")
@click.option("--health-port", type=int, help="Port of health endpoint and metrics.")
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
