"""The rule ``forecast``: DS2 behind a restart gate on the expected load instead of the measured one. The hard one to beat.

The load of the next hour comes from a ridge regression on short trends, yesterday and the days before (``policies.forecast``);
sizes and gate are those of ``target-utilisation`` (``policies.sizing``). All constants come with the model package.
"""

from dataclasses import dataclass

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import Int64
from policies.learned import Base
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, Float64
from policies.rules.reading import Reading, answer_of, changed_where
from policies.sizing import exact_instances, wish, worth_a_restart


@dataclass(frozen=True, slots=True)
class ForecastRule:
    """p' = ceil((expected rate x d + waiting work / catch-up) / u) behind the restart gate, all constants in ``base``."""

    base: Base
    name: str = "forecast"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is shut."""
        sizing = self.base.sizing
        exact = exact_instances(reading.measured, self._expected(reading), reading.graph, sizing)
        asked = wish(exact, reading.current)
        opened = worth_a_restart(asked, reading.measured, reading.current, reading.graph, sizing)
        return changed_where(opened, asked.wanted, reading.current)

    def _expected(self, reading: Reading) -> Float64:
        return self.base.forecast.load(reading.measured.load, reading.hourly_load, reading.ends_ms)

    def sentence(self, reading: Reading) -> str:
        """Say for which load."""
        minutes = self.base.forecast.horizon_minutes
        return f"Sized for {float(self._expected(reading)):.0f} records a minute expected over the next {minutes} minutes."

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios that size every task for the expected load, or ones where the change is not worth a restart."""
        return answer_of(self, window)
