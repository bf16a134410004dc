"""The record of one job's memory: a private body, and a summary for others. Mappings and conditions are in the summary only."""

from __future__ import annotations

import msgspec

from contracts.errors import RecordRejected
from contracts.ids import Cluster
from contracts.rescaler_state import CommandUnderway, JobSummary, OpenAdvice, RescalerRecord, WaitingAct
from contracts.wire import decode
from rescaler.control.effects import StateRecord, state_record
from rescaler.control.job.memory import (
    Advice,
    AppliedCommand,
    JobMemory,
    PendingAct,
    RescaleInProgress,
    Standby,
    StandbyChange,
)


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
    if not body and summary is not msgspec.UNSET:
        return _told_by(summary, record.id)
    memory = decode(body, JobMemory)
    if memory.job != record.id:
        raise RecordRejected("invalid_field", "body.job", f"{memory.job!r} is another job")
    if summary is not msgspec.UNSET:
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
        advice=_advice(memory.advised) if memory.advised else msgspec.UNSET,
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
