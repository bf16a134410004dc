"""`surescale rescaler`: the rescaler of one cluster as a process."""

import click

from rescaler.commands.options import control_options
from runtime.options import engine_url, health_port


@click.command("rescaler")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", "topic_prefix", help="Stands before every topic name.")
@click.option("--cluster", help="Cluster whose jobs to rescale.")
@engine_url
@health_port
@click.option("--apply-ms-max", type=click.IntRange(min=1), help="A command that takes longer has failed. [600000]")
@control_options
def command(**options: str | int | None) -> None:
    """Decide what becomes of each decision on one cluster, and have commands carried out.

    Only one process per cluster works at a time; a second one waits and takes over when the first is gone.
    """
    from contracts.settings import from_environment
    from rescaler.actuators.engine_http import EngineHttp
    from rescaler.service.loop import run
    from rescaler.service.settings import RescalerSettings
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event

    log = set_up_logs("rescaler")
    settings = from_environment(RescalerSettings, **options)
    for warning in settings.gate_settings()[1]:
        instead = f"; use {warning.use}" if warning.use else ""
        log.warning("SURESCALE_GATE: %s is %s%s", warning.name, warning.effect.value, instead)
    engine = EngineHttp(settings.engine_url, settings.engine_timeout_ms)
    run(settings, engine, stop_event(), log)
