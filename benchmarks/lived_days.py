"""A simulated job that policies serve for some days: its windows, as the pipeline would record them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.window_recording import write_recording
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.windows import Window
from surescale.policies.decide import decide
from surescale.policies.policy import SPAN_MINUTES, Policy
from surescale.simulation.evaluation.closed_loop import Trial
from surescale.simulation.evaluation.hours import Hours, hours_of
from surescale.simulation.load.jobs import PARALLELISM_MAX
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Span

HOUR_MINUTES = 60
Leaves = Callable[[Window], str]


class Life:
    """One job in its world from the trial's first decision on, served by one policy after another.

    Attributes:
        trial: job, workload, world, first decision; one run.
        windows: one an hour, since the begin.
        left: how many decisions the former policy made in place of a tournament's winner.
        decisions: how many were made.
    """

    def __init__(self, trial: Trial) -> None:
        """Begin at the trial's first decision."""
        self.trial = trial.at_span(SPAN_MINUTES)
        self._rows: LoopRows = self.trial.rows()
        self._spans: list[Span] = []
        self.windows: list[Window] = []
        self.left = self.decisions = 0

    @property
    def settings(self) -> JobSettings:
        """Return the job's settings."""
        job = self.trial.job
        return JobSettings(job=f"sim/{job.name}", parallelism_max=PARALLELISM_MAX, total_limit=job.total_limit)

    def serve(self, policy: Policy, hours: int, *, former: Policy | None = None, leaves: Leaves = lambda window: "") -> Hours:
        """Let a policy serve the job for some hours and return them; ``former`` does wherever the policy is to be left out."""
        begin = len(self._spans)
        settings = self.settings
        for _ in range(hours * HOUR_MINUTES // self.trial.terms.span_minutes):
            window = self._window()
            is_left = former is not None and bool(leaves(window))
            made = decide(window, former if is_left and former is not None else policy, settings, seed=0)
            self.left += is_left
            self.decisions += 1
            self._spans.append(self._rows.step(np.array([[task.desired for task in made.tasks]], dtype=np.int64)))
            if len(self._spans) * self.trial.terms.span_minutes % HOUR_MINUTES == 0:
                self.windows.append(self._window())
        first = self.trial.first_minutes + begin * self.trial.terms.span_minutes
        return hours_of(self._spans[begin:], self.trial.terms, first, self.trial.job)

    def _window(self) -> Window:
        seen, job = self._rows.observe(), self.trial.job
        tasks = tuple(
            msgspec.structs.replace(spec, parallelism=size)
            for spec, size in zip(job.specs(), seen.current[0].tolist(), strict=True)
        )
        name = f"sim/{job.name}"
        return Window(
            job=name,
            window_end_ms=int(seen.ends_ms[0]),
            figures=seen.figures[0],
            topology=JobTopology(job=name, version=0, at_ms=0, tasks=tasks, restart_ms=self.trial.terms.told_restart_ms),
            hourly_load=seen.hourly_load[0].astype(np.float32),
            hourly_peak=seen.hourly_peak[0].astype(np.float32),
            load_codes=seen.load_codes[0],
        )

    def fork(self) -> Life:
        """Return the same job at the same moment, to be served by another policy."""
        return copy.deepcopy(self)

    def record(self, path: Path) -> Path:
        """Write its windows to a recording."""
        return write_recording(path, self.windows, settings={self.settings.job: self.settings})


def life_of(trial: Trial, first_minute: int) -> Life:
    """Return a life that begins at this minute of the trial's workload."""
    return Life(replace(trial, first_minutes=np.array([first_minute], dtype=np.int64)))
