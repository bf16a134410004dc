"""Turns minutes of cumulative samples into one row of figures per task. Pure; the order of samples does not matter.

A task's figure is the sum over its subtasks of each counter's growth in the minute: the last sample of this minute minus the
last sample of earlier minutes, within the same attempt; a new attempt counts from 0. So partial results merge in any order, a
sample delivered twice changes nothing, and the counts of an attempt that ended are not lost.

Growth is divided by the time in which it came about, so samples that are not a minute apart still give figures per minute. Growth
over a hole of more than ``HOLE_MS`` is unknown, and so is a figure that is null for one of the subtasks: neither becomes 0.

Minutes of many jobs are computed at once, because a job's arrays are so small that the calls cost more than the work. Tasks are
numbered through all of them, so no sum ever crosses two jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology
from surescale.contracts.window_history import MinuteRows
from surescale.contracts.windows import FIGURE, FIGURES
from surescale.spark_streaming.columns import COLUMN, SAMPLE_COLUMNS, Int64

Float64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_TASK, _SUBTASK, _ATTEMPT, _AT, _AS_OF = (COLUMN[name] for name in ("task", "subtask", "attempt", "sampled_at_ms", "as_of_ms"))
_IDENTITY = [_TASK, _SUBTASK, _ATTEMPT, _AT]
_ATTEMPT_KEY = [_TASK, _SUBTASK, _ATTEMPT]
_SUBTASK_KEY = [_TASK, _SUBTASK]
_CLOCKS = [COLUMN[name] for name in ("busy_ms", "idle_ms", "backpressured_ms")]
_COUNTERS = (
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy_ms",
    "idle_ms",
    "backpressured_ms",
    "queue_wait_record_ms",
    "latency_record_ms",
)
_COUNTER_COLUMNS = [COLUMN[name] for name in _COUNTERS]
_CLOCK_COUNTERS = slice(_COUNTERS.index("busy_ms"), _COUNTERS.index("backpressured_ms") + 1)
_BUSY = _COUNTERS.index("busy_ms")
HOLE_MS = 90_000  # counters that grew for longer do not say how much of it belongs to this minute
_CLOCK_SLACK_MS = 100  # three clocks, each rounded, add up to a little more than the time that passed
CLOCK_FALL_MS_MAX = 1_000  # busy time is computed from other clocks, and falls a little when those are read late
COVERED_MS_MIN = MINUTE_MS // 2  # a figure per minute is not read off a shorter time


@dataclass(frozen=True, slots=True)
class Baseline:
    """The last sample of every subtask before the open minute, which counters are compared with.

    Attributes:
        tasks: names the column ``task`` of ``samples`` indexes.
        samples: int64 [b, len(SAMPLE_COLUMNS)], one row per (task, subtask), all of the task's newest attempt.
    """

    tasks: tuple[str, ...]
    samples: Int64


NO_BASELINE = Baseline((), np.zeros((0, len(SAMPLE_COLUMNS)), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class ClosingMinute:
    """One minute of one job that is to be closed.

    Attributes:
        samples: int64 [n, len(SAMPLE_COLUMNS)] in order of arrival; the column ``task`` indexes ``tasks``.
        tasks: names, also of tasks that are not in the topology.
        topology: of this minute.
        baseline: of the minute before.
    """

    samples: Int64
    tasks: tuple[str, ...]
    topology: JobTopology
    baseline: Baseline

    def __len__(self) -> int:
        """Return how many rows its figures are computed from and into."""
        return len(self.samples) + len(self.baseline.samples) + len(self.topology.tasks)


@dataclass(frozen=True, slots=True)
class MinuteFigures:
    """The result of one minute.

    Attributes:
        rows: of the tasks that reported.
        baseline: for the next minute.
        unknown: rows of ``samples`` whose task is not in the topology, in offset order; the column ``task`` unchanged.
        samples: distinct samples of known tasks.
        duplicates: samples with an identity already seen.
        outdated: samples of an attempt that had ended before this minute began.
    """

    rows: MinuteRows
    baseline: Baseline
    unknown: Int64
    samples: int
    duplicates: int
    outdated: int


def minute_figures(minutes: Sequence[ClosingMinute]) -> list[MinuteFigures]:
    """Return the figures of minutes that do not depend on one another, so at most one of each job."""
    if not minutes:
        return []
    names = [tuple(spec.task for spec in minute.topology.tasks) for minute in minutes]
    ends = np.cumsum([len(own) for own in names])
    firsts, count = ends - [len(own) for own in names], int(ends[-1])
    numbered = [
        _renumbered(minute.samples, minute.tasks, own, first)
        for minute, own, first in zip(minutes, names, firsts.tolist(), strict=True)
    ]
    known = np.concatenate([samples[is_known] for samples, is_known in numbered])
    before = np.concatenate(
        [_known_before(minute.baseline, own, first) for minute, own, first in zip(minutes, names, firsts.tolist(), strict=True)]
    )
    distinct = _distinct(known)
    attempt_before = _highest(before, _ATTEMPT, count)
    is_outdated = distinct[:, _ATTEMPT] < attempt_before[distinct[:, _TASK]]
    current = distinct[~is_outdated]
    last = current[_is_last(current, _ATTEMPT_KEY)]
    after = _next_baseline(before, last, count)
    values, is_reporting = _values(current, last, before, after, attempt_before)
    begins, stops = (np.searchsorted(after[:, _TASK], edges) for edges in (firsts, ends))
    came, taken, outdated = (_per_minute_of(rows, firsts, ends) for rows in (known, distinct, distinct[is_outdated]))
    return [
        MinuteFigures(
            rows=_rows(names[at], values[firsts[at] : ends[at]], is_reporting[firsts[at] : ends[at]]),
            baseline=Baseline(names[at], _numbered_from(after[begins[at] : stops[at]], -firsts[at])),
            unknown=minute.samples[~numbered[at][1]],
            samples=taken[at],
            duplicates=came[at] - taken[at],
            outdated=outdated[at],
        )
        for at, minute in enumerate(minutes)
    ]


def _renumbered(samples: Int64, tasks: tuple[str, ...], names: tuple[str, ...], first: int) -> tuple[Int64, Bools]:
    """Renumber the column ``task`` to index ``names``, counted from ``first``; also return which rows have a task there."""
    position = {name: index for index, name in enumerate(names, first)}
    translation = np.array([position.get(name, -1) for name in tasks], dtype=np.int64)
    moved = samples.copy()
    if len(moved):
        moved[:, _TASK] = translation[samples[:, _TASK]]
    return moved, moved[:, _TASK] >= 0


def _known_before(baseline: Baseline, names: tuple[str, ...], first: int) -> Int64:
    """Return the rows of a baseline whose tasks are still there, renumbered."""
    if baseline.tasks == names:  # almost always
        return _numbered_from(baseline.samples, first)
    moved, is_known = _renumbered(baseline.samples, baseline.tasks, names, first)
    return moved[is_known]


def _numbered_from(samples: Int64, first: int) -> Int64:
    moved = samples.copy()
    moved[:, _TASK] += first
    return moved


def _per_minute_of(samples: Int64, firsts: Int64, ends: Int64) -> list[int]:
    """Return the number of samples of each minute, whose tasks are numbered from ``firsts`` to before ``ends``."""
    until = np.append(0, np.cumsum(np.bincount(samples[:, _TASK], minlength=int(ends[-1]))))
    counts: list[int] = (until[ends] - until[firsts]).tolist()
    return counts


def _rows(names: tuple[str, ...], values: Float64, is_reporting: Bools) -> MinuteRows:
    """Return a minute's rows by task, of its own so that they do not keep those of other jobs in memory."""
    if is_reporting.all():
        return MinuteRows(names, values.astype(np.float32))
    tasks = tuple(name for name, reports in zip(names, is_reporting.tolist(), strict=True) if reports)
    return MinuteRows(tasks, values[is_reporting].astype(np.float32))


def _distinct(samples: Int64) -> Int64:
    """Sort by identity and keep the first arrival of each (``lexsort`` is stable)."""
    ordered = samples[np.lexsort(tuple(samples[:, column] for column in reversed(_IDENTITY)))]
    return ordered[_is_first(ordered, _IDENTITY)]


def _is_first(ordered: Int64, key: list[int]) -> Bools:
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = (ordered[1:, key] != ordered[:-1, key]).any(axis=1)
    return first


def _is_last(ordered: Int64, key: list[int]) -> Bools:
    last = np.ones(len(ordered), dtype=np.bool_)
    last[:-1] = (ordered[1:, key] != ordered[:-1, key]).any(axis=1)
    return last


def _highest(samples: Int64, column: int, task_count: int) -> Int64:
    """Return int64 [N], the highest value per task, -1 where it has no row."""
    highest = np.full(task_count, -1, dtype=np.int64)
    np.maximum.at(highest, samples[:, _TASK], samples[:, column])
    return highest


def _values(current: Int64, last: Int64, before: Int64, after: Int64, attempt_before: Int64) -> tuple[Float64, Bools]:
    """Return the figures, float64 [N, F], summed over subtasks, and bool [N], which tasks reported."""
    count = len(attempt_before)
    covered_ms = _covered_ms(last, before, count)
    grown, is_usable = _growth(last, before, covered_ms)
    is_usable &= covered_ms[last[:, _TASK]] >= COVERED_MS_MIN
    arrived = _arrived(before, after, last, covered_ms)
    last, grown = last[is_usable], grown[is_usable]
    attempt_now = _highest(last, _ATTEMPT, count)
    newest = last[last[:, _ATTEMPT] == attempt_now[last[:, _TASK]]]
    values = np.full((count, len(FIGURES)), np.nan)
    covered_ms = np.where(covered_ms > HOLE_MS, MINUTE_MS, covered_ms)
    per_minute = MINUTE_MS / np.maximum(covered_ms, 1)
    for position, name in enumerate(_COUNTERS):
        total = np.bincount(last[:, _TASK], weights=grown[:, position], minlength=count)
        values[:, FIGURE[name]] = total * per_minute
    parallelism = _parallelism(newest, count)
    reporting = np.bincount(newest[:, _TASK], minlength=count)
    values[:, FIGURE["queued_records_mean"]] = _queued_mean(current, count)
    values[:, FIGURE["queued_records_last"]] = _sum(newest, COLUMN["queued_records"], count)
    values[:, FIGURE["parallelism"]] = parallelism
    values[:, FIGURE["state_bytes"]] = _sum(newest, COLUMN["state_bytes"], count)
    values[:, FIGURE["restarts"]] = _restarts(last, attempt_before)
    values[:, FIGURE["coverage"]] = np.minimum(reporting / np.maximum(parallelism, 1), 1.0)
    values[:, FIGURE["arrived"]] = arrived * per_minute
    values[:, FIGURE["busy_ms_max"]] = _busiest(last, grown[:, _BUSY], count) * per_minute
    values[:, FIGURE["covered_ms"]] = covered_ms
    values[:, FIGURE["in_pool"]] = _known_mean(newest, COLUMN["in_pool_permille"], count) / 1_000.0
    values[:, FIGURE["watermark_lag_ms"]] = _known_highest(newest, COLUMN["watermark_lag_ms"], count)
    return values, reporting > 0


def _true_ms(samples: Int64) -> Int64:
    """Return int64 [n], when each sample's figures were true."""
    taken, true = samples[:, _AT], samples[:, _AS_OF]
    at: Int64 = np.where(true >= 0, np.minimum(true, taken), taken)
    return at


def _covered_ms(last: Int64, before: Int64, task_count: int) -> Int64:
    """Return int64 [N], the time in which each task's counters grew: from the last sample before this minute to its last sample.

    A task without an earlier sample began in this minute; its clocks say if it began a little earlier. More than ``HOLE_MS``
    means that only attempts that began since can be used.
    """
    newest, base = (np.full(task_count, -1, dtype=np.int64) for _ in range(2))
    np.maximum.at(newest, last[:, _TASK], _true_ms(last))
    np.maximum.at(base, before[:, _TASK], _true_ms(before))
    ran = np.full(task_count, MINUTE_MS, dtype=np.int64)
    first = last[base[last[:, _TASK]] < 0]
    if len(first):
        clocks = np.minimum(first[:, _CLOCKS].sum(axis=1), HOLE_MS)
        np.maximum.at(ran, first[:, _TASK], np.where(clocks > MINUTE_MS + _CLOCK_SLACK_MS, clocks, 0))
    covered: Int64 = np.where(base < 0, ran, newest - base)
    return covered


def _growth(last: Int64, before: Int64, covered_ms: Int64) -> tuple[Float64, Bools]:
    """Return float64 [g, counters], each (task, subtask, attempt)'s growth in this minute, and bool [g], whether it is known.

    A counter that fell within an attempt was reset and counts from 0, but a clock that fell by a moment did not grow. Growth over
    a hole is unknown. So is that of an attempt that may have begun before the hole: its clocks show more than ``HOLE_MS``, or it
    has no clocks and nobody saw the task shortly before. Such samples only set the baseline.
    """
    joined = np.concatenate([before, last])
    is_own = np.concatenate([np.zeros(len(before), dtype=np.bool_), np.ones(len(last), dtype=np.bool_)])
    order = np.lexsort((is_own, *(joined[:, column] for column in reversed(_ATTEMPT_KEY))))
    joined, is_own = joined[order], is_own[order]
    has_base = is_own & ~_is_first(joined, _ATTEMPT_KEY)
    base = np.zeros((len(joined), len(_COUNTERS)), dtype=np.int64)
    base[1:] = joined[:-1, _COUNTER_COLUMNS]
    base[~has_base] = 0
    now = joined[:, _COUNTER_COLUMNS]
    grown = np.where(now >= base, now - base, now).astype(np.float64)
    clocks, clocks_before = now[:, _CLOCK_COUNTERS], base[:, _CLOCK_COUNTERS]
    is_late = (clocks >= 0) & (clocks < clocks_before) & (clocks_before - clocks <= CLOCK_FALL_MS_MAX)
    grown[:, _CLOCK_COUNTERS][is_late] = 0.0
    is_absent = (now < 0) | (base < 0)
    if is_absent.any():
        grown[is_absent] = np.nan
    at = _true_ms(joined)
    began_lately = np.where((clocks < 0).any(axis=1), _was_seen_lately(joined, before, covered_ms), clocks.sum(axis=1) <= HOLE_MS)
    is_usable = np.where(has_base, np.diff(at, prepend=0) <= HOLE_MS, began_lately)
    return grown[is_own], is_usable[is_own]


def _was_seen_lately(samples: Int64, before: Int64, covered_ms: Int64) -> Bools:
    """Return bool [n], whether each sample's task was seen within ``HOLE_MS``, so that an attempt not seen then is younger."""
    seen = np.zeros(len(covered_ms), dtype=np.bool_)
    seen[before[:, _TASK]] = True
    lately: Bools = (seen & (covered_ms <= HOLE_MS))[samples[:, _TASK]]
    return lately


def _restarts(last: Int64, attempt_before: Int64) -> Int64:
    """Return int64 [N], how many attempts began; numbers may leap, so they are counted and not subtracted."""
    known_before = attempt_before[last[:, _TASK]]
    began = last[(known_before >= 0) & (last[:, _ATTEMPT] > known_before)]
    attempts = np.unique(began[:, [_TASK, _ATTEMPT]], axis=0)
    return np.bincount(attempts[:, 0], minlength=len(attempt_before))


def _arrived(before: Int64, after: Int64, last: Int64, covered_ms: Int64) -> Float64:
    """Return float64 [N], the growth of ``arrived_records``, NaN where unknown.

    It counts on across attempts, because records arrive while a job is down. So it is compared as a whole, over all subtasks that
    the task has now and had before; it is unknown while one of them is missing, after a hole, and if it fell.
    """
    column, task_count = COLUMN["arrived_records"], len(covered_ms)
    grown = np.full(task_count, np.nan)
    now, earlier = (_whole(samples, column, task_count) for samples in (after, before))
    is_fresh = np.bincount(last[:, _TASK], minlength=task_count) > 0
    is_known = is_fresh & (now >= earlier) & (covered_ms <= HOLE_MS)  # False where NaN
    grown[is_known] = (now - earlier)[is_known]
    return grown


def _whole(samples: Int64, column: int, task_count: int) -> Float64:
    """Return the sum [N] over subtasks, NaN where one is missing or does not know the figure."""
    counted = np.bincount(samples[:, _TASK], minlength=task_count)
    total = _sum(samples, column, task_count)
    total[(counted == 0) | (counted < np.nan_to_num(_parallelism(samples, task_count)))] = np.nan
    return total


def _busiest(last: Int64, busy_ms: Float64, task_count: int) -> Float64:
    """Return float64 [N], the largest growth of ``busy_ms`` of one subtask, over all its attempts; NaN where unknown."""
    busiest = np.full(task_count, -np.inf)
    if len(last):
        starts = np.flatnonzero(_is_first(last, _SUBTASK_KEY))
        with np.errstate(invalid="ignore"):  # NaN wins
            np.maximum.at(busiest, last[starts, _TASK], np.add.reduceat(busy_ms, starts))
    return np.where(np.isinf(busiest), np.nan, busiest)


def _known_mean(samples: Int64, column: int, task_count: int) -> Float64:
    """Return the mean [N] over the subtasks that know the figure, NaN where none does."""
    known = samples[samples[:, column] >= 0]
    if not len(known):
        return np.full(task_count, np.nan)
    counted = np.bincount(known[:, _TASK], minlength=task_count)
    total = np.bincount(known[:, _TASK], weights=known[:, column].astype(np.float64), minlength=task_count)
    return np.where(counted > 0, total / np.maximum(counted, 1), np.nan)


def _known_highest(samples: Int64, column: int, task_count: int) -> Float64:
    """Return the highest value [N] over the subtasks that know the figure, NaN where none does."""
    highest = _highest(samples[samples[:, column] >= 0], column, task_count)
    return np.where(highest < 0, np.nan, highest)


def _sum(samples: Int64, column: int, task_count: int) -> Float64:
    """Return the sum [N] over samples, NaN where one of them does not know the figure."""
    values = samples[:, column].astype(np.float64)
    values[values < 0] = np.nan
    total = np.bincount(samples[:, _TASK], weights=values, minlength=task_count)
    return total.astype(np.float64, copy=False)


def _queued_mean(current: Int64, task_count: int) -> Float64:
    """Return the mean over the minute's samples of the sum over subtasks.

    The number of samples is that of the subtask with the most, because subtasks may be sampled at different instants.
    """
    starts = np.flatnonzero(_is_first(current, _SUBTASK_KEY))
    lengths = np.diff(np.append(starts, len(current)))
    instants = np.zeros(task_count, dtype=np.int64)
    np.maximum.at(instants, current[starts, _TASK], lengths)
    mean: Float64 = _sum(current, COLUMN["queued_records"], task_count) / np.maximum(instants, 1)
    return mean


def _parallelism(newest: Int64, task_count: int) -> Float64:
    """Return each task's parallelism from its latest sample."""
    column = COLUMN["parallelism"]
    ordered = newest[np.lexsort((newest[:, column], newest[:, _AT], newest[:, _TASK]))]
    latest = ordered[_is_last(ordered, [_TASK])]
    parallelism = np.full(task_count, np.nan)
    parallelism[latest[:, _TASK]] = latest[:, column]
    return parallelism


def _next_baseline(before: Int64, last: Int64, task_count: int) -> Int64:
    """Return the last sample of every subtask in each task's newest attempt."""
    joined = np.concatenate([before, last])
    newest = joined[joined[:, _ATTEMPT] == _highest(joined, _ATTEMPT, task_count)[joined[:, _TASK]]]
    ordered = newest[np.lexsort((newest[:, _AT], newest[:, _SUBTASK], newest[:, _TASK]))]
    kept: Int64 = ordered[_is_last(ordered, _SUBTASK_KEY)]
    return kept
