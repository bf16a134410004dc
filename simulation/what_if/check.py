"""How far a fitted world is off: fitted to the first three quarters of a recording, it plays the last one at the recorded sizes.

What it predicts of the busy time and of the waiting records is compared with what was recorded. Differences between variants
that are smaller than these errors say nothing about the job.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import Window
from policies.departure import waiting_records
from simulation.calibration.fit import HELD_SHARE, fit
from simulation.calibration.recorded import Recorded
from simulation.what_if.play import play_recorded_sizes
from simulation.what_if.scenario import HOUR_MINUTES, scenario_of

NEVER = float("nan")
WAITING_LEAST = 0.01  # of a minute's records; less is no queue


@dataclass(frozen=True, slots=True)
class Check:
    """What the earlier part predicted of the last one, beside what was recorded.

    Attributes:
        minutes: held back.
        busy, busy_recorded: busy subtasks, means over these minutes.
        waiting, waiting_recorded: records waiting, likewise; recorded NaN where the engine does not tell.
        waiting_range: least and most over the draws.
        arrivals: records a minute, mean.
    """

    minutes: int
    busy: float
    busy_recorded: float
    waiting: float
    waiting_recorded: float
    waiting_range: tuple[float, float]
    arrivals: float

    @property
    def busy_error(self) -> float:
        """Return the relative error of the busy time; NaN if none was recorded."""
        return abs(self.busy / self.busy_recorded - 1.0) if self.busy_recorded > 0 else NEVER

    @property
    def waiting_error(self) -> float:
        """Return the error of the records waiting, in records; NaN where nothing waited, or the engine does not tell."""
        if max(self.waiting, self.waiting_recorded) < WAITING_LEAST * self.arrivals:
            return NEVER  # a world without queues is easily right about a job without them
        return abs(self.waiting - self.waiting_recorded)

    @property
    def latency_error_s(self) -> float:
        """Return the same in seconds of waiting per record (Little's law); NaN where unknown."""
        return 60.0 * self.waiting_error / self.arrivals if self.arrivals > 0 else NEVER


def check(
    recorded: Recorded, first_window: Window, prior_restart_s: float, *, draws: int, told: Callable[[float], None]
) -> Check:
    """Return how the first part of a recording predicts its last quarter, over draws of what varies.

    Raises:
        CalibrationError: one of the parts is too short, or says too little.
        WhatIfError: likewise.
    """
    cut = round(recorded.minutes * (1.0 - HELD_SHARE))
    scenario = scenario_of(recorded, fit(recorded.part(slice(0, cut)), prior_restart_s), first_window)
    held = slice(max(cut, HOUR_MINUTES), recorded.minutes)
    waits, works = [], []
    for draw in range(draws):
        waiting, busy = play_recorded_sizes(scenario, held, draw=draw)
        waits.append(waiting)
        works.append(busy)
        told((draw + 1) / draws)
    late = recorded.part(held)
    kept = [
        at
        for at, spec in enumerate(late.topology.tasks)
        if spec.task in {each.task for each in scenario.job.recorded_specs[1:-1]}
    ]
    found = waiting_records(late.figures)
    busy_recorded = late.figure("busy_ms")[:, kept].sum(axis=1) / MINUTE_MS
    known, told_busy = ~np.isnan(found), ~np.isnan(busy_recorded)
    load = scenario.workload.requests[scenario.lead_minutes + held.start :].astype(np.float64)
    means = [float(values[known].mean()) for values in waits] if known.any() else [NEVER]
    return Check(
        minutes=held.stop - held.start,
        busy=float(np.mean([values[told_busy].mean() for values in works])) if told_busy.any() else NEVER,
        busy_recorded=float(busy_recorded[told_busy].mean()) if told_busy.any() else NEVER,
        waiting=float(np.mean(means)),
        waiting_recorded=float(found[known].mean()) if known.any() else NEVER,
        waiting_range=(min(means), max(means)),
        arrivals=float(load.mean()),
    )
