"""``surescale agent``: the process that answers windows with decisions."""

import click

from runtime.options import health_port
from services import options


@click.command("agent")
@options.bootstrap
@options.prefix
@click.option("--policy", help="Policy asked when a job's settings name none and none is released (default: SURESCALE_POLICY).")
@click.option("--seed", type=int, help="Seed of every decision (default: SURESCALE_SEED).")
@health_port
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
