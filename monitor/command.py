"""``surescale monitor``: from an engine, or a recording of one, to Kafka."""

from pathlib import Path
from typing import Any

import click

from runtime.options import engine_url, health_port


@click.command("monitor")
@click.option("--bootstrap", help="Kafka bootstrap servers (SURESCALE_BOOTSTRAP).")
@engine_url
@click.option("--trace", "trace_file", help="Recorded task metrics, JSON lines, instead of an engine (SURESCALE_TRACE_FILE).")
@click.option("--prefix", "topic_prefix", help="Stands before every topic name.")
@health_port
def command(**given: Any) -> None:
    """Carry samples, minute markers, topologies and events of an engine onto Kafka."""
    from contracts.settings import from_environment
    from monitor.service import Monitor
    from monitor.settings import MonitorSettings
    from monitor.sources.engine import EngineSource
    from monitor.sources.trace import TraceSource
    from runtime.health import HealthServer
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event

    settings = from_environment(MonitorSettings, **given)
    source = TraceSource.of_file(Path(settings.trace_file)) if settings.trace_file else EngineSource(settings.engine_url)
    monitor = Monitor(settings, source, stop=stop_event(), log=set_up_logs("monitor"))
    with HealthServer(settings, monitor.report, monitor.metrics):
        monitor.run()
