"""Where the gate of a decision's job stands now, if it still deals with that decision. Read from the rescaler's own record."""

import msgspec

from contracts.rescaler_state import JobSummary
from contracts.settings import PipelineSettings
from contracts.topics import RESCALER_STATE
from runtime.topic_records import memories, read_topics


class GateNow(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's phase, why and until when the decision waits, and the command that carries it out."""

    phase: str | None
    waits_because: str | None
    wakes_up_ms: int | None
    carries_out: str | None


def gate_now(settings: PipelineSettings, job: str, act_id: str) -> GateNow | None:
    """Return where the gate of a job stands, None if it now deals with another decision or act."""
    summary = None
    for record in memories(read_topics(settings, [RESCALER_STATE])[RESCALER_STATE]):
        if record.kind == "job" and record.id == job and record.summary is not msgspec.UNSET:
            summary = record.summary
    return None if summary is None else about(summary, act_id)


def about(summary: JobSummary, decision_id: str) -> GateNow | None:
    """Return what the rescaler's summary of a job says about one decision.

    >>> from contracts.rescaler_state import CommandUnderway
    >>> about(JobSummary(phase="Idling", underway=CommandUnderway(decision_id="d", command_id="c")), "d")
    GateNow(phase='Idling', waits_because=None, wakes_up_ms=None, carries_out='c')
    """
    waits = summary.pending if summary.pending and summary.pending.decision_id == decision_id else None
    carries_out = summary.underway if summary.underway and summary.underway.decision_id == decision_id else None
    if waits is None and carries_out is None:
        return None
    return GateNow(
        phase=summary.phase,
        waits_because=waits.reason if waits else None,
        wakes_up_ms=waits.until_ms if waits else None,
        carries_out=carries_out.command_id if carries_out else None,
    )
