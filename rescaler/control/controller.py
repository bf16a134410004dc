"""The rescaler's pure core: decisions, progress and time in; outcomes, commands and changed memory out.

One controller per cluster, one `JobControl` per job. Same memory, same inputs: same bytes out. It can be stopped after any
input and goes on elsewhere from the records it gave out. What it does not do: read clocks or topics, or reach an engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from contracts.ids import Cluster
from contracts.messages import Decision, EngineEvent, Outcome, Progress, RescalerRecord, RescheduleCommand
from contracts.wire import decode
from rescaler.control.job_control import JobControl
from rescaler.control.memory import PLACEMENT, ClusterMemory, JobMemory, RequestMemory, StateRecord, state_record
from rescaler.control.situation import ControlSettings, Ledger, Situation
from rescaler.control.view import View, calling_jobs


@dataclass(frozen=True, slots=True)
class Effects:
    """What follows from one input; everything in it belongs into one transaction."""

    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[RescheduleCommand, ...] = ()
    records: tuple[StateRecord, ...] = ()
    duplicates: int = 0

    @property
    def is_empty(self) -> bool:
        """There is nothing to write."""
        return not (self.outcomes or self.commands or self.records)

    def __add__(self, other: Effects) -> Effects:
        """Both, in order."""
        return Effects(
            self.outcomes + other.outcomes,
            self.commands + other.commands,
            self.records + other.records,
            self.duplicates + other.duplicates,
        )


CHECKPOINTS = ("checkpoint_completed", "checkpoint_failed")
"""Kinds of engine events that a gate hears of."""


class Controller:
    """Decides what becomes of each decision on one cluster."""

    def __init__(self, cluster: Cluster, settings: ControlSettings, records: Iterable[RescalerRecord] = ()) -> None:
        """Go on from the latest record under each key; without records, from nothing."""
        self._cluster = cluster
        self._settings = settings
        self._memory = ClusterMemory()
        self._controls: dict[str, JobControl] = {}
        self._units: dict[str, tuple[object, object, frozenset[int]]] = {}
        for record in records:
            self._restore(record)

    def on_decision(self, decision: Decision, view: View, now_ms: int) -> Effects:
        """Answer a decision; one that was answered before is counted as a duplicate and changes nothing."""
        control = self._control(decision.job)
        ledger, before = Ledger(), control.memory
        control.on_decision(decision, self._situation(decision.job, view, now_ms), ledger)
        return self._effects(control, before, ledger, now_ms)

    def on_progress(self, progress: Progress, view: View, now_ms: int) -> Effects:
        """Hear from an actuator; what is not about a command on its way changes nothing."""
        control = self._controls.get(progress.job)
        if control is None:
            return Effects()
        ledger, before = Ledger(), control.memory
        control.on_progress(progress, self._situation(progress.job, view, now_ms), ledger)
        return self._effects(control, before, ledger, now_ms)

    def on_engine_event(self, event: EngineEvent, view: View, now_ms: int) -> Effects:
        """Hear of a checkpoint. Whatever else happens in the engine is seen in the topologies."""
        control = self._controls.get(event.job or "")
        if control is None or event.kind not in CHECKPOINTS:
            return Effects()
        ledger, before = Ledger(), control.memory
        control.on_checkpoint(event, self._situation(control.memory.job, view, now_ms), ledger)
        return self._effects(control, before, ledger, now_ms)

    def on_tick(self, view: View, now_ms: int) -> Effects:
        """Let time pass and look at what waits or is on its way; call it at `wake_at_ms` and when the view changed."""
        effects = Effects()
        calling = calling_jobs(view)
        for job in sorted(calling | set(self._controls)):
            control = self._control(job)
            if control.wake_at_ms() is not None or job in calling:
                ledger, before = Ledger(), control.memory
                control.on_tick(self._situation(job, view, now_ms), ledger)
                effects += self._effects(control, before, ledger, now_ms)
        return effects

    def wake_at_ms(self) -> int | None:
        """The earliest time that something was promised for; None when nothing waits or is on its way."""
        times = (control.wake_at_ms() for control in self._controls.values())
        return min((time for time in times if time is not None), default=None)

    def awaits_end(self, now_ms: int) -> bool:
        """Say whether a rescale must have ended by now whose end has not been heard of."""
        ends = (control.memory.expected_end_ms for control in self._controls.values())
        return any(end_ms is not None and end_ms <= now_ms for end_ms in ends)

    @property
    def memory(self) -> dict[str, JobMemory]:
        """What is remembered of each job."""
        return {job: control.memory for job, control in sorted(self._controls.items())}

    def records(self, now_ms: int) -> tuple[StateRecord, ...]:
        """The whole memory, sorted by key."""
        records = [self._placement_record(now_ms)]
        for job, control in self._controls.items():
            records.append(state_record(self._cluster, "job", job, control.memory, now_ms))
            records += [self._request_record(of, request, now_ms) for of, request in control.requests.items()]
        return tuple(sorted(records, key=lambda record: record.key))

    # Memory

    def _control(self, job: str) -> JobControl:
        if job not in self._controls:
            self._controls[job] = JobControl(self._cluster, self._settings, JobMemory(job=job), {})
        return self._controls[job]

    def _restore(self, record: RescalerRecord) -> None:
        body = bytes(record.body)
        if record.kind == "cluster":
            self._memory = decode(body, ClusterMemory)
        elif record.kind == "job":
            self._control(record.id).memory = decode(body, JobMemory)
        else:
            request = decode(body, RequestMemory)
            self._control(request.job).requests[record.id] = request

    def _effects(self, control: JobControl, before: JobMemory, ledger: Ledger, now_ms: int) -> Effects:
        records = [self._request_record(of, request, now_ms) for of, request in sorted(ledger.requests.items())]
        if control.memory is not before:
            control.memory = msgspec.structs.replace(control.memory, wake_at_ms=control.wake_at_ms())
            records.append(state_record(self._cluster, "job", control.memory.job, control.memory, now_ms))
        if ledger.commits:
            generation = self._memory.placement_generation + ledger.commits
            self._memory = msgspec.structs.replace(self._memory, placement_generation=generation)
            records.append(self._placement_record(now_ms))
        return Effects(tuple(ledger.outcomes), tuple(ledger.commands), tuple(records), ledger.duplicates)

    def _request_record(self, of: str, request: RequestMemory | None, now_ms: int) -> StateRecord:
        return state_record(self._cluster, "request", of, request, now_ms)

    def _placement_record(self, now_ms: int) -> StateRecord:
        return state_record(self._cluster, "cluster", PLACEMENT, self._memory, now_ms)

    # What a job is told of the world

    def _situation(self, job: str, view: View, now_ms: int) -> Situation:
        return Situation(
            now_ms=now_ms,
            topology=view.jobs.get(job),
            settings=view.settings_of(job),
            hosts=view.hosts,
            placement_generation=self._memory.placement_generation,
            taken=lambda: self._units_of_others(job, view),
        )

    def _units_of_others(self, job: str, view: View) -> frozenset[int]:
        others = (set(view.jobs) | set(self._controls)) - {job}
        return frozenset().union(*(self._units_of(other, view) for other in others))

    def _units_of(self, job: str, view: View) -> frozenset[int]:
        control, topology = self._controls.get(job), view.jobs.get(job)
        memory = control.memory if control else None
        known = self._units.get(job)
        if known is None or known[0] is not topology or known[1] is not memory:
            held = (control or JobControl(self._cluster, self._settings, JobMemory(job=job), {})).units(topology)
            known = self._units[job] = (topology, memory, held)
        return known[2]
