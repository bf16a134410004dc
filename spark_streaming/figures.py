"""One job's minute: cumulative samples in, one row of figures per task out. Pure; order of samples does not matter.

A task's figure is the sum over its subtasks of what the counters grew by in the minute: last sample of this minute less last
sample of earlier minutes, within the same attempt; a new attempt counts from 0. So partial results merge in any order, a sample
delivered twice changes nothing, and what an ended attempt counted before it ended is not lost.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from contracts.messages import JobTopology
from contracts.windows import FIGURE, FIGURES, Float32
from spark_streaming.columns import COLUMN, SAMPLE_COLUMNS, Int64

Float64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_TASK, _SUBTASK, _ATTEMPT, _AT = (COLUMN[name] for name in ("task", "subtask", "attempt", "sampled_at_ms"))
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
_FIRST_SEEN_CLOCK_MS_MAX = 2 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Baseline:
    """The last sample of every subtask before the open minute: what counters are subtracted from.

    Attributes:
        tasks: names that the column ``task`` of ``samples`` points into.
        samples: int64 [b, len(SAMPLE_COLUMNS)], one row per (task, subtask), all of the task's newest attempt.
    """

    tasks: tuple[str, ...]
    samples: Int64


NO_BASELINE = Baseline((), np.zeros((0, len(SAMPLE_COLUMNS)), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class MinuteFigures:
    """What one minute came to.

    Attributes:
        rows: task -> float32 [len(FIGURES)]; a task that did not report is absent.
        baseline: for the next minute.
        unknown: rows of ``samples`` whose task is not in the topology, in offset order; the column ``task`` as it came in.
        samples: distinct samples of known tasks.
        duplicates: samples whose identity had been there before.
        outdated: samples of an attempt that had ended before this minute began.
    """

    rows: dict[str, Float32]
    baseline: Baseline
    unknown: Int64
    samples: int
    duplicates: int
    outdated: int


def minute_figures(samples: Int64, tasks: tuple[str, ...], topology: JobTopology, baseline: Baseline) -> MinuteFigures:
    """Return the rows of one minute; ``samples`` in order of arrival, its column ``task`` pointing into ``tasks``."""
    names = tuple(spec.task for spec in topology.tasks)
    own, is_known = _renumbered(samples, tasks, names)
    before, was_known = _renumbered(baseline.samples, baseline.tasks, names)
    before = before[was_known]
    distinct = _distinct(own[is_known])
    attempt_before = _highest(before, _ATTEMPT, len(names))
    is_outdated = distinct[:, _ATTEMPT] < attempt_before[distinct[:, _TASK]]
    current = distinct[~is_outdated]
    last = current[_is_last(current, _ATTEMPT_KEY)]
    return MinuteFigures(
        rows=_rows(current, last, before, attempt_before, topology),
        baseline=Baseline(names, _next_baseline(before, last, len(names))),
        unknown=samples[~is_known],
        samples=len(distinct),
        duplicates=int(is_known.sum()) - len(distinct),
        outdated=int(is_outdated.sum()),
    )


def _renumbered(samples: Int64, tasks: tuple[str, ...], names: tuple[str, ...]) -> tuple[Int64, Bools]:
    """Point the column ``task`` into ``names``; say which rows have a task there."""
    position = {name: index for index, name in enumerate(names)}
    translation = np.array([position.get(name, -1) for name in tasks], dtype=np.int64)
    moved = samples.copy()
    if len(moved):
        moved[:, _TASK] = translation[samples[:, _TASK]]
    return moved, moved[:, _TASK] >= 0


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


def _rows(current: Int64, last: Int64, before: Int64, attempt_before: Int64, topology: JobTopology) -> dict[str, Float32]:
    """Sum over subtasks; arrays are [N] and [N, F] in the order of the topology."""
    count = len(topology.tasks)
    grown, is_usable = _growth(last, before)
    last, grown = last[is_usable], grown[is_usable]
    attempt_now = _highest(last, _ATTEMPT, count)
    newest = last[last[:, _ATTEMPT] == attempt_now[last[:, _TASK]]]
    values = np.full((count, len(FIGURES)), np.nan)
    for position, name in enumerate(_COUNTERS):
        values[:, FIGURE[name]] = np.bincount(last[:, _TASK], weights=grown[:, position], minlength=count)
    parallelism = _parallelism(newest, count)
    reporting = np.bincount(newest[:, _TASK], minlength=count)
    values[:, FIGURE["queued_records_mean"]] = _queued_mean(current, count)
    values[:, FIGURE["queued_records_last"]] = _sum(newest, COLUMN["queued_records"], count)
    values[:, FIGURE["parallelism"]] = parallelism
    values[:, FIGURE["state_bytes"]] = _sum(newest, COLUMN["state_bytes"], count)
    values[:, FIGURE["restarts"]] = np.where(attempt_before >= 0, np.maximum(attempt_now - attempt_before, 0), 0)
    values[:, FIGURE["coverage"]] = np.minimum(reporting / np.maximum(parallelism, 1), 1.0)
    rows = values.astype(np.float32)
    return {spec.task: rows[index] for index, spec in enumerate(topology.tasks) if reporting[index]}


def _growth(last: Int64, before: Int64) -> tuple[Float64, Bools]:
    """Return float64 [g, counters], what each (task, subtask, attempt) counted in this minute, and which of them can be known.

    A counter that fell within an attempt was reset and counts from 0. An attempt first seen with more than two minutes on its
    clocks began before anyone watched: what it counted in this minute cannot be known, it only sets the baseline.
    """
    joined = np.concatenate([before, last])
    is_own = np.concatenate([np.zeros(len(before), dtype=np.bool_), np.ones(len(last), dtype=np.bool_)])
    order = np.lexsort((is_own, *(joined[:, column] for column in reversed(_ATTEMPT_KEY))))
    joined, is_own = joined[order], is_own[order]
    has_base = is_own & ~_is_first(joined, _ATTEMPT_KEY)
    base = np.zeros((len(joined), len(_COUNTERS)), dtype=np.int64)
    base[1:] = np.maximum(joined[:-1, _COUNTER_COLUMNS], 0)
    base[~has_base] = 0
    now = joined[:, _COUNTER_COLUMNS]
    grown = np.where(now >= base, now - base, now).astype(np.float64)
    grown[now < 0] = np.nan
    is_usable = has_base | (joined[:, _CLOCKS].sum(axis=1) <= _FIRST_SEEN_CLOCK_MS_MAX)
    return grown[is_own], is_usable[is_own]


def _sum(samples: Int64, column: int, task_count: int) -> Float64:
    total = np.bincount(samples[:, _TASK], weights=samples[:, column].astype(np.float64), minlength=task_count)
    return total.astype(np.float64, copy=False)


def _queued_mean(current: Int64, task_count: int) -> Float64:
    """Mean over the minute's samples of the sum over subtasks.

    The samples of a minute are counted at the subtask that has most of them, because subtasks need not be sampled at the same
    instants.
    """
    starts = np.flatnonzero(_is_first(current, _SUBTASK_KEY))
    lengths = np.diff(np.append(starts, len(current)))
    instants = np.zeros(task_count, dtype=np.int64)
    np.maximum.at(instants, current[starts, _TASK], lengths)
    mean: Float64 = _sum(current, COLUMN["queued_records"], task_count) / np.maximum(instants, 1)
    return mean


def _parallelism(newest: Int64, task_count: int) -> Float64:
    """Take each task's parallelism from its latest sample."""
    column = COLUMN["parallelism"]
    ordered = newest[np.lexsort((newest[:, column], newest[:, _AT], newest[:, _TASK]))]
    latest = ordered[_is_last(ordered, [_TASK])]
    parallelism = np.full(task_count, np.nan)
    parallelism[latest[:, _TASK]] = latest[:, column]
    return parallelism


def _next_baseline(before: Int64, last: Int64, task_count: int) -> Int64:
    """Keep the last sample of every subtask of each task's newest attempt."""
    joined = np.concatenate([before, last])
    newest = joined[joined[:, _ATTEMPT] == _highest(joined, _ATTEMPT, task_count)[joined[:, _TASK]]]
    ordered = newest[np.lexsort((newest[:, _AT], newest[:, _SUBTASK], newest[:, _TASK]))]
    kept: Int64 = ordered[_is_last(ordered, _SUBTASK_KEY)]
    return kept
