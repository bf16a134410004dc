"""The monitor's own settings."""

from dataclasses import dataclass

from surescale.engines.settings import SourceSettings
from surescale.monitor.prices import PriceTable


@dataclass(frozen=True, slots=True)
class MonitorSettings(SourceSettings):
    """Settings of ``surescale run monitor``, from ``SURESCALE_*`` and its options."""

    trace_file: str = ""
    """File of recorded task metrics (JSON lines) to send; empty: ask the engine."""
    leader_elect: bool = False
    """True: several monitors of the cluster may run. One watches, the others stand by and take over (docs/deploy.md)."""
    prices: str = ""
    """Dollars an hour of each host, by patterns of their names, like tm-gpu-*=2.5,tm-*=0.192; worker=0.05 is one worker of a
    consumer group. The first one that fits counts; empty: what the engine says, which only the simulated one does."""

    def __post_init__(self) -> None:
        """Check the prices.

        Raises:
            SettingsError: an entry cannot be read; names it and the fix.
        """
        SourceSettings.__post_init__(self)
        PriceTable.of(self.prices)
