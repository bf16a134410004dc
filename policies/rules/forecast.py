"""The rule ``forecast``: DS2 behind a restart gate, on the expected load instead of the measured one. The hardest to beat.

The load of the next hour comes from a ridge regression on short trends, yesterday and the days before (``policies.forecast``).
Sizes and gate are those of ``target-utilisation`` (``policies.sizing``). All constants come from the model package.
"""

from dataclasses import dataclass, replace

import numpy as np

from contracts.decisions import LoadOutlook
from policies.answer import Answer, Float64, RawAnswer
from policies.graph import Int64
from policies.policy import SPAN_MINUTES
from policies.question import Question
from policies.rules.reading import Reading, answer_of, changed_where
from policies.sizing import exact_subtasks, target_size, worth_a_restart
from policies.sure.base import Base


@dataclass(frozen=True, slots=True)
class ForecastRule:
    """p' = ceil((expected rate x d + backlog / catch-up) / u) behind the restart gate; all constants in ``base``."""

    base: Base
    name: str = "forecast"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]; the present one while the gate is closed."""
        sizing = reading.sizing(self.base.sizing)
        expected, target = self._expected(reading), reading.target(sizing.utilisation)
        exact = exact_subtasks(reading.measured, expected, reading.graph, sizing, target)
        asked = target_size(exact, reading.current)
        opened = worth_a_restart(asked, reading.measured, reading.current, reading.graph, sizing)
        return changed_where(opened, asked.wanted, reading.current)

    def _expected(self, reading: Reading) -> Float64:
        return self.base.forecast.load(reading.measured.load, reading.hourly_load, reading.ends_ms)

    def sentence(self, reading: Reading) -> str:
        """Return the load that the sizes are for."""
        minutes = self.base.forecast.horizon_minutes
        return f"Sized for {float(self._expected(reading)):.0f} records a minute expected over the next {minutes} minutes."

    def answer(self, question: Question) -> Answer:
        """Return the sizes for the expected load, or the present ones if the change is not worth a restart."""
        found = answer_of(self, question)
        expected = float(self._expected(Reading.of(question)))
        if not isinstance(found, RawAnswer) or not np.isfinite(expected):
            return found
        outlook = LoadOutlook(stage_minutes=self.base.forecast.horizon_minutes, means=(float(f"{expected:.4g}"),))
        return replace(found, outlook=outlook)
