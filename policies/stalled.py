"""Minutes in which a task was busy and got nothing through, because what it calls or writes to was down. Any batch axes.

A member that waits for a database in the middle of a record counts as busy, since it does not wait for records. That time tells
nothing of what a record costs. Counted as work it makes every record of the hour seem dearer, and the job would be sized for
that while it catches up.

Short outages that come back within the hour are another matter: the time that they take is lost again and again, so it belongs
to what a record costs.

Long records and rare commits look alike for some minutes: nothing is counted, and then the work of all these minutes at once.
"""

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.saturation import WAVE_MINUTES
from surescale.policies.answer import Float64
from surescale.policies.graph import Bool

BUSY_LEAST = 0.5
"""Share of its time: of a task that rests for longer too few subtasks wait."""
RECORDS_LEAST = 20.0
"""That the time would usually have been enough for; of fewer long ones none may end in it by chance."""
MADE_UP_LEAST = 0.25
"""Of these records: so many more than usual in as many minutes afterwards show that they were worked on and counted late."""


def stalled(into: Float64, out: Float64, busy_ms: Float64, subtasks: Float64) -> Bool | None:
    """Return [.., L, N] the minutes in which tasks stalled; None: there is none.

    What a record usually costs is measured over all other minutes. A task that emits is at work, whatever it takes in.

    Args:
        into, out: records by minute; NaN where unknown, as below.
        busy_ms: time of all subtasks together.
        subtasks: how many there were.
    """
    stood = (into == 0.0) & ~(out > 0.0) & (busy_ms >= BUSY_LEAST * MINUTE_MS * subtasks)
    if not stood.any():
        return None
    found, records = np.zeros_like(stood), np.fmax(into, out)
    for row in np.argwhere(stood.any(axis=-2)):  # few: a batch index and a task
        at = (*row[:-1], slice(None), row[-1])
        found[at] = _of_one(records[at], busy_ms[at], stood[at])
    return found if found.any() else None


def _of_one(records: Float64, busy_ms: Float64, stood: Bool) -> Bool:
    """Return the same [L] for one task."""
    known = ~np.isnan(records) & ~np.isnan(busy_ms)
    records, busy_ms = np.where(known, records, 0.0), np.where(known, busy_ms, 0.0)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], stood, [False])).astype(np.int8))).reshape(-1, 2)
    found, lengths = np.zeros_like(stood), []
    for begin, end in sorted(edges.tolist(), key=lambda edge: edge[0] - edge[1]):  # the longest first: it hides others
        spent = busy_ms[begin:end].sum()
        per_ms = records[~found].sum() / max(busy_ms[~found].sum() - spent, 1.0)
        expected = spent * per_ms
        after = slice(end, 2 * end - begin)
        if known[after].any():
            was_work = np.maximum(records[after] - busy_ms[after] * per_ms, 0.0).sum() >= MADE_UP_LEAST * expected
        else:  # it goes on
            was_work = end - begin <= WAVE_MINUTES
        if expected >= RECORDS_LEAST and not was_work:
            found[begin:end] = True
            lengths.append(end - begin)
    comes_back = len(lengths) > 1 and max(lengths) <= WAVE_MINUTES
    return np.zeros_like(found) if comes_back else found
