"""`surescale run rescaler`: the rescaler of one cluster as a process."""

import logging
import threading

import click

from surescale.engines.options import engine_options
from surescale.runtime import options


@click.command("rescaler")
@options.bootstrap
@options.prefix
@engine_options
@options.health_port
@click.option("--apply-ms-max", type=click.IntRange(min=1), help="A command that takes longer has failed (default: 600000).")
@options.control_options
def command(**given: str | int | None) -> None:
    """Carry out the decisions made for one cluster.

    Says when a job may rescale, plans how, and sends the commands to the engine. Only one process per cluster is active; a second
    one waits and takes over when the first is gone.
    """
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event

    serve(stop_event(), set_up_logs("rescaler"), **given)


def serve(stop: threading.Event, log: logging.Logger, **given: str | int | None) -> None:
    """Run the rescaler until told to stop. Settings that are not given come from the environment."""
    from surescale.contracts.settings import from_environment
    from surescale.engines.registry import actuator_of
    from surescale.rescaler.service.loop import run
    from surescale.rescaler.service.settings import RescalerSettings
    from surescale.runtime.kafka_rotation import ended_by_new_secrets

    settings = from_environment(RescalerSettings, **given)
    for warning in settings.gate_settings()[1]:
        instead = f"; use {warning.use}" if warning.use else ""
        log.warning("SURESCALE_GATE: %s is %s%s", warning.name, warning.effect.value, instead)
    engine = actuator_of(settings, settings.engine_timeout_ms / 1_000)
    with ended_by_new_secrets(settings, stop, log):
        run(settings, engine, stop, log)
