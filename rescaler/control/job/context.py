"""What one input for one job is handled with. The functions of `rescaler.control.job` take it and write what follows into it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from surescale.contracts.commands import Drift, Outcome, Progress, RescheduleCommand
from surescale.contracts.messages import REMARK_LETTERS_MAX, TIME_MS_MAX, JobTopology
from surescale.contracts.steps import Timed, untimed
from surescale.rescaler.control.counts import fitting
from surescale.rescaler.control.job.job_gate import settings_after, settings_for, targets_now, updated_gate
from surescale.rescaler.control.job.memory import JobMemory, PendingAct
from surescale.rescaler.control.outcomes import REASONS_BY_STATUS, REFUSAL_CODES, LastOutcome, OutcomeReason, OutcomeStatus
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.units import usable_units
from surescale.rescaler.control.world import World
from surescale.rescaler.gate import Gate
from surescale.rescaler.gate_settings import GateSettings

AHEAD_MS_MAX = 120_000
"""A time that an actuator or engine reports is not believed if it is further ahead than this."""


class Act(Protocol):
    """A decision, or an act that came from one."""

    @property
    def decision_id(self) -> str:
        """Its id."""

    @property
    def span_end_ms(self) -> int:
        """The end of the span that it is about."""


@dataclass(slots=True)
class JobEffects:
    """What follows from one input, in order."""

    outcomes: list[Outcome] = field(default_factory=list)
    commands: list[RescheduleCommand] = field(default_factory=list)
    drifts: list[Drift] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    answers: dict[str, LastOutcome | None] = field(default_factory=dict)
    """Decisions answered (or, None, forgotten), by id."""
    duplicates: int = 0
    commits: int = 0
    """Commands now known to be carried out."""
    avoided_hosts: set[str] = field(default_factory=set)
    """Hosts where learners of a balance took too long."""


@dataclass(slots=True)
class JobContext:
    """What a job remembers, what its world looks like, and what follows. Made for one input, then dropped."""

    memory: JobMemory
    """A copy that belongs to this context."""
    world: World
    rules: ControlSettings
    answers: dict[str, LastOutcome]
    """The latest outcome of each decision, by its id."""
    effects: JobEffects = field(default_factory=JobEffects)
    timed: Timed = untimed
    """Called for each plan, with the decision that it is made for."""

    # What is known

    @property
    def now_ms(self) -> int:
        """When the event being handled happened."""
        return self.world.now_ms

    @property
    def topology(self) -> JobTopology | None:
        """The job as it must be now, even if its latest command does not show in the topic yet."""
        memory, topology = self.memory, self.world.topology
        if topology is None:
            return None
        if self.world.by_counts:
            return memory.owned.completed(topology) if memory.owned is not None else topology
        return memory.applied.completed(topology)

    @property
    def gate_settings(self) -> GateSettings:
        """The gate's parameters now, after the failures so far."""
        return settings_after(settings_for(self.rules.gate, self.world.engine), self.memory.failures)

    def gate(self, topology: JobTopology) -> Gate:
        """Return the job's gate, up to date with targets, slots and time. It is not remembered: that is up to the caller."""
        world, targets = self.world, targets_now(self.memory.pending, topology)
        if world.by_counts:
            targets, slots = fitting(topology, targets, world.hosts, world.engine)
        else:
            slots = sum(map(len, usable_units(world.hosts, world.units_of_others()).values()))
        return updated_gate(self.memory.gate, self.gate_settings, topology, targets, slots=slots, now_ms=self.now_ms)

    def is_believable(self, at_ms: int) -> bool:
        """Say whether a reported time may be true."""
        return at_ms <= self.now_ms + AHEAD_MS_MAX

    def date_back(self, at_ms: int) -> None:
        """Let everything that follows count from the time of the event, whenever we learned of it."""
        if self.is_believable(at_ms):
            self.world = replace(self.world, now_ms=at_ms)

    # What is said

    def add_outcome(
        self,
        act: Act,
        status: OutcomeStatus,
        reason: OutcomeReason,
        *,
        at_ms: int | None = None,
        until_ms: int | None = None,
        detail: str = "",
        command_id: str | None = None,
        checkpoint: int = 0,
    ) -> None:
        """Give an act its next outcome; without ``at_ms``, now."""
        assert reason in REASONS_BY_STATUS[status], (status, reason)
        last, at_ms = self.answers.get(act.decision_id), self.now_ms if at_ms is None else at_ms
        sequence = 0 if last is None else last.sequence + 1
        outcome = Outcome(
            cluster=self.world.cluster,
            job=self.memory.job,
            decision_id=act.decision_id,
            span_end_ms=act.span_end_ms,
            status=status,
            reason=reason.value,
            at_ms=at_ms,
            sequence=sequence,
            until_ms=until_ms,
            command_id=command_id,
            detail=detail[:REMARK_LETTERS_MAX],
            code=REFUSAL_CODES.get(reason, reason.value.upper()) if status == "refused" else "",
            checkpoint=checkpoint,
        )
        answer = LastOutcome(job=self.memory.job, status=status, sequence=sequence, at_ms=at_ms)
        self.answers[act.decision_id] = self.effects.answers[act.decision_id] = answer
        self.effects.outcomes.append(outcome)

    def finish(
        self,
        pending: PendingAct,
        status: OutcomeStatus,
        reason: OutcomeReason,
        *,
        at_ms: int | None = None,
        detail: str = "",
        command_id: str | None = None,
    ) -> None:
        """Give the pending act its last outcome."""
        self.memory.pending = None
        self.add_outcome(pending, status, reason, at_ms=at_ms, detail=detail, command_id=command_id)

    def promise(self, pending: PendingAct, reason: OutcomeReason, until_ms: int) -> None:
        """Say why the pending act waits and until when, unless that has been said and the time has not come."""
        until_ms, checkpoint = min(until_ms, TIME_MS_MAX), self.memory.checkpoint
        if (pending.reason, pending.until_ms, pending.checkpoint) == (reason, until_ms, checkpoint):
            return
        at_ms = self.now_ms if pending.until_ms is None else min(self.now_ms, pending.until_ms)
        self.add_outcome(pending, "pending", reason, at_ms=at_ms, until_ms=until_ms, checkpoint=checkpoint)
        said = {"reason": reason.value, "until_ms": until_ms, "checkpoint": checkpoint}
        self.memory.pending = msgspec.structs.replace(pending, **said)

    def forget_before(self, oldest_ms: int) -> None:
        """Forget decisions whose last outcome is older than this."""
        for decision_id, answer in sorted(self.answers.items()):
            if answer.at_ms < oldest_ms and answer.status != "pending":
                del self.answers[decision_id]
                self.effects.answers[decision_id] = None
