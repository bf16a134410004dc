"""The service time of a task while it never rests, for engines that do not know how busy it is. Works on any batch axes.

A task with more waiting than it gets through in a minute works all the time, except while back pressure holds it. So its time is
known without its busy time (the "observed true processing rate" of the Flink operator's autoscaler, for sources that catch up).

The same tells a busy counter that covers a part of the work: time in external calls, for one. A task that never rests, and yet
shows a quarter of its time as busy, needs four times as long for a record as its counter says.
"""

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.source_load import read_or_emitted
from contracts.windows import FIGURE, Float32
from policies.answer import Float64
from policies.graph import Bool, JobGraph

LATELY_MINUTES = 10
"""Over which a busy counter is held against what waits."""
USED_LEAST = 3
"""So many of these minutes, and the newest, must show that the task never rested."""
HELD_MOST = 0.05
"""A task that back pressure holds for more of the minute waits for others."""
PRESSED_LEAST = 0.2
"""Share of the minute that a task must be held back for by the one after it to prove that that one never rests."""
NEVER_RESTS = 0.95
"""Share of its time from which a task counts as working all of it."""
BUSIEST_MOST = 0.9
"""From here on a counter covers the work."""
UNEVEN_MOST = 2.0
"""Times the mean that the busiest subtask may do: beyond, what waits may all be its own, and says nothing of the others."""
TIMES_MOST = 20.0
"""A counter that covers less says nothing at all."""


def observed_service(figures: Float32) -> Float64:
    """Return subtask-minutes per record [.., N] over minutes of figures [.., L, N, F] that began and ended with enough waiting.

    NaN for a task without such a minute, or whose time under back pressure is unknown in all of them.
    """
    names = ("records_in", "records_out", "queued_records_last", "parallelism", "idle_ms", "backpressured_ms")
    into, out, waiting, subtasks, idle, held = (figures[..., FIGURE[name]].astype(np.float64) for name in names)
    processed = np.fmax(into, out)
    enough = waiting >= processed
    enough[..., 1:, :] &= waiting[..., :-1, :] >= processed[..., 1:, :]
    enough[..., 0, :] = False
    worked = np.maximum(subtasks * MINUTE_MS - held - np.nan_to_num(idle), 0.0)
    used = enough & (processed > 0) & (worked > HELD_MOST * subtasks * MINUTE_MS)  # held back all the time is not infinitely fast
    spent, records = (np.where(used, values, 0.0).sum(axis=-2) for values in (worked, processed))
    with np.errstate(divide="ignore", invalid="ignore"):
        service: Float64 = np.where(records > 0, spent / records / MINUTE_MS, np.nan)
    return service


def times_understated(figures: Float32, graph: JobGraph, uneven: Bool) -> Float64:
    """Return [N] how many times the busy time is that figures [L, N, F] show, by what waits; 1 where nothing tells.

    A task never rested in a minute that began and ended with more waiting than it got through, or in which the only task before
    it was held back or busy all the time; unless it was held back itself. Then the busiest of its subtasks worked all of it.
    ``uneven``: bool [N], tasks of which some subtasks have no work, so that a backlog says nothing of the others.
    """
    if not _never_rested(figures[-2:].astype(np.float64), graph).any():
        return np.ones(len(graph.tasks))
    lately = figures[-LATELY_MINUTES - 1 :].astype(np.float64)
    used = _never_rested(lately, graph)
    subtasks, busy, busiest = (lately[1:, :, FIGURE[name]] for name in ("parallelism", "busy_ms", "busy_ms_max"))
    busiest = np.where(np.isnan(busiest), busy / subtasks, busiest)
    spent, mean, minutes = (np.where(used, each, 0.0).sum(axis=0) for each in (busiest, busy / subtasks, used))
    with np.errstate(divide="ignore", invalid="ignore"):
        times = minutes * MINUTE_MS / spent
        is_even = ~uneven & (spent <= UNEVEN_MOST * mean)
    told = used[-1] & (minutes >= USED_LEAST) & is_even & (times > 1.0 / BUSIEST_MOST) & (times < TIMES_MOST)  # False where NaN
    found: Float64 = np.where(told, times, 1.0)
    return found


def _never_rested(figures: Float64, graph: JobGraph) -> Bool:
    """Return [m - 1, N] whether tasks worked all of each minute of figures [m, N, F] but the first, by what waited for them."""
    names = ("records_in", "records_out", "queued_records_last", "parallelism", "busy_ms", "backpressured_ms", "restarts")
    into, out, waiting, subtasks, busy, held, began = (figures[..., FIGURE[name]] for name in names)
    processed = read_or_emitted(into, out)[1:]
    offered = subtasks[1:] * MINUTE_MS
    enough = (waiting[:-1] >= processed) & (waiting[1:] >= processed)
    if (held[1:] > 0).any():
        enough |= _pressed(held[1:] / offered, busy[1:] / offered, graph)
    worked: Bool = enough & (processed > 0) & ~(held[1:] > HELD_MOST * offered) & ~(began[1:] > 0)
    return worked


def _pressed(held: Float64, busy: Float64, graph: JobGraph) -> Bool:
    """Return [m, N] whether the only task before each, which sends to it alone, was held back, and never waited for records."""
    children = graph.children.known.sum(axis=-1)
    never_waited = (held >= PRESSED_LEAST) & (held + busy >= NEVER_RESTS) & (children == 1)
    parents = graph.parents.known.sum(axis=-1)
    pressed: Bool = never_waited[:, graph.parents.index[:, 0]] & (parents == 1)
    return pressed
