"""`surescale rescaler`: the rescaler of one cluster as a process."""

import click


@click.command("rescaler")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", "topic_prefix", help="Stands before every topic name.")
@click.option("--cluster", help="Cluster whose jobs to rescale.")
@click.option("--engine-url", help="Engine API that commands are carried out by.")
@click.option("--health-port", type=click.IntRange(0, 65_535), help="Loopback port of the health endpoint; 0: none.")
@click.option("--cooldown-ms", type=click.IntRange(min=0), help="Rest of a job after a rescale (default 30000).")
@click.option(
    "--stabilization-ms", type=click.IntRange(min=0), help="Wait for more units when there are too few (default 60000)."
)
@click.option("--apply-ms-max", type=click.IntRange(min=1), help="A command that takes longer has failed (default 600000).")
@click.option(
    "--placement", type=click.Choice(["cetsa", "lba-ce", "spread"]), help="Hosts by cost, or evenly whatever they cost. [cetsa]"
)
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
    engine = EngineHttp(settings.engine_url, settings.engine_timeout_ms)
    run(settings, engine, stop_event(), log)
