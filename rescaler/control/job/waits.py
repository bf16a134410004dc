"""How long a job waits, and for what: computed from its memory alone."""

from __future__ import annotations

from rescaler.control.job.memory import JobMemory, PendingAct, RescaleInProgress, StandbyChange
from rescaler.control.outcomes import OutcomeReason
from rescaler.gate import Gate
from rescaler.gate_settings import GateSettings

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
