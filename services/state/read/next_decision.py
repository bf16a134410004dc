"""When the next decision on a job is due, and what it waits for: derived from its newest window and decisions. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import mode

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_limits import minutes_known_min
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.plurals import counted
from surescale.contracts.summaries import WindowSummary
from surescale.runtime.instants import to_the_minute
from surescale.services.state.record_documents import ViewDocument


class NextDecision(ViewDocument, frozen=True, kw_only=True):
    """The next regular decision. One on an emergency comes as soon as that shows."""

    at_ms: int
    """End of the first span that can end with an answer of the policy."""
    minutes_missing: int
    """Minutes of figures that must be known until then before the policy is asked; 0: none."""
    words: str
    """Both for people, in the pipeline's time, UTC."""


def next_decision(
    topology: JobTopology | None,
    settings: JobSettings | None,
    window: WindowSummary | None,
    decided_ms: Sequence[int],
    span_minutes: int,
) -> NextDecision | None:
    """Return when a running job is decided on next; None before its first window, and for a job that does not run.

    Args:
        topology: of the job.
        settings: of the job, before its labels; None: nobody set any.
        window: its newest.
        decided_ms: ends of the spans of its newest decisions, newest first, in milliseconds.
        span_minutes: from one decision to the next, as long as no decisions say otherwise.
    """
    if topology is None or topology.state != "running" or window is None:
        return None
    allowed = in_force(settings or JobSettings(job=topology.job), topology.labels)
    missing = max(0, minutes_known_min(allowed) - window.minutes_known)
    span_ms = _span_ms(decided_ms, span_minutes)
    earliest_ms = window.window_end_ms + max(1, missing) * MINUTE_MS
    at_ms = -(-earliest_ms // span_ms) * span_ms
    return NextDecision(at_ms=at_ms, minutes_missing=missing, words=_in_words(at_ms, window.window_end_ms, missing))


def _span_ms(decided_ms: Sequence[int], span_minutes: int) -> int:
    """Return how far decisions are apart as a rule: those of emergencies come between, and some are missing."""
    gaps = [after - before for after, before in pairwise(decided_ms) if after > before]
    return mode(gaps) if len(gaps) > 1 else span_minutes * MINUTE_MS


def _in_words(at_ms: int, window_end_ms: int, missing: int) -> str:
    """Return the sentence.

    >>> _in_words(600_000, 480_000, 0)
    'due at 1970-01-01 00:10 UTC, after 2 more minutes of figures'
    >>> _in_words(600_000, 540_000, 1)
    'due at 1970-01-01 00:10 UTC, after 1 more minute of figures, which must be known'
    """
    minutes = (at_ms - window_end_ms) // MINUTE_MS
    needed = ""
    if missing:
        needed = f", {'which' if missing == minutes else f'{missing} of which'} must be known"
    return f"due at {to_the_minute(at_ms)} UTC, after {counted(minutes, 'more minute')} of figures{needed}"
