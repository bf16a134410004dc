"""Settings of the monitor beside those of the road."""

from dataclasses import dataclass

from contracts.settings import RoadSettings


@dataclass(frozen=True, slots=True)
class MonitorSettings(RoadSettings):
    """What ``surescale monitor`` reads from ``SURESCALE_*`` and its options."""

    trace_file: str = ""
    """Recorded task metrics (JSON lines) to send instead of an engine's; empty: ask the engine."""
