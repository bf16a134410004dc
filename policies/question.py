"""What a policy is asked: a window, what was measured in it, the job's settings and a seed. Built once per decision."""

from dataclasses import dataclass

import numpy as np

from contracts.job_settings import JobSettings, LatencyBound
from contracts.windows import Float32, Window
from policies.graph import Int64, JobGraph, job_graph
from policies.limits import Limits
from policies.measure import Measured, measure


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One job at the end of a span.

    Attributes:
        window: the figures of its last minutes.
        settings: what the job's owner allows.
        seed: for everything a policy draws.
        graph: the window's topology as tables.
        current: int64 [N], present parallelism.
        measured: load, service times and backlog over the whole window.
        limits: what the settings, the engine and the calendar allow at the window's end.
    """

    window: Window
    settings: JobSettings
    seed: int
    graph: JobGraph
    current: Int64
    measured: Measured
    limits: Limits

    @classmethod
    def of(cls, window: Window, settings: JobSettings, seed: int) -> "Question":
        """Return the question about a window, with the window measured.

        Raises:
            RecordRejected: the window's topology has a cycle.
        """
        graph = job_graph(window.topology.tasks)
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        limits = Limits.of(settings, window.topology, window.window_end_ms)
        return cls(window, settings, seed, graph, current, measure(window.figures, graph), limits)

    @property
    def figures(self) -> Float32:
        """Return the window's figures [L, N, F]."""
        return self.window.figures

    @property
    def latency_bound(self) -> LatencyBound | None:
        """Return the bound on latency that the job's owner wants kept; None: there is none."""
        wanted = self.settings.latency_bound
        return wanted if isinstance(wanted, LatencyBound) else None

    @property
    def restart_seconds(self) -> float | None:
        """Return how long a rescale stops the job: as its owner says, else as measured; None: as the policy has it."""
        owner, measured_ms = self.settings.restart_seconds, self.window.topology.restart_ms
        return measured_ms / 1000.0 if owner is None and measured_ms is not None else owner

    def measured_over(self, figures: Float32) -> Measured:
        """Return what was measured, for a policy that sees ``figures``: the window's, cut or padded to the policy's length."""
        return self.measured if len(figures) == len(self.window.figures) else measure(figures, self.graph)
