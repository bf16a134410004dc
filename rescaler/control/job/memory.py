"""What the rescaler remembers about one job, as plain data: enough to stop anywhere and continue elsewhere.

`JobMemory` itself is assigned to field by field, by one `JobContext` on a copy of its own; everything inside it is immutable.
"""

from __future__ import annotations

import msgspec

from contracts.commands import RescheduleCommand, SlotStandbys, TaskChange
from contracts.job_settings import Approval
from contracts.messages import JobTopology, TaskSpec
from contracts.own_acts import OwnAct
from contracts.rescaler_state import Condition, Step
from contracts.topology import required_of, units_of
from rescaler.control.job.limits import LimitsMemory
from rescaler.gate import GateState

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
    span_end_ms: int
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
        return msgspec.structs.replace(topology, tasks=tasks, requirement_id="")

    def _of_task(self, spec: TaskSpec) -> TaskSpec:
        count = self.required.get(spec.task)
        if count is None:
            return spec
        return msgspec.structs.replace(spec, required=count, parallelism=self.runs.get(spec.task, spec.parallelism))


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
