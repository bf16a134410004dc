"""The source that the settings name."""

from pathlib import Path

from monitor.settings import MonitorSettings
from monitor.sources.base import Source


def source_of(settings: MonitorSettings) -> Source:
    """Return a recording if one is named, else the source of the engine's figures. Imports the client of that source only.

    Raises:
        SettingsError: a file of the settings cannot be used.
    """
    if settings.trace_file:
        from monitor.sources.trace import TraceSource

        return TraceSource.of_file(Path(settings.trace_file))
    match settings.source_kind:
        case "flink":
            from monitor.sources.flink.source import FlinkSource

            return FlinkSource(settings)
        case "consumer-group":
            from monitor.sources.consumer_group.source import ConsumerGroupSource

            if settings.road_clock:
                from monitor.pipeline_clock import clock_of_pipeline

                clock, speed = clock_of_pipeline(settings)
                return ConsumerGroupSource(settings, clock, speed)
            return ConsumerGroupSource(settings)
        case "prometheus":
            from monitor.sources.prometheus.source import PrometheusSource

            return PrometheusSource(settings)
        case _:
            from monitor.sources.engine import EngineSource

            return EngineSource(settings.engine_url, settings.watches)
