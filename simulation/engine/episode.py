"""Closed-loop episodes in one process: any policy on simulated jobs, with a pipeline's windows and order of events in lockstep.

An episode lets time pass, minute by minute, and asks for decisions at the end of every span. A ``DecisionHandler`` acts on them.
The default applies every decision in full, one minute later, at the cost of a restart. A room with a gate or a planner brings a
handler of its own (``rescaler.twin``).

Windows come straight from the simulator's rows, without samples and only in minutes with a decision. They are the same as those
of ``contracts.window_history.WindowHistory``, which the pipeline builds from summed samples.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np

from surescale.contracts.block_load import BLOCK_MINUTES, BlockLoads
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import RescheduleCommand, TaskChange
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import command_id
from surescale.contracts.messages import HourlyLoad
from surescale.contracts.waits import HourlyWaits, WaitedMinute
from surescale.contracts.window_history import add_peak, hour_of, hourly_mean, hourly_peak
from surescale.contracts.windows import FIGURE, FIGURES, PEAK_MINUTES, Float32, Window
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.engine.job_report import JobReport
from surescale.simulation.engine.simulated_minute import SimulatedMinute
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload

_ARRIVED, _RECORDS_IN = FIGURE["arrived"], FIGURE["records_in"]
_SOURCE = 0  # index of the virtual source, the one task without upstream


@dataclass(slots=True)
class WindowBuffer:
    """The last ``window_minutes`` minutes of one job, with its hourly load and hourly peaks, and how long records waited."""

    window_minutes: int
    _minutes: deque[SimulatedMinute] = field(default_factory=deque)
    _hours: dict[int, tuple[float, int]] = field(default_factory=dict)  # start -> records, known minutes
    _peaks: dict[int, float] = field(default_factory=dict)  # start -> most records in five minutes
    _waits: HourlyWaits = field(default_factory=HourlyWaits)
    _blocks: BlockLoads = field(default_factory=BlockLoads)

    @classmethod
    def after(cls, history: tuple[HourlyLoad, ...], window_minutes: int) -> "WindowBuffer":
        """Return a buffer that knows the load before the run."""
        hours = {hour.hour_start_ms: (float(hour.records), hour.minutes) for hour in history}
        peaks = {hour.hour_start_ms: float(hour.peak_records) for hour in history if hour.peak_records is not None}
        return cls(window_minutes, deque(maxlen=window_minutes), hours, peaks)

    def add(self, minute: SimulatedMinute) -> None:
        """Add the next finished minute."""
        self._minutes.append(minute)
        if minute.topology.state == "waiting":
            return
        hour = hour_of(minute.minute_end_ms)
        records, minutes = self._hours.get(hour, (0.0, 0))
        self._hours[hour] = (records + _load(minute), minutes + 1)
        newest = list(islice(reversed(self._minutes), PEAK_MINUTES))
        if not any(each.topology.state == "waiting" for each in newest):
            add_peak(self._peaks, hour, [_load(each) for each in newest])
        ended = list(islice(reversed(self._minutes), BLOCK_MINUTES))
        loads = [math.nan if each.topology.state == "waiting" else _load(each) for each in ended]
        self._blocks.close(minute.minute_end_ms, loads)
        waited = WaitedMinute(minute.rows, minute.topology, self._figures, self._load_before)
        self._waits.close(minute.minute_end_ms, waited)

    def window(self) -> Window:
        """Return the window that ends with the last minute added; minutes without subtasks are masked."""
        last = self._minutes[-1]
        return Window(
            job=last.topology.job,
            window_end_ms=last.minute_end_ms,
            figures=self._figures(),
            topology=last.topology,
            hourly_load=hourly_mean(self._hours, last.minute_end_ms),
            hourly_peak=hourly_peak(self._peaks, last.minute_end_ms),
            waits=self._waits.until(last.minute_end_ms),
            load_codes=self._blocks.until(last.minute_end_ms),
        )

    def _figures(self) -> Float32:
        last = self._minutes[-1]
        tasks = len(last.topology.tasks)
        figures = np.full((self.window_minutes, tasks, len(FIGURES)), np.nan, dtype=np.float32)
        for minute in self._minutes:
            back = (last.minute_end_ms - minute.minute_end_ms) // MINUTE_MS
            if minute.topology.state != "waiting":
                figures[self.window_minutes - 1 - back] = minute.rows
        return figures

    def _load_before(self, minutes: int) -> float:
        """Return what came so many minutes ago."""
        if minutes >= len(self._minutes):
            return math.nan
        minute = self._minutes[-1 - minutes]
        return math.nan if minute.topology.state == "waiting" else _load(minute)


def _load(minute: SimulatedMinute) -> float:
    """Return the records that came in, as ``contracts.source_load.source_load`` counts them."""
    arrived, taken = minute.rows[_SOURCE, _ARRIVED], minute.rows[_SOURCE, _RECORDS_IN]
    return float(taken if np.isnan(arrived) else arrived)


Decide = Callable[[Window], Decision | None]


class DecisionHandler(Protocol):
    """What stands between decisions and the engine. It asks the engine for changes itself."""

    @property
    def commands(self) -> Sequence[RescheduleCommand]:
        """Return the commands that the engine has accepted, in order."""
        ...

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Do what is due at the end of a minute, before any decision is made."""
        ...

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Act on a decision."""
        ...


class ApplyAll:
    """Applies every decision to act, in full; while a job is still restarting, its decisions are dropped."""

    def __init__(self) -> None:
        self.commands: list[RescheduleCommand] = []

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Do nothing."""

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Apply one command and leave the choice of units to the engine; what the engine refuses is dropped."""
        command = _command(decision, cluster)
        if command is None:
            return
        try:
            cluster.apply(command, cluster.now_ms)
        except EngineRefusal:
            return
        self.commands.append(command)


def _command(decision: Decision, cluster: SimulatedCluster) -> RescheduleCommand | None:
    job = cluster.job(decision.job)
    rescale = job.rescale_at(cluster.now_ms)
    changes = tuple(
        TaskChange(task=task.task, before=task.current, after=task.desired)
        for task in decision.tasks
        if task.desired != task.current
    )
    if decision.action != "act" or not changes or job.is_waiting or (rescale is not None and rescale.is_under_way):
        return None
    generation = job.topology.generation + 1
    return RescheduleCommand(
        command_id=command_id(decision.job, generation, 0),
        cluster=cluster.options.cluster,
        job=decision.job,
        desired_generation=generation,
        step=0,
        base_placement_generation=0,
        decision_id=decision.decision_id,
        gate_reason="forced",
        gate_cause="every decision is carried out",
        issued_at_ms=cluster.now_ms,
        changes=changes,
    )


@dataclass(frozen=True, slots=True)
class Episode:
    """The result of an episode.

    Attributes:
        reports: per job id, its figures over the minutes counted.
        decisions: in the order in which they were made.
        commands: those that the engine accepted, in order.
        cluster: the engine at the end of the run.
    """

    reports: dict[str, JobReport]
    decisions: tuple[Decision, ...]
    commands: tuple[RescheduleCommand, ...]
    cluster: SimulatedCluster


def run_episode(
    jobs: Sequence[SizedJob],
    workload: Workload,
    decide: Decide,
    answer: DecisionHandler | None = None,
    *,
    options: RunOptions | None = None,
    hosts: Sequence[NewHost] | None = None,
    span_minutes: int = 10,
    window_minutes: int = 60,
) -> Episode:
    """Run jobs under a workload, deciding at the end of every span (minutes since the epoch divisible by ``span_minutes``).

    ``decide`` gets the window that a pipeline would have at that minute, and may return None: nothing is due.

    Raises:
        RunError: the run cannot be set up as asked.
    """
    cluster = SimulatedCluster(jobs, workload, options, hosts=hosts)
    answer = answer or ApplyAll()
    history = cluster.history()
    buffers = {job: WindowBuffer.after(history, window_minutes) for job in cluster.jobs}
    decisions: list[Decision] = []
    while not cluster.is_finished:
        cluster.advance(cluster.now_ms + MINUTE_MS)
        for job, buffer in buffers.items():
            buffer.add(cluster.jobs[job].minutes[-1])
        answer.minute_ended(cluster)
        if cluster.now_ms % (span_minutes * MINUTE_MS) == 0:
            for job, buffer in buffers.items():
                if not cluster.jobs[job].is_waiting:
                    decision = decide(buffer.window())
                    if decision is not None:
                        decisions.append(decision)
                        answer.decided(decision, cluster)
    return Episode(
        reports={job: cluster.report(job) for job in cluster.jobs},
        decisions=tuple(decisions),
        commands=tuple(answer.commands),
        cluster=cluster,
    )
