"""Decisions on windows that came late, kept back until it is known whether a newer window of their job waits. Pure.

After a pause of Spark or of the agent, windows of several minutes come one after the other. Each is decided on, so each has its
answer; but only the newest decision of a job may be acted on, so the record of an older one says what overtook it.
"""

from typing import Generic, Protocol, TypeVar

from msgspec import UNSET

from contracts.clock import MINUTE_MS
from contracts.decisions import Decision

LATE_MS = MINUTE_MS
"""A window that ended longer ago is late: a newer one is due."""
KEPT_BACK_S = 60.0
"""Longest time that decisions of a job are kept back: an agent that cannot catch up decides late, but decides."""
BYTES_MAX = 64 * 1024 * 1024
"""Of the windows behind decisions that are kept back."""


class Answer(Protocol):
    """A decision that is ready to be written."""

    @property
    def decision(self) -> Decision:
        """The decision."""

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""


A = TypeVar("A", bound=Answer)


def is_late(decision: Decision, wall_ms: int) -> bool:
    """Say whether a decision may have been overtaken, in a pipeline whose clock is the wall clock."""
    return wall_ms - decision.span_end_ms > LATE_MS


def overtaken_by_ms(kept: Decision, newer: Decision | None) -> int | None:
    """Return the end of the window, at least, with which a newer window of its job overtakes a decision; None: it does not.

    ``newer``: the decision on that window. A window on which nothing was due leaves the last decision of a span in force, and
    says that an emergency is over.
    """
    if newer is not None:
        return newer.span_end_ms if newer.span_end_ms > kept.span_end_ms else None
    return None if kept.emergency is UNSET else kept.span_end_ms + MINUTE_MS


class LateDecisions(Generic[A]):
    """At most one decision of each job. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._kept: dict[str, A] = {}
        self._since_s: dict[str, float] = {}
        self._size_bytes = 0

    def of(self, job: str) -> A | None:
        """Return what is kept back of a job."""
        return self._kept.get(job)

    def take(self, job: str) -> A:
        """Keep a job's decision back no longer."""
        answer = self._kept.pop(job)
        self._size_bytes -= answer.size_bytes
        return answer

    def keep(self, answer: A, now_s: float) -> None:
        """Keep a decision back. One that takes the place of another is kept as long as that one would have been."""
        job = answer.decision.job
        assert job not in self._kept
        if now_s - self._since_s.setdefault(job, now_s) > KEPT_BACK_S:
            self._since_s[job] = now_s
        self._kept[job] = answer
        self._size_bytes += answer.size_bytes

    def ready(self, now_s: float, *, waits: bool) -> list[A]:
        """Return those that need not be kept back any longer, oldest first; ``waits``: more windows are known to wait."""
        return [
            self.take(job)
            for job in list(self._kept)
            if not waits or now_s - self._since_s[job] >= KEPT_BACK_S or self._size_bytes > BYTES_MAX
        ]

    def clear(self) -> None:
        """Forget all: their windows are read again, perhaps by another agent."""
        self._kept.clear()
        self._since_s.clear()
        self._size_bytes = 0
