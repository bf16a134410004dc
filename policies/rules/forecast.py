"""The forecast rule: the sizes that lie under the learned policy, on their own. What a model must beat to earn its keep."""

from dataclasses import dataclass, field

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import job_graph
from policies.learned import Base, learned_wish
from policies.measure import measure
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, NotReady, RawAnswer, ratios_of
from policies.rules.target_utilisation import MINUTES_KNOWN_MIN


@dataclass(frozen=True, slots=True)
class ForecastRule:
    """p' = ceil(expected rate x d / u) behind the restart gate, with the forecast and constants of a model package."""

    base: Base
    name: str = "forecast"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = field(default=True)

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return the ratios that the learned policy would give with a residual of zero."""
        if window.minutes_known < MINUTES_KNOWN_MIN:
            return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
        graph = job_graph(window.topology.tasks)
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        measured = measure(window.figures, graph)
        end = np.array(window.window_end_ms, dtype=np.int64)
        load = self.base.forecast.load(measured.load, window.hourly_load, end)
        if np.isnan(load):
            return RawAnswer(np.ones(len(current)), "No source has reported, so nothing is known of the load.")
        wished = learned_wish(self.base, measured, load, current, graph, np.zeros(len(current)), np.zeros(()))
        if not bool(wished.opened):
            words = f"For {load:.0f} records a minute expected, a change would not be worth a restart."
            return RawAnswer(np.ones(len(current)), words)
        words = f"Sized for {load:.0f} records a minute expected over the next {self.base.forecast.horizon_minutes} minutes."
        return RawAnswer(ratios_of(wished.sizes.wanted, current), words)
