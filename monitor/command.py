"""``surescale monitor``: from an engine to Kafka."""

from typing import Any

import click


@click.command("monitor")
@click.option("--bootstrap", help="Kafka bootstrap servers (SURESCALE_BOOTSTRAP).")
@click.option("--engine", "engine_url", help="Engine API (SURESCALE_ENGINE_URL).")
@click.option("--prefix", "topic_prefix", help="Stands before every topic name.")
@click.option("--health-port", type=int, help="Loopback port of the health endpoint.")
def command(**given: Any) -> None:
    """Carry samples, minute markers, topologies and events of an engine onto Kafka."""
    from contracts.settings import RoadSettings, from_environment
    from monitor.service import Monitor
    from monitor.sources.engine import EngineSource
    from runtime.health import HealthServer
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event

    settings = from_environment(RoadSettings, **given)
    monitor = Monitor(settings, EngineSource(settings.engine_url), stop=stop_event(), log=set_up_logs("monitor"))
    with HealthServer(settings.health_port, monitor.report):
        monitor.run()
