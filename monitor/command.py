"""``surescale monitor``: publishes an engine, or a recording of one, to Kafka."""

import logging
import threading
from typing import Any

import click

from runtime import options


@click.command("monitor")
@options.bootstrap
@options.engine_options
@click.option("--jobs", help="Names of the jobs to watch: NAME,NAME; * and ? allowed (default: SURESCALE_JOBS, else all).")
@click.option("--jobs-label", help="Watch only jobs whose own parameters have NAME=VALUE (default: SURESCALE_JOBS_LABEL).")
@click.option("--source-bootstrap", help="Kafka that the jobs' sources read (default: SURESCALE_SOURCE_BOOTSTRAP).")
@click.option("--trace", "trace_file", help="Recorded task metrics (JSON lines) instead of an engine.")
@options.prefix
@options.health_port
def command(**given: Any) -> None:
    """Publish an engine's samples, topology and events to Kafka.

    Reads the engine's API, or a recording of it (--trace), and ends each minute with a marker.
    """
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event

    serve(stop_event(), set_up_logs("monitor"), **given)


def serve(stop: threading.Event, log: logging.Logger, **given: Any) -> None:
    """Run the monitor until told to stop. Settings that are not given come from the environment."""
    from contracts.settings import from_environment
    from monitor.service import Monitor
    from monitor.settings import MonitorSettings
    from monitor.sources.choice import source_of
    from runtime.health import HealthServer
    from runtime.kafka_rotation import ended_by_new_secrets
    from runtime.watchdog import Watchdog

    settings = from_environment(MonitorSettings, **given)
    with Watchdog("monitor", settings.hung_after_s, log) as watchdog, ended_by_new_secrets(settings, stop, log):
        monitor = Monitor(settings, source_of(settings), stop=stop, log=log)
        with HealthServer(settings, monitor.report, watchdog, monitor.metrics), watchdog.loop("the main loop"):
            monitor.run()
