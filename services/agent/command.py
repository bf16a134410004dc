"""``surescale agent``: the process that answers windows with decisions."""

import click


@click.command("agent")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", help="Stands before every topic name.")
@click.option("--policy", help="Policy asked when a job's settings name none.")
@click.option("--seed", type=int, help="Seed of every decision.")
@click.option("--health-port", type=int, help="Port of health endpoint and metrics.")
def command(bootstrap: str | None, prefix: str | None, policy: str | None, seed: int | None, health_port: int | None) -> None:
    """Answer every window that ends a span with a decision, until stopped."""
    from contracts.settings import from_environment
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event
    from services.agent.settings import AgentSettings
    from services.agent.worker import run

    settings = from_environment(
        AgentSettings, bootstrap=bootstrap, topic_prefix=prefix, policy=policy, seed=seed, health_port=health_port
    )
    run(settings, stop_event(), set_up_logs("agent"))
