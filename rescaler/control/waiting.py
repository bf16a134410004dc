"""What a job waits for and until when, read from its memory: pure functions without effects."""

from __future__ import annotations

from rescaler.control.memory import JobMemory
from rescaler.control.reasons import Reason
from rescaler.gate import Gate
from rescaler.gate_settings import GateSettings

OVERDUE_MS = 120_000  # what was due longer ago than this was due while no rescaler was there
PATIENCE_MS = 60_000  # how long after the end that was expected a report of it may come
WARM_UP_PATIENCE_MS = 180_000  # the same, for learners: engine and actuator give them up first


def is_preparing(memory: JobMemory) -> bool:
    """Learners warm up."""
    return memory.outstanding is not None and memory.outstanding.action == "prepare"


def given_up_at_ms(memory: JobMemory) -> int | None:
    """When the outstanding command has failed if nothing is heard of it."""
    outstanding = memory.outstanding
    if outstanding is None or outstanding.deadline_ms is None:
        return None
    return outstanding.deadline_ms + (WARM_UP_PATIENCE_MS if is_preparing(memory) else 0)


def wake_at_ms(memory: JobMemory, gate: GateSettings) -> int | None:
    """When there is something to do at the latest; ``gate`` are the parameters in force."""
    outstanding, pending = memory.outstanding, memory.pending
    times = [given_up_at_ms(memory)]
    if pending is not None and pending.until_ms is not None:
        times.append(pending.until_ms + (PATIENCE_MS if outstanding and not is_preparing(memory) else 0))
    if memory.gate is not None and outstanding is None and pending is None:
        times.append(Gate(gate, memory.gate).wake_at_ms())
    if memory.not_before_ms and outstanding is None and pending is None:
        times.append(memory.not_before_ms)
    return min((time for time in times if time is not None), default=None)


def rescaled_at_ms(memory: JobMemory, now_ms: int) -> int:
    """Until when an act that waits for the rescale before it is put off.

    The wait is promised to end when the command is expected to, and the answer is then held back until that is heard of. How
    long learners take nobody knows: while they warm up a minute is promised at a time.
    """
    pending, outstanding, expected_ms = memory.pending, memory.outstanding, memory.expected_end_ms
    assert pending is not None
    assert outstanding is not None
    preparing = is_preparing(memory)
    patience_ms = 0 if preparing else PATIENCE_MS
    promised_ms = pending.until_ms if pending.reason == Reason.RESCALE_IN_PROGRESS else None
    if expected_ms is not None and now_ms < expected_ms + patience_ms:
        return expected_ms
    if promised_ms is not None and now_ms < promised_ms + patience_ms:
        return promised_ms
    if preparing or outstanding.deadline_ms is None:
        return now_ms + PATIENCE_MS
    return min(now_ms + PATIENCE_MS, outstanding.deadline_ms)
