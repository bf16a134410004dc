"""The rule ``target-utilisation``: DS2's demand (Kalavri et al., OSDI 2018) over a target utilisation, behind a restart gate.

It is what takes over when a learned policy cannot answer.
"""

from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import job_graph
from policies.measure import mean_of_last, measure
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer, NotReady, RawAnswer, ratios_of
from policies.sizing import Sizing, exact_instances, wish, worth_a_restart

MINUTES_KNOWN_MIN = 5

# Calibrated on ClarkNet's first week over the training jobs; docs/policy.md shows how flat the optimum is.
CALIBRATED = Sizing(utilisation=0.75, catch_up_minutes=30.0, need=0.27, saving=0.14, backlog_minutes=1.0)
RATE_MINUTES = (10, 30)  # the larger mean of the two counts: quick upward, slow downward


@dataclass(frozen=True, slots=True)
class TargetUtilisation:
    """p' = ceil(rate x d / u): rate over the last known minutes (``RATE_MINUTES``), d the true service time, u the target."""

    sizing: Sizing = CALIBRATED
    name: str = "target-utilisation"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return ratios that bring every task to the target, or ones where the change is not worth a restart."""
        if window.minutes_known < MINUTES_KNOWN_MIN:
            return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
        graph = job_graph(window.topology.tasks)
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        measured = measure(window.figures, graph)
        load = np.max([mean_of_last(measured.load, minutes) for minutes in RATE_MINUTES], axis=0)
        asked = wish(exact_instances(measured, load, graph, self.sizing), current)
        if np.isnan(load):
            return RawAnswer(np.ones(len(current)), "No source has reported, so nothing is known of the load.")
        target = f"{self.sizing.utilisation:.0%} busy"
        if not worth_a_restart(asked, measured, current, graph, self.sizing):
            return RawAnswer(np.ones(len(current)), f"Sizes for tasks {target} differ too little to be worth a restart.")
        return RawAnswer(ratios_of(asked.wanted, current), f"Sizes that keep tasks {target} under {load:.0f} records a minute.")
