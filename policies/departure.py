"""Says when a job has left what its tournament's twin predicted, so that the winner no longer serves. Pure, and without a memory.

Two figures are compared, both per record that comes to the job, so that neither depends on how high the load is: the work on
a record, which says whether the job is still the one that the twin was fitted to, and how long a record waits, which says whether
the winner does what it did there. Both are means over the last 20 and the last 60 minutes: the short one notices at once, and the
long one keeps the winner off until a whole hour was as predicted.
"""

import numpy as np
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.releases import Expectation
from surescale.contracts.windows import FIGURE, Float32, Window
from surescale.policies.answer import Float64
from surescale.policies.graph import job_graph
from surescale.policies.measure import measure

STRETCHES = (20, 60)
"""Minutes over which figures are compared."""
RECORDS_LEAST = 200
"""In a stretch; a mean over fewer records is noise."""


def departure(window: Window, expected: Expectation, since_ms: int) -> str:
    """Return how the last minutes of a job differ from what was expected, for people; empty: they do not.

    Args:
        window: the job's last minutes.
        expected: of its release.
        since_ms: when the release began to serve; minutes before it do not count.

    Raises:
        RecordRejected: the window's topology has a cycle.
    """
    known = (window.window_end_ms - since_ms) // MINUTE_MS
    load = measure(window.figures, job_graph(window.topology.tasks)).load
    busy, waiting = busy_ms(window.figures), waiting_records(window.figures)
    for minutes in dict.fromkeys(min(stretch, len(load)) for stretch in STRETCHES):
        if minutes > known:
            continue
        last = slice(-minutes, None)
        work, waited = (float(per_record(values[last], load[last], minutes)[-1]) for values in (busy, waiting))
        if not np.isnan(work) and not expected.work_least <= work <= expected.work_most:
            return (
                f"A record took {work:.3g} ms of work over the last {minutes} minutes; the twin expected "
                f"{expected.work_least:.3g} to {expected.work_most:.3g}."
            )
        if waited > expected.waiting_most:
            return (
                f"A record waited {60.0 * waited:.3g} s over the last {minutes} minutes; the twin expected at most "
                f"{60.0 * expected.waiting_most:.3g}."
            )
    return ""


def busy_ms(figures: Float32) -> Float64:
    """Return the busy milliseconds [L] of all tasks together, from figures [L, N, F]; NaN where no task knows."""
    return _sum(figures, "busy_ms")


def waiting_records(figures: Float32) -> Float64:
    """Return the records [L] that wait at all tasks together, from figures [L, N, F]; NaN where no task knows."""
    return _sum(figures, "queued_records_mean")


def per_record(values: Float64, load: Float64, minutes: int) -> Float64:
    """Return values [L] over load [L], summed over each stretch of so many minutes in a row, [L - minutes + 1].

    Only minutes count in which both are known. NaN where fewer than ``RECORDS_LEAST`` records came.
    """
    known = ~(np.isnan(values) | np.isnan(load))
    ones = np.ones(minutes)
    above, below = (np.convolve(np.where(known, each, 0.0), ones, "valid") for each in (values, load))
    found: Float64 = np.where(below >= RECORDS_LEAST, above / np.maximum(below, 1e-9), np.nan)
    return found


def marked(decision: Decision, left: str) -> Decision:
    """Return a decision that says why the winner of a tournament did not make it; empty: no winner was left out."""
    return replace(decision, policy=replace(decision.policy, left=left)) if left else decision


def why_left(decision: Decision) -> str:
    """Return why the winner of a tournament did not make a decision; empty: no winner was left out."""
    return decision.policy.left or ""


def _sum(figures: Float32, name: str) -> Float64:
    values = figures[..., FIGURE[name]].astype(np.float64)
    known = ~np.isnan(values)
    total: Float64 = np.where(known.any(axis=-1), np.where(known, values, 0.0).sum(axis=-1), np.nan)
    return total
