"""What the rescaler remembers about one job, as plain data: enough to stop anywhere and continue elsewhere.

`JobMemory` itself is assigned to field by field, by one `JobContext` on a copy of its own; everything inside it is immutable.

How long a job waits, and for what, is computed from its memory alone.

Its record on Kafka is a private body, and a summary for others. Mappings and conditions are in the summary only.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from surescale.contracts.commands import RescheduleCommand, SlotStandbys, TaskChange
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import Cluster
from surescale.contracts.job_settings import Approval
from surescale.contracts.messages import JobTopology, TaskSpec, TimeMs
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.rescaler_state import (
    CommandUnderway,
    Condition,
    JobSummary,
    OpenAdvice,
    RescalerRecord,
    Step,
    WaitingAct,
)
from surescale.contracts.topology import RESTING, required_of, units_of
from surescale.contracts.wire import decode, encode
from surescale.policies.stateful_limits import LimitsMemory
from surescale.rescaler.control.effects import StateRecord, state_record
from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.gate import Gate, GateState
from surescale.rescaler.gate_settings import GateSettings

AT_REST = "AtRest"
"""The reason of a condition while we have the job at rest."""
SHOWN_WITHIN_MS = 120_000
"""A topology this much younger than the end of a command would show its result."""


class TaskTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What an act wants for one task: the number of subtasks, and the least that carries the measured load."""

    desired: int
    floor: int
    overloaded_at: float | None = None  # records a minute that it processed while it was overloaded
    overloaded: bool = False


class PendingAct(msgspec.Struct, frozen=True, kw_only=True):
    """An act that has been accepted and has no last outcome yet."""

    decision_id: str
    span_end_ms: TimeMs
    accepted_at_ms: int
    wanted: dict[str, TaskTarget]
    reason: str = ""  # of the last pending outcome; "" before the first
    until_ms: int | None = None  # when the next outcome is due
    checkpoint: int = 0  # sequence number of the latest checkpoint event that the last outcome took into account
    own: OwnAct | None = None  # None: a policy's decision
    note: str = ""  # what the user's limits left out of the decision, for people
    not_before_ms: int = 0  # it came so late that newer decisions may be on their way until then


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The job's newest decision, given as advice: what somebody may approve."""

    decision_id: str
    wanted: dict[str, TaskTarget]
    changes: tuple[TaskChange, ...]  # of the advised command


_STEP_OF: dict[str, Step] = {"prepare": "prepare", "commit": "barrier", "abort": "undo_prepare"}


class RescaleInProgress(msgspec.Struct, frozen=True, kw_only=True, tag="rescaling"):
    """A rescale that has begun and not ended. It is written in the same transaction as the command of each step.

    The record that removes it carries the commit: units, mappings and generation change together.
    """

    command: RescheduleCommand  # the present step
    wanted: dict[str, int]  # parallelism per task
    planned_mappings: dict[str, tuple[int, ...]]  # unit per vnode once the rescale is done
    preparations: int  # begun so far
    own: OwnAct | None = None
    accepted: bool = False  # the engine has accepted the present step
    expected_end_ms: int | None = None  # of the present step, once the engine has said when
    avoided_units: tuple[int, ...] = ()  # lost, or on hosts where learners took too long
    given_up: str = ""  # code of the last preparation that failed

    @property
    def step(self) -> Step:
        """What the engine is asked to do now."""
        return _STEP_OF[self.command.action]

    @property
    def is_preparing(self) -> bool:
        """Learners warm up."""
        return self.command.action == "prepare"


class StandbyChange(msgspec.Struct, frozen=True, kw_only=True, tag="standing_by"):
    """A change of standbys that has been commanded and has not ended."""

    command: RescheduleCommand


class Standby(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of the job's state on other hosts, as last commanded."""

    copies: tuple[SlotStandbys, ...] = ()
    asked_at_ms: int = 0
    ready_at_ms: int = 0  # when the engine reported that all copies are complete; 0: not yet


class AppliedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The last command that is known to be carried out."""

    generation: int = 0
    at_ms: int = 0
    units: dict[str, tuple[int, ...]] = {}  # per task; valid while the topology cannot show the generation

    def is_missing_from(self, topology: JobTopology) -> bool:
        """Say whether the topology may be from before the command's end.

        A topology from long after that end with a lower generation is of a job that was submitted again: it counts as it is.
        """
        is_younger = self.at_ms > 0 and topology.at_ms > self.at_ms + SHOWN_WITHIN_MS
        return topology.generation < self.generation and not is_younger

    def completed(self, topology: JobTopology) -> JobTopology:
        """Return the topology as it must be now, with this command carried out."""
        if not self.units or not self.is_missing_from(topology):
            return topology
        tasks = tuple(_with_units(spec, self.units.get(spec.task)) for spec in topology.tasks)
        state = "running" if topology.state == "waiting" else topology.state
        return msgspec.structs.replace(topology, tasks=tasks, generation=self.generation, state=state)


class OwnedRequirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an engine that remembers only requirements has been asked for, as far as we know. Each map is parallelism by task."""

    epoch: str = ""  # the submission that this is about
    epoch_at_ms: int = 0  # when it was first seen; 0: it is the first one
    required: dict[str, int] = {}  # what we last wrote or took over; empty: nothing of ours
    before: dict[str, int] = {}  # what was required before that
    before_id: str = ""  # the engine's name for it
    earlier: tuple[dict[str, int], ...] = ()  # what a topology from before our last command's end may show
    since_ms: int = 0  # when our last command ended
    runs: dict[str, int] = {}  # what was seen to run by then, of the tasks that the command changed
    abandoned: dict[str, int] = {}  # what a command wanted whose end is unknown: the engine may still want it
    foreign: dict[str, int] = {}  # what somebody else asked for; empty: nobody has
    foreign_at_ms: int = 0
    returned: int = 0  # times in a row that somebody put back what was there before us
    offer: dict[str, int] = {}  # what was required before the job was submitted again

    def is_before(self, topology: JobTopology) -> bool:
        """Say whether a topology is from before our last command, so that it says nothing about it."""
        required = required_of(topology)
        if required == self.required or required not in self.earlier:
            return False
        ids = self.before_id, topology.requirement_id
        if required == self.before and all(ids) and ids[0] != ids[1]:
            return False  # somebody asked for the same again; equal ids say nothing: some engines derive them from the content
        return topology.at_ms <= self.since_ms

    def completed(self, topology: JobTopology) -> JobTopology:
        """Return the topology as it must be now, with our last command carried out."""
        if not self.is_before(topology):
            return topology
        tasks = tuple(self._of_task(spec) for spec in topology.tasks)
        state = topology.state
        if not any(self.required.values()):
            state = RESTING
        elif state == RESTING:
            state = "running"
        return msgspec.structs.replace(topology, tasks=tasks, state=state, requirement_id="")

    def _of_task(self, spec: TaskSpec) -> TaskSpec:
        count = self.required.get(spec.task)
        if count is None:
            return spec
        return msgspec.structs.replace(spec, required=count, parallelism=self.runs.get(spec.task) or spec.parallelism)


class Rest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that we have taken to no subtask."""

    since_ms: int
    requirement_id: str = ""  # under which the engine was first seen like that; another one is somebody else's
    unknown_ms: int = 0  # since when it is not known whether records wait; 0: it is
    held: str = ""  # what keeps it from being started now, for people


class WorkedSize(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes, by task, that a decision wanted while records came."""

    at_ms: int
    sizes: dict[str, int]


class PartialRun(msgspec.Struct, frozen=True, kw_only=True):
    """What runs while an engine has room for only a part of a command."""

    reached: dict[str, int]
    waiting_for: str = ""


def _with_units(spec: TaskSpec, units: tuple[int, ...] | None) -> TaskSpec:
    return spec if not units else msgspec.structs.replace(spec, units=units, parallelism=len(units))


class JobMemory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything known about one job that the engine does not tell."""

    job: str
    desired_generation: int = 0  # of the last command
    last_span_end_ms: int = -1  # of the last decision handled
    failures: int = 0  # rescales that failed in a row
    gate: GateState | None = None
    pending: PendingAct | None = None
    underway: RescaleInProgress | StandbyChange | None = None
    applied: AppliedCommand = msgspec.field(default_factory=AppliedCommand)
    standby: Standby = msgspec.field(default_factory=Standby)
    mappings: dict[str, tuple[int, ...]] = {}  # unit per vnode, for stateful tasks that were rescaled
    checkpoint: int = 0  # sequence number of the latest checkpoint event that the gate has taken into account
    not_before_ms: int = 0  # a waiting job is not started earlier, because its last start failed
    owned: OwnedRequirement | None = None  # None where the engine remembers our generations
    partly: PartialRun | None = None  # of the command under way
    wake_at_ms: int | None = None  # when something is next due, at the time this record was written
    conditions: tuple[Condition, ...] = ()
    limits: LimitsMemory = msgspec.field(default_factory=LimitsMemory)
    advised: Advice | None = None  # open until the next decision, or until it is carried out
    approval: Approval | None = None  # the last one that was answered
    approved_at_ms: int = 0  # the time in the id of that answer
    figures_until_ms: int = 0  # end of the newest minute of which a decision knew figures; 0: none is known to have had any
    safe_asked_ms: int = 0  # when the safe size was last asked for
    rest: Rest | None = None  # while nothing of the job is to run, by an act of ours
    woke_ms: int = 0  # when it was last started from rest
    worked: tuple[WorkedSize, ...] = ()  # of the last hour with records, those that no later one contains
    unreadable: str = ""  # why what was remembered could not be read: nothing is commanded until somebody drops this record

    @property
    def outstanding(self) -> RescheduleCommand | None:
        """The command whose end is not known yet."""
        return self.underway.command if self.underway else None

    @property
    def rescaling(self) -> RescaleInProgress | None:
        """The rescale under way, if there is one."""
        return self.underway if isinstance(self.underway, RescaleInProgress) else None

    @property
    def is_balancing(self) -> bool:
        """The rescale under way moves units between hosts, for no decision."""
        return self.rescaling is not None and self.rescaling.own is OwnAct.BALANCE

    def units(self, topology: JobTopology | None) -> frozenset[int]:
        """Return the units that the job holds or is about to hold."""
        held = units_of(self.applied.completed(topology)) if topology else frozenset()
        command = self.outstanding
        changes = command.changes if command and command.action != "abort" else ()
        return held.union(*(change.units for change in changes))


OVERDUE_MS = 120_000  # an act that was due longer ago than this was due while no rescaler was active
PATIENCE_MS = 60_000  # how long after its expected end a command's report may come
WARM_UP_PATIENCE_MS = 180_000  # the same for learners and for requirements: engine and actuator give them up first


def is_preparing(underway: RescaleInProgress | StandbyChange | None) -> bool:
    """Say whether learners are warming up."""
    return isinstance(underway, RescaleInProgress) and underway.is_preparing


def given_up_at_ms(memory: JobMemory) -> int | None:
    """Return when the outstanding command counts as failed if nothing is reported; None: never."""
    command = memory.outstanding
    if command is None or command.deadline_ms is None:
        return None
    is_slow = is_preparing(memory.underway) or command.expected is not None  # the actuator takes it back first
    return command.deadline_ms + (WARM_UP_PATIENCE_MS if is_slow else 0)


def wake_at_ms(memory: JobMemory, gate: GateSettings) -> int | None:
    """Return when there is next something to do; ``gate`` are the parameters in force."""
    underway, pending = memory.underway, memory.pending
    times = [given_up_at_ms(memory)]
    if pending is not None and pending.until_ms is not None:
        times.append(pending.until_ms + (PATIENCE_MS if underway and not is_preparing(underway) else 0))
    if underway is None and pending is None:
        if memory.gate is not None:
            times.append(Gate(gate, memory.gate).wake_at_ms())
        if memory.not_before_ms:
            times.append(memory.not_before_ms)
    return min((time for time in times if time is not None), default=None)


def rescaled_at_ms(pending: PendingAct, underway: RescaleInProgress | StandbyChange, now_ms: int) -> int:
    """Return until when an act is put off that waits for the command before it.

    The wait is promised to end when the command is expected to end; the next outcome then waits for the report of that end. How
    long learners take is unknown: while they warm up, the promise is one minute at a time.
    """
    expected_ms = underway.expected_end_ms if isinstance(underway, RescaleInProgress) else None
    preparing, deadline_ms = is_preparing(underway), underway.command.deadline_ms
    patience_ms = 0 if preparing else PATIENCE_MS
    promised_ms = pending.until_ms if pending.reason == OutcomeReason.RESCALE_IN_PROGRESS else None
    if expected_ms is not None and now_ms < expected_ms + patience_ms:
        return expected_ms
    if promised_ms is not None and now_ms < promised_ms + patience_ms:
        return promised_ms
    if preparing or deadline_ms is None:
        return now_ms + PATIENCE_MS
    return min(now_ms + PATIENCE_MS, deadline_ms)


def job_record(cluster: Cluster, memory: JobMemory, at_ms: int) -> StateRecord:
    """Return the record that keeps a job's memory."""
    body = msgspec.structs.replace(memory, mappings={}, conditions=())
    return state_record(cluster, "job", memory.job, body, at_ms, summary_of(memory))


def restored(record: RescalerRecord) -> JobMemory:
    """Return the memory that a job's record keeps; of a record of another version, what its summary tells.

    Raises:
        RecordRejected: the body is no memory of this job; or the record is of another version, and its summary is not enough.
    """
    body, summary = bytes(record.body), record.summary
    if not body and summary is not None:
        return _told_by(summary, record.id)
    memory = decode(body, JobMemory)
    if memory.job != record.id:
        raise RecordRejected("invalid_field", "body.job", f"{memory.job!r} is another job")
    if summary is not None:
        memory.mappings, memory.conditions = summary.mappings, summary.conditions
    return memory


def _told_by(summary: JobSummary, job: str) -> JobMemory:
    """Return the memory of a job at rest. What its limits remember begins anew, and the next decision replaces one that waits."""
    if summary.underway is not None:
        words = f"another version wrote it, which had {summary.underway.command_id} under way"
        raise RecordRejected("unknown_type", "type", words)
    return JobMemory(
        job=job,
        desired_generation=summary.desired_generation,
        failures=summary.failures,
        applied=AppliedCommand(generation=summary.applied_generation),
        standby=Standby(copies=summary.standbys),
        mappings=summary.mappings,
        conditions=summary.conditions,
        rest=next((Rest(since_ms=each.last_transition_ms) for each in summary.conditions if each.reason == AT_REST), None),
    )


def summary_of(memory: JobMemory) -> JobSummary:
    """Return what others may read of a job's memory."""
    return JobSummary(
        phase=memory.gate.phase if memory.gate else None,
        mode=memory.gate.mode if memory.gate else None,
        pending=_waiting(memory.pending) if memory.pending else None,
        underway=_underway(memory.underway) if memory.underway else None,
        wake_at_ms=memory.wake_at_ms,
        desired_generation=memory.desired_generation,
        applied_generation=memory.applied.generation,
        observed_generation=max((each.observed_generation for each in memory.conditions), default=None),
        failures=memory.failures,
        conditions=memory.conditions,
        standbys=memory.standby.copies,
        mappings=memory.mappings,
        advice=_advice(memory.advised) if memory.advised else None,
    )


def _advice(advised: Advice) -> OpenAdvice:
    return OpenAdvice(decision_id=advised.decision_id, targets={change.task: change.after for change in advised.changes})


def _waiting(pending: PendingAct) -> WaitingAct:
    return WaitingAct(decision_id=pending.decision_id, reason=pending.reason, until_ms=pending.until_ms)


def _underway(underway: RescaleInProgress | StandbyChange) -> CommandUnderway:
    command = underway.command
    if isinstance(underway, StandbyChange):
        return CommandUnderway(decision_id=command.decision_id, command_id=command.command_id)
    return CommandUnderway(
        decision_id=command.decision_id, command_id=command.command_id, step=underway.step, given_up=underway.given_up
    )


class CommandStatus(StrEnum):
    """What a command is to its job."""

    OUTSTANDING = "outstanding"
    """The command under way, to the last byte: to be carried out."""
    OVER = "over"
    """Of a generation or step that has ended. An actuator that starts again may read it again."""
    UNKNOWN = "unknown"
    """Not made by this rescaler, or by a later one."""


def status_of(command: RescheduleCommand, memory: JobMemory) -> CommandStatus:
    """Compare a command with the memory of its job.

    The memory is written in one transaction with each command and restored before anybody reads commands, so it knows every
    command that may be carried out.
    """
    underway = memory.outstanding
    if underway is None:
        is_over = command.desired_generation <= memory.desired_generation
        return CommandStatus.OVER if is_over else CommandStatus.UNKNOWN
    if encode(command) == encode(underway):
        return CommandStatus.OUTSTANDING
    is_over = (command.desired_generation, command.step) < (underway.desired_generation, underway.step)
    return CommandStatus.OVER if is_over else CommandStatus.UNKNOWN
