"""``surescale run monitor``: publishes an engine, or a recording of one, to Kafka.

A demo publishes one segment of the clock that runs several times as fast, so that minutes are short. Real deployments have no
such clock.
"""

import logging
import threading
from pathlib import Path
from typing import Any

import click

from surescale.engines.options import engine_options
from surescale.runtime import options


@click.command("monitor")
@options.bootstrap
@engine_options
@click.option("--jobs", help="Names of the jobs to watch: NAME,NAME; * and ? allowed (default: SURESCALE_JOBS, else all).")
@click.option("--jobs-label", help="Watch only jobs whose own parameters have NAME=VALUE (default: SURESCALE_JOBS_LABEL).")
@click.option("--source-bootstrap", help="Kafka that the jobs' sources read (default: SURESCALE_SOURCE_BOOTSTRAP).")
@click.option("--trace", "trace_file", help="Recorded task metrics (JSON lines) instead of an engine.")
@click.option(
    "--leader-elect",
    is_flag=True,
    default=None,
    help="Several monitors of the cluster run: one watches, the others stand by (default: SURESCALE_LEADER_ELECT).",
)
@options.prefix
@options.health_port
def command(**given: Any) -> None:
    """Publish an engine's samples, topology and events to Kafka.

    Reads the engine's API, or a recording of it (--trace), and ends each minute with a marker.
    """
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event

    serve(stop_event(), set_up_logs("monitor"), **given)


def serve(stop: threading.Event, log: logging.Logger, **given: Any) -> None:
    """Run the monitor until told to stop. Settings that are not given come from the environment."""
    from surescale.contracts.settings import from_environment
    from surescale.engines.registry import source_of
    from surescale.monitor.service import TOPICS_USED, Monitor
    from surescale.monitor.settings import MonitorSettings
    from surescale.monitor.trace import TraceSource
    from surescale.runtime.health import HealthServer
    from surescale.runtime.kafka_rotation import ended_by_new_secrets
    from surescale.runtime.topic_ids import ended_by_new_topics
    from surescale.runtime.watchdog import Watchdog

    settings = from_environment(MonitorSettings, **given)
    with (
        Watchdog("monitor", settings.hung_after_s, log) as watchdog,
        ended_by_new_secrets(settings, stop, log),
        ended_by_new_topics(settings, TOPICS_USED, stop, log),
    ):
        source = TraceSource.of_file(Path(settings.trace_file)) if settings.trace_file else source_of(settings)
        monitor = Monitor(settings, source, stop=stop, log=log)
        with HealthServer(settings, monitor.report, watchdog, monitor.metrics), watchdog.loop("the main loop"):
            monitor.run()
