"""A recorded job, ready to be played again: its graph as its engine runs it, its load, the hours before, its fitted world.

The load is the recorded one, minute by minute. The eight days before it are known by the hour only, from the first window; each
of these hours gets five minutes at its peak and 55 minutes that make up its mean, so forecasts look back on what they saw then.
"""

from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from surescale.contracts.block_load import BLOCK_MINUTES, decoded
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import TaskSpec
from surescale.contracts.windows import HOUR_MS, HOURS, PEAK_MINUTES
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.limits import Limits
from surescale.simulation.calibration.fit import Fitted
from surescale.simulation.calibration.recorded import Recorded, recorded_load
from surescale.simulation.load.graphs import SINK, SOURCE
from surescale.simulation.load.jobs import SizedJob, size_job
from surescale.simulation.load.workload import REQUESTS_MAX, Workload
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.world_file import SECOND_MINUTES, WorldFile

HOUR_MINUTES = 60
MINUTES_LEAST = 240
"""Of a recording: an hour before the first decision, two to compare, and a last quarter to check the world on."""
_PEAK_AT = 28  # minute of an hour; at its edge a peak would count for the next hour too
_SUBTASKS_MOST = 1_000_000  # of a task; the guardrails keep the bounds of settings and engine


class WhatIfError(SurescaleError):
    """A recording cannot be played again, or a change not be tried; the message says why and what to do."""


@dataclass(frozen=True)
class PlayedJob(SizedJob):
    """A job as its engine announces it, with the service times of a fitted world.

    Attributes:
        recorded_specs: [N] in the graph's order, virtual source and sink included, at start parallelism.
    """

    recorded_specs: tuple[TaskSpec, ...] = ()

    @cached_property
    def limits(self) -> Limits:
        """Return no limits: settings and engine have theirs, and the guardrails keep them."""
        one = np.ones(self.size, dtype=np.int64)
        return Limits(least=one, most=np.where(self.scalable, _SUBTASKS_MOST, one), total=_SUBTASKS_MOST * self.size)

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return the tasks as the recording's engine announces them, at start parallelism."""
        return self.recorded_specs


@dataclass(frozen=True)
class Scenario:
    """Where runs take place.

    Attributes:
        recorded: the minutes that were recorded.
        job: as the simulator runs it; its tasks in the order of the world, between virtual source and sink.
        world: fitted to the recording.
        workload: the hours before the recording and then the recorded load; it begins on a full hour.
        first_minute: of the workload, at which the first decision is due: a full hour, at least one after the recording's begin.
        hours: full hours from there to the recording's end.
    """

    recorded: Recorded
    job: PlayedJob
    world: WorldFile
    workload: Workload
    first_minute: int
    hours: int

    @property
    def first_ms(self) -> int:
        """Return the event time of the first decision."""
        return self.workload.trace_start_ms + self.first_minute * MINUTE_MS

    @property
    def lead_minutes(self) -> int:
        """Return the minutes of the workload before the first recorded one."""
        return (self.recorded.first_ms - MINUTE_MS - self.workload.trace_start_ms) // MINUTE_MS

    @property
    def load(self) -> Int64:
        """Return the records [hours * 60] that came to the job in each minute played."""
        return self.workload.requests[self.first_minute : self.first_minute + self.hours * HOUR_MINUTES]

    def terms(self, seed: int, span_minutes: int) -> Terms:
        """Return the simulator's terms for one draw of what varies."""
        world = self.world.world("recorded", seed=seed)
        return Terms(restart_ms=world.restart_ms, span_minutes=span_minutes, world=world)

    def recorded_sizes(self, minute: int) -> Int64:
        """Return the parallelism [N] that the job had in a minute of the recording, the next known one where it is unknown."""
        index = {spec.task: at for at, spec in enumerate(self.recorded.topology.tasks)}
        return _sizes_of(self.recorded, tuple(index[spec.task] for spec in self.job.recorded_specs[1:-1]), minute)


def scenario_of(recorded: Recorded, fitted: Fitted) -> Scenario:
    """Return the scenario of a recording.

    Raises:
        WhatIfError: the recording is too short, or its load is unknown.
        JobError: the fitted job cannot be built.
    """
    workload = _workload(recorded)
    lead = (recorded.first_ms - MINUTE_MS - workload.trace_start_ms) // MINUTE_MS
    first = -(-(lead + HOUR_MINUTES) // HOUR_MINUTES) * HOUR_MINUTES
    hours = (workload.minutes - first) // HOUR_MINUTES
    if recorded.known_minutes < MINUTES_LEAST or hours < 1:
        raise WhatIfError(
            f"{recorded.job}: {recorded.known_minutes} minutes with figures are too few to try something on; "
            f"record at least {MINUTES_LEAST}, better a day"
        )
    if not workload.requests[first:].any():
        raise WhatIfError(f"{recorded.job}: no records came in the recorded time; record it under load")
    graph = fitted.world.graph()
    sized = size_job(graph, workload, minutes=(lead, workload.minutes), load="literal", literal_factor=SECOND_MINUTES)
    start = _sizes_of(recorded, fitted.kept, first - lead)
    specs = _specs(recorded, fitted, sized, start)
    fields = {name: getattr(sized, name) for name in SizedJob.__dataclass_fields__}
    configured = np.array([spec.configured_parallelism or spec.parallelism for spec in specs], dtype=np.int64)
    job = PlayedJob(**{**fields, "start_parallelism": start, "configured_parallelism": configured}, recorded_specs=specs)
    return Scenario(recorded, job, fitted.world, workload, first, hours)


def _sizes_of(recorded: Recorded, kept: tuple[int, ...], minute: int) -> Int64:
    """Return [N], the first known parallelism from a minute on; the newest topology's where none is known."""
    seen = recorded.figure("parallelism")[minute:][:, list(kept)]
    known = ~np.isnan(seen)
    newest = np.array([recorded.topology.tasks[at].parallelism for at in kept], dtype=np.float64)
    at = known.argmax(axis=0)
    found = np.where(known.any(axis=0), seen[at, np.arange(len(kept))], newest)
    return np.concatenate([[1], np.maximum(np.rint(found), 1), [1]]).astype(np.int64)


def _specs(recorded: Recorded, fitted: Fitted, sized: SizedJob, start: Int64) -> tuple[TaskSpec, ...]:
    """Return the tasks as their engine announces them, in the order of the simulated graph, connected as there."""
    tasks = [recorded.topology.tasks[at] for at in fitted.kept]
    names = {SOURCE: SOURCE, SINK: SINK}
    names |= {world.task: spec.task for world, spec in zip(fitted.world.tasks, tasks, strict=True)}
    found = []
    for at, plain in enumerate(sized.graph.specs()):
        upstream = tuple(names[parent] for parent in plain.upstream)
        if at in (0, sized.size - 1):
            found.append(msgspec.structs.replace(plain, upstream=upstream, max_parallelism=1))
            continue
        spec = tasks[at - 1]
        inputs = tuple(each for each in spec.inputs if each.task in upstream)
        found.append(msgspec.structs.replace(spec, upstream=upstream, inputs=inputs, parallelism=int(start[at]), units=()))
    return tuple(found)


def _workload(recorded: Recorded) -> Workload:
    """Return the hours before the recording, then its own load; minutes that nobody knows are a gap."""
    first_window, begins_ms = recorded.first_window, recorded.first_ms - MINUTE_MS
    hour_ms = begins_ms // HOUR_MS * HOUR_MS
    load = recorded_load(recorded)
    before = (begins_ms - hour_ms) // MINUTE_MS
    newest_ms = (first_window.window_end_ms - 1) // HOUR_MS * HOUR_MS  # the hour that the window ends in
    past = np.full(HOURS * HOUR_MINUTES + before, np.nan)
    blocks = decoded(first_window.load_codes).reshape(HOURS, -1)
    for at in range(HOURS + 1):
        back = (newest_ms - hour_ms) // HOUR_MS + HOURS - at
        place = HOURS - 1 - back
        if 0 <= place < HOURS:
            own = np.repeat(blocks[place], BLOCK_MINUTES)[: len(past) - at * HOUR_MINUTES]
            if np.isnan(own).any():
                own = _minutes_of(
                    float(first_window.hourly_load[place]), float(first_window.hourly_peak[place]), len(past) - at * HOUR_MINUTES
                )
            past[at * HOUR_MINUTES : (at + 1) * HOUR_MINUTES] = np.minimum(np.rint(own), REQUESTS_MAX)
    requests = np.concatenate([past, load])
    if not np.nan_to_num(load).any():
        raise WhatIfError(f"{recorded.job}: the load is unknown: no source reported what came in; record while sources report")
    return Workload.counted(recorded.job.rpartition("/")[2], requests, hour_ms - HOURS * HOUR_MS)


def _minutes_of(mean: float, peak: float, room: int) -> Float64:
    """Return up to 60 minutes with this mean whose largest mean over five of them is the peak; NaN where it is unknown."""
    if not np.isfinite(mean):
        return np.full(min(HOUR_MINUTES, room), np.nan)
    high = max(mean, peak) if np.isfinite(peak) else mean
    rest = max(0.0, (HOUR_MINUTES * mean - PEAK_MINUTES * high) / (HOUR_MINUTES - PEAK_MINUTES))
    minutes: Float64 = np.full(HOUR_MINUTES, rest)
    minutes[_PEAK_AT : _PEAK_AT + PEAK_MINUTES] = high
    return minutes[:room]
