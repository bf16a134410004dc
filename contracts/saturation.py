"""What tasks showed that never rested, and how long that is remembered. Pure.

A busy counter may cover a part of the work, as with calls to something outside. While more waits for a task than it gets through,
it works all of its time, whatever its counter says (the "observed true processing rate" of the Flink operator's autoscaler). Once
it has caught up nothing shows that any more, so it is kept with the job's history.

It holds for a day, and each time that it has to be learned again for twice as long as before: an outage of something outside
looks the same for once. A new submission of the job forgets it, and so does a counter that shows all of the time after all.

Of a task without a busy counter, what a record took it is kept in the same way. It also shows, at once, when a task that was
made smaller falls behind (``policies.trial``). Where a counter falls silent, of all subtasks or of some, what a record took by it
is kept: such a task is none of unknown cost.
"""

import numpy as np
import numpy.typing as npt
from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, Saturation, TaskSpec
from surescale.contracts.source_load import WHOLE_LEAST, read_or_emitted
from surescale.contracts.windows import FIGURE, HOUR_MS, HOURS, Float32

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

LATELY_MINUTES = 10
"""Over which a busy counter is held against what waits."""
SEEN_MINUTES = LATELY_MINUTES + 1
"""With the one before them, at whose end something waited."""
USED_LEAST = 3
"""So many of these minutes, and the newest, must show that the task never rested."""
HELD_MOST = 0.05
"""A task that back pressure holds for more of the minute waits for others."""
PRESSED_LEAST = 0.2
"""Share of the minute that a task must be held back for by the one after it to prove that that one never rests."""
NEVER_RESTS = 0.95
"""Share of its time from which a task counts as working all of it."""
SHOWN_MOST = 0.9
"""From here on a counter covers the work."""
SHOWN_LEAST = 0.05
"""A counter that covers less says nothing at all."""
WAVE_MINUTES = 10
"""Up to so many minutes in a row in which a task without a busy counter gets nothing through, though records wait, are work that
shows with its next commit. More are an outage."""
QUIET_MOST = 0.25
"""Minutes of what a task without a busy counter gets through that may wait for it while it keeps up: commits come in waves."""
GROWN_LEAST = 0.1
"""The same by which it must grow at a smaller size, within a minute or within some, for the task to fall behind."""
STILL_LEAST = 7
"""Minutes within which a task must work off some of what waits beyond what did on more subtasks, or it falls behind, too."""
UNEVEN_MOST = 2.0
"""Times the mean that the busiest subtask may do: beyond, what waits may all be its own, and says nothing of the others."""
HOLDS_MOST_MS = HOURS * HOUR_MS
"""After as long without it, how long it held is forgotten too."""


def remembered(known: tuple[Saturation, ...], figures: Float32, topology: JobTopology, end_ms: int) -> tuple[Saturation, ...]:
    """Return what is remembered of a job's tasks at the end of figures [m, N, F]; ``known`` a minute before.

    ``figures``: counters of all subtasks (``of_all_subtasks``) of the last ``SEEN_MINUTES``, or fewer.
    """
    position = {spec.task: at for at, spec in enumerate(topology.tasks)} if known else {}
    kept = {
        each.task: _corrected(each, figures[1:, position[each.task]])
        for each in known
        if each.task in position and each.epoch == topology.epoch and end_ms < each.at_ms + each.holds_ms + HOLDS_MOST_MS
    }
    for spec, record_ms in zip(topology.tasks, _record_ms(figures, topology.tasks).tolist(), strict=True):
        if record_ms > 0.0:  # False where unknown
            new = Saturation(task=spec.task, record_ms=record_ms, at_ms=end_ms, epoch=topology.epoch)
            kept[spec.task] = _learned(kept.get(spec.task), new)
    for spec, record_ms in zip(topology.tasks, _counted_ms(figures, topology.tasks).tolist(), strict=True):
        if record_ms > 0.0 and (spec.task not in kept or kept[spec.task].shown is None):
            new = Saturation(task=spec.task, record_ms=record_ms, at_ms=end_ms, epoch=topology.epoch)
            kept[spec.task] = _learned(kept.get(spec.task), new)
    if never_rested(figures[-2:], topology.tasks).any():
        for spec, shown in zip(topology.tasks, _shown(figures, topology.tasks).tolist(), strict=True):
            if shown > 0.0:  # False where unknown
                new = Saturation(task=spec.task, shown=shown, at_ms=end_ms, epoch=topology.epoch)
                kept[spec.task] = _learned(kept.get(spec.task), new)
    return tuple(each for _, each in sorted(kept.items()) if each.shown is None or SHOWN_LEAST < each.shown < SHOWN_MOST)


def times_understated(known: tuple[Saturation, ...], tasks: tuple[TaskSpec, ...], end_ms: int) -> Float64:
    """Return [N] how many times the busy time is that a task's counter shows at ``end_ms``; 1 where nothing tells it."""
    times = {each.task: 1.0 / each.shown for each in known if each.shown and end_ms < each.at_ms + each.holds_ms}
    return np.array([times.get(spec.task, 1.0) for spec in tasks])


def service_remembered(known: tuple[Saturation, ...], tasks: tuple[TaskSpec, ...], end_ms: int) -> Float64:
    """Return [N] the subtask-minutes that a record took tasks without a busy counter; NaN where nothing tells it."""
    took = {each.task: each.record_ms / MINUTE_MS for each in known if each.record_ms and end_ms < each.at_ms + each.holds_ms}
    return np.array([took.get(spec.task, np.nan) for spec in tasks])


def evened(processed: Float64, waiting: Float64, busy: Float64, began: Bool) -> Float64:
    """Return the records [m, ..] that tasks got through, as the work was done and not as it was committed.

    Of a task without a busy counter that shows nothing for some minutes although records wait, and then much at once, the much is
    spread over these minutes. Taken for one minute's work, a record would seem to cost a fraction of what it does. While a task
    restarts nothing is worked on: such minutes stay as they are.

    Args:
        processed: by minute, as told.
        waiting: records at the end of each minute.
        busy: time of each minute; NaN: unknown.
        began: bool, an attempt began in the minute.
    """
    stands = (processed == 0.0) & (waiting > 0.0) & np.isnan(busy)
    if not stands.any():
        return processed
    even, run = processed.copy(), np.zeros(processed.shape[1:], dtype=np.int64)
    restarts = np.zeros_like(stands[0])  # the run began with a restart
    for minute, stood in enumerate(stands):
        for length in range(1, min(int(run.max()), WAVE_MINUTES) + 1):
            ends = (run == length) & ~restarts & ~stood & (processed[minute] > 0.0)
            if ends.any():
                even[minute - length : minute + 1, ends] = processed[minute, ends] / (length + 1)
        restarts = np.where(run == 0, began[max(minute - 1, 0) : minute + 1].any(axis=0), restarts)
        run = np.where(stood, run + 1, 0)
    return even


def not_begun(waiting: Float64, subtasks: Float64) -> Float64:
    """Return the records [..] that wait for a subtask to begin with them; 0 for none, NaN where unknown.

    One that a subtask is at work on is not committed, and seems to wait. Where records take long nothing else does.
    """
    return np.maximum(waiting - subtasks, 0.0)


def never_rested(figures: Float32, tasks: tuple[TaskSpec, ...]) -> Bool:
    """Return [m - 1, N] whether tasks worked all of each minute of figures [m, N, F] but the first, by what waited for them.

    Such a minute began and ended with more waiting than the task got through, in it and in the mean of all of them, or the only
    task before it was held back or busy all the time; and the task was not held back itself. A minute within which a job stood
    still begins and ends so as well, but was not worked in whole.
    """
    names = ("records_in", "records_out", "queued_records_last", "parallelism", "busy_ms", "backpressured_ms", "restarts")
    into, out, waiting, subtasks, busy, held, began = (figures[..., FIGURE[name]].astype(np.float64) for name in names)
    even = evened(read_or_emitted(into, out), waiting, busy, began > 0)
    stood = (began > 0) | ((even == 0.0) & (waiting > 0.0))
    ran = np.where(np.isnan(busy), 0.0, busy + figures[..., FIGURE["idle_ms"]] + np.nan_to_num(held))
    processed = even[1:]
    offered, held, waiting = subtasks[1:] * MINUTE_MS, held[1:], not_begun(waiting, subtasks)
    resumes = stood[:-1] & (ran[1:] < WHOLE_LEAST * offered)  # False where idle time is unknown
    known = ~np.isnan(processed)
    mean = np.where(known, processed, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    least = np.fmax(processed, mean)  # where commits come in waves, next to nothing is got through in some minutes
    enough = (waiting[:-1] >= least) & (waiting[1:] >= least)
    if (held > 0).any():
        parents = _only_parents(tasks)
        never_waited = (held >= PRESSED_LEAST * offered) & (held + busy[1:] >= NEVER_RESTS * offered)
        enough |= never_waited[:, parents] & (parents >= 0)
    worked: Bool = enough & (processed > 0) & ~(held > HELD_MOST * offered) & ~(began[1:] > 0) & ~resumes
    return worked


def falls_behind(figures: Float32) -> Bool:
    """Return [N] whether in the newest of minutes [m, N, F] more waits for a task than did before on as few, fewer than lately.

    A minute in which nothing was got through, or that follows one, tells of the restart that made them fewer, not of their size.
    """
    into, out, waiting, subtasks, began = (
        figures[..., FIGURE[name]].astype(np.float64)
        for name in ("records_in", "records_out", "queued_records_last", "parallelism", "restarts")
    )
    if len(figures) < 2:
        return np.zeros(figures.shape[1], dtype=np.bool_)
    each = read_or_emitted(into, out)
    before, processed = each[-2:]
    alike = (each > 0) & ~(began > 0) & (subtasks == subtasks[-1])  # False where unknown
    alike = np.logical_and.accumulate(alike[::-1], axis=0)[::-1]  # up to the newest minute
    least = np.fmin(waiting[-2], np.where(alike, waiting, np.inf)[:-1].min(axis=0))  # a little more each minute is more, too
    count = alike.sum(axis=0)
    first = np.take_along_axis(waiting, np.minimum(len(waiting) - count, len(waiting) - 1)[None], axis=0)[0]
    on_more = (each > 0) & ~(began > 0) & (subtasks > subtasks[-1])
    usual = np.fmax.reduce(np.where(on_more, waiting, -np.inf))  # who commits twice a minute always seems to have some waiting
    is_still = (count >= STILL_LEAST) & (waiting[-1] >= first) & (waiting[-1] - usual > GROWN_LEAST * processed)
    more = (waiting[-1] - least > GROWN_LEAST * processed) | is_still
    grown = (not_begun(waiting[-1], subtasks[-1]) > QUIET_MOST * processed) & more
    runs = (before > 0) & (processed > 0) & ~(began[-1] > 0)  # False where unknown
    found: Bool = grown & (subtasks[-1] < np.fmax.reduce(subtasks[:-1])) & runs
    return found


def _record_ms(figures: Float32, tasks: tuple[TaskSpec, ...]) -> Float64:
    """Return [N] what a record took a subtask of tasks without a busy counter that had no rest in the newest minute; else NaN."""
    found = np.full(len(tasks), np.nan)
    uncounted = np.isnan(figures[..., FIGURE["busy_ms"]]).all(axis=0) & np.array([spec.scalable for spec in tasks])
    if len(figures) < 2 or not uncounted.any():
        return found
    used = never_rested(figures, tasks)
    used[-1] |= falls_behind(figures)
    names = ("records_in", "records_out", "queued_records_last", "busy_ms", "parallelism", "backpressured_ms", "restarts")
    into, out, waiting, busy, subtasks, held, began = (figures[..., FIGURE[name]].astype(np.float64) for name in names)
    processed = evened(read_or_emitted(into, out), waiting, busy, began > 0)[1:]
    worked = (subtasks * MINUTE_MS - np.nan_to_num(held))[1:]
    used &= (processed > 0) & (worked > 0)
    spent, records = (np.where(used, each, 0.0).sum(axis=0) for each in (worked, processed))
    told = used[-1] & uncounted & ~_is_uneven(tasks)
    return np.where(told, spent / np.where(records > 0, records, 1.0), found)


def _counted_ms(figures: Float32, tasks: tuple[TaskSpec, ...]) -> Float64:
    """Return [N] what a record took by the counters of tasks that told busy time lately and do not now; NaN for others."""
    found, busy = np.full(len(tasks), np.nan), figures[..., FIGURE["busy_ms"]].astype(np.float64)
    silent = np.isnan(busy[-1]) & ~np.isnan(busy).all(axis=0) & np.array([spec.scalable for spec in tasks])
    if not silent.any():
        return found
    into, out, began = (figures[..., FIGURE[name]].astype(np.float64) for name in ("records_in", "records_out", "restarts"))
    processed = read_or_emitted(into, out)
    used = ~np.isnan(busy) & (processed > 0) & ~(began > 0)
    spent, records = (np.where(used, each, 0.0).sum(axis=0) for each in (busy, processed))
    return np.where(silent & ~np.isnan(processed[-1]) & (records > 0), spent / np.where(records > 0, records, 1.0), found)


def _is_uneven(tasks: tuple[TaskSpec, ...]) -> Bool:
    """Return [N] whether some subtasks of a task have no work, or one has nearly all of it."""
    return np.array([bool(spec.hindrance) or (spec.useful_max or spec.parallelism) < spec.parallelism for spec in tasks])


def _only_parents(tasks: tuple[TaskSpec, ...]) -> npt.NDArray[np.int64]:
    """Return [N] the index of the only task before each, if that one sends to it alone; else -1."""
    position = {spec.task: at for at, spec in enumerate(tasks)}
    sends = [name for spec in tasks for name in spec.upstream]
    is_only = (len(spec.upstream) == 1 and sends.count(spec.upstream[0]) == 1 for spec in tasks)
    return np.array([position[spec.upstream[0]] if only else -1 for spec, only in zip(tasks, is_only, strict=True)])


def _shown(figures: Float32, tasks: tuple[TaskSpec, ...]) -> Float64:
    """Return [N] the share of its time that the busiest subtask showed, of tasks without rest lately and in the newest minute.

    NaN for others, and where some subtasks have no work or one has nearly all of it: then a backlog says nothing of the others.
    """
    used = never_rested(figures, tasks)
    subtasks, busy, busiest = (
        figures[1:, :, FIGURE[name]].astype(np.float64) for name in ("parallelism", "busy_ms", "busy_ms_max")
    )
    busiest = np.where(np.isnan(busiest), busy / subtasks, busiest)
    spent, mean, minutes = (np.where(used, each, 0.0).sum(axis=0) for each in (busiest, busy / subtasks, used))
    told = used[-1] & (minutes >= USED_LEAST) & ~_is_uneven(tasks) & (spent <= UNEVEN_MOST * mean)  # False where NaN
    return np.where(told, np.minimum(spent / np.maximum(minutes, 1) / MINUTE_MS, 1.0), np.nan)


def _learned(before: Saturation | None, new: Saturation) -> Saturation:
    """Return what a task without rest shows. Where it had ceased to hold, it holds for twice as long."""
    if before is None:
        return new
    has_ceased = before.at_ms + before.holds_ms <= new.at_ms
    return structs.replace(new, holds_ms=min(2 * before.holds_ms, HOLDS_MOST_MS) if has_ceased else before.holds_ms)


def _corrected(known: Saturation, figures: Float32) -> Saturation:
    """Return what is still possible after a task's newest minutes [m, F]: nobody works more than all of the time.

    A mean over these minutes counts: one longer by a second is no proof.
    """
    if known.shown is None:
        return known
    shown = float(figures[:, FIGURE["busy_ms_max"]].mean()) / MINUTE_MS if len(figures) >= LATELY_MINUTES else 0.0
    return structs.replace(known, shown=min(shown, 1.0)) if shown > known.shown else known  # False where unknown
