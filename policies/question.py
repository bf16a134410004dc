"""What a policy is asked: a window, what was measured in it, the job's settings and a seed. Built once per decision."""

from dataclasses import dataclass, replace

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_limits import at_time, has_members, is_simulated
from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.saturation import not_begun, service_remembered, times_understated
from surescale.contracts.source_load import read_or_emitted
from surescale.contracts.windows import FIGURE, Float32, Window
from surescale.policies.answer import Float64
from surescale.policies.graph import Bool, Int64, JobGraph, job_graph
from surescale.policies.limits import Limits
from surescale.policies.measure import SKEW_MINUTES, Measured, began_in, completed, measured_of

LONG_MINUTES = 0.1
"""A record that takes a subtask so long counts as begun with rather than as waiting; of shorter ones hardly any is at work."""
USUAL_MINUTES = 5
"""Before a minute in which members came or went, that say what the job gets through."""
READ_ON_LEAST = 0.8
"""Share of that, or of what came, that the job gets through in such a minute if it does not stop. One of five members may go."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One job at the end of a span.

    Attributes:
        window: the figures of its last minutes.
        settings: what the job's owner allows at the window's end, in the job's labels and within periods too.
        seed: for everything a policy draws.
        graph: the window's topology as tables.
        current: int64 [N], present parallelism.
        figures: float32 [L, N, F], those of the window with what is known besides: counters of all subtasks, a backlog as far as
            arrivals tell it, and zeros for tasks that have finished.
        understated: float64 [N], how many times the busy time is that a task's counter shows; 1 where nothing tells it.
        remembered: float64 [N], subtask-minutes per record that a task without a busy counter took when it last never rested; NaN
            where nothing tells it.
        measured: load, service times and backlog over the whole window.
        limits: what the settings, the engine and the calendar allow at the window's end.
    """

    window: Window
    settings: JobSettings
    seed: int
    graph: JobGraph
    current: Int64
    figures: Float32
    understated: Float64
    remembered: Float64
    measured: Measured
    limits: Limits

    @classmethod
    def of(cls, window: Window, settings: JobSettings, seed: int) -> "Question":
        """Return the question about a window, with the window measured.

        Raises:
            RecordRejected: the window's topology has a cycle.
        """
        settings = at_time(in_force(settings, window.topology.labels), window.topology.engine, window.window_end_ms)
        graph = job_graph(window.topology.tasks)
        current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
        limits = Limits.of(settings, window.topology, window.window_end_ms)
        specs = window.topology.tasks
        finished = np.array([spec.state == "finished" for spec in specs])
        figures = completed(_with_finished(window.figures, finished, current, graph), graph)
        understated, service = np.ones(len(specs)), np.full(len(specs), np.nan)
        if not is_simulated(window.topology.engine):  # its counters cover all of the work
            understated = times_understated(window.saturations, specs, window.window_end_ms)
            service = service_remembered(window.saturations, specs, window.window_end_ms)
        if finished.any():  # a restart to make it smaller would be for nothing
            limits = replace(limits, pinned=finished if limits.pinned is None else limits.pinned | finished)
            understated = np.where(finished, np.nan, understated)  # so no size is asked for it
        measured = _corrected(measured_of(figures, graph), understated, service)
        if not is_simulated(window.topology.engine):
            measured = _beyond_chance(measured, figures, current)
        return cls(window, settings, seed, graph, current, figures, understated, service, measured, limits)

    @property
    def latency_bound(self) -> LatencyBound | None:
        """Return the bound on latency that the job's owner wants kept; None: there is none."""
        wanted = self.settings.objective
        return wanted if isinstance(wanted, LatencyBound) else None

    @property
    def restart_seconds(self) -> float | None:
        """Return how long a rescale stops the job: as its owner says, else as measured; None: as the policy has it."""
        owner, measured_ms = self.settings.restart_seconds, self.window.topology.restart_ms
        return measured_ms / 1000.0 if owner is None and measured_ms is not None else owner

    @property
    def restarted(self) -> Bool:
        """Return [L] the minutes in which the job restarted.

        Of consumer groups not those in which as much was got through as before: a member came or went, and the others read on.
        """
        began = began_in(self.figures)
        if not began.any() or not has_members(self.window.topology.engine):
            return began
        sources = self.figures[:, self.graph.by_level[0]].astype(np.float64)
        read = read_or_emitted(sources[..., FIGURE["records_in"]], sources[..., FIGURE["records_out"]]).sum(axis=-1)
        for minute in np.flatnonzero(began).tolist():
            before = read[max(0, minute - USUAL_MINUTES) : minute]
            usual = np.median(before[~np.isnan(before)]) if (~np.isnan(before)).any() else np.nan
            began[minute] = not read[minute] >= READ_ON_LEAST * min(usual, np.nan_to_num(self.measured.load[minute], nan=np.inf))
        return began

    def measured_over(self, figures: Float32) -> Measured:
        """Return what was measured, for a policy that sees ``figures``: the question's, cut or padded to the policy's length."""
        if len(figures) == len(self.figures):
            return self.measured
        measured = _corrected(measured_of(figures, self.graph), self.understated, self.remembered)
        return measured if is_simulated(self.window.topology.engine) else _beyond_chance(measured, figures, self.current)


def _corrected(measured: Measured, understated: Float64, remembered: Float64) -> Measured:
    """Return what was measured, with the service times of tasks whose busy time is so many times what it shows, or unknown."""
    service = measured.service_minutes
    if (understated != 1.0).any():
        service = service * understated
    if not np.isnan(remembered).all():
        service = np.where(np.isnan(service) & ~np.isnan(understated), remembered, service)
    return measured if service is measured.service_minutes else replace(measured, service_minutes=service)


def _beyond_chance(measured: Measured, figures: Float32, current: Int64) -> Measured:
    """Return what was measured on a real engine without what few or long records show by chance.

    Of records that take long, as many as there are subtasks are being worked on, and do not wait. Of p subtasks that get n each
    in a minute, the busiest gets sqrt(2 ln p / n) more than the mean by chance: twice as much is a hot key.
    """
    is_long = measured.service_minutes >= LONG_MINUTES  # False where unknown
    if is_long.any():
        backlog = measured.backlog_records
        backlog = np.where(is_long, not_begun(backlog, current.astype(np.float64)), backlog)
        measured = replace(measured, backlog_records=backlog)
    if not measured.hot_share.any():
        return measured
    lately = figures[-SKEW_MINUTES:].astype(np.float64)
    records = read_or_emitted(lately[..., FIGURE["records_in"]], lately[..., FIGURE["records_out"]])
    known = ~np.isnan(records)
    each = np.where(known, records, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1) / current
    chance = np.sqrt(2.0 * np.log(np.maximum(current, 2)) / np.maximum(each, 1e-9))
    above = measured.hot_share * (current - 1)
    return replace(measured, hot_share=measured.hot_share * np.clip(above / chance - 1.0, 0.0, 1.0))


def _with_finished(figures: Float32, finished: Bool, current: Int64, graph: JobGraph) -> Float32:
    """Return figures [L, N, F] in which tasks that have finished report, from their last minute on, that nothing happens.

    Those that no running task is measured by report it of the whole window: tasks after them count what they sent.
    """
    if not finished.any():
        return figures
    known = figures.copy()
    silent = np.isnan(known[..., FIGURE["coverage"]])
    since = np.logical_and.accumulate(silent[::-1], axis=0)[::-1] & finished
    since[:, ~_feeding(~finished, graph)] = True
    nothing = np.zeros((len(current), len(FIGURE)), dtype=np.float32)
    nothing[:, FIGURE["parallelism"]], nothing[:, FIGURE["coverage"]] = current, 1.0
    nothing[:, FIGURE["idle_ms"]] = nothing[:, FIGURE["parallelism"]] * MINUTE_MS
    known[since] = np.broadcast_to(nothing, known.shape)[since]
    return known


def _feeding(tasks: Bool, graph: JobGraph) -> Bool:
    """Return the tasks [N] and all before them."""
    found = tasks.copy()
    for members in reversed(graph.by_level[1:]):
        fed = members[found[members]]
        found[graph.parents.index[fed][graph.parents.known[fed]]] = True
    return found
