"""The monitor's own settings."""

from dataclasses import dataclass

from surescale.engines.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class MonitorSettings(SourceSettings):
    """Settings of ``surescale monitor``, from ``SURESCALE_*`` and its options."""

    trace_file: str = ""
    """File of recorded task metrics (JSON lines) to send; empty: ask the engine."""
