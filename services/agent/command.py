"""``surescale run agent``: the process that answers windows with decisions."""

import logging
import threading

import click

from surescale.runtime import options


@click.command("agent")
@options.bootstrap
@options.prefix
@options.default_policy
@options.seed
@options.health_port
def command(**given: str | int | None) -> None:
    """Answer windows with decisions, until stopped.

    Every window that ends a span gets one decision, from the policy of its job.
    """
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event

    serve(stop_event(), set_up_logs("agent"), **given)


def serve(stop: threading.Event, log: logging.Logger, **given: str | int | None) -> None:
    """Run the agent until told to stop. Settings that are not given come from the environment."""
    from surescale.contracts.settings import from_environment
    from surescale.contracts.topics import JOB_SETTINGS, POLICY_RELEASES, SNAPSHOTS
    from surescale.runtime.kafka_rotation import ended_by_new_secrets
    from surescale.runtime.topic_ids import ended_by_new_topics
    from surescale.services.agent.settings import AgentSettings
    from surescale.services.agent.worker import run

    settings = from_environment(AgentSettings, **given)
    remembered = (JOB_SETTINGS, POLICY_RELEASES, SNAPSHOTS)
    with ended_by_new_secrets(settings, stop, log), ended_by_new_topics(settings, remembered, stop, log):
        run(settings, stop, log)
