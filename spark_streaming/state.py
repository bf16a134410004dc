"""Converts the merge step's memory to named arrays and back. Pure; ``state_files`` puts the arrays on disk.

Rows of closed minutes never change, so each state holds only the rows closed since the previous state; everything else is whole.
All jobs share each array and a job's rows carry its index, so the number of arrays does not grow with the number of jobs. Names
and topologies are in a JSON header. No pickle: a state file can hold only numbers and text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.block_load import BLOCKS, BlockLoads
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import JobTopology, Saturation
from surescale.contracts.waits import HourlyWaits
from surescale.contracts.window_history import MinuteRows, WindowHistory
from surescale.contracts.windows import FIGURES, Float32
from surescale.contracts.wire import decoder
from surescale.spark_streaming.columns import SAMPLE_COLUMNS, Int64
from surescale.spark_streaming.figures import Baseline
from surescale.spark_streaming.minutes import JobMinutes, MinuteRules, Minutes, OpenMinute

STATE_VERSION = 2
Arrays = dict[str, npt.NDArray[np.generic]]


class StateRefused(SurescaleError):
    """Saved state cannot be used; the message names the file and the fix. The job stops; it never starts empty."""


class _OpenHeader(msgspec.Struct, frozen=True):
    minute_end_ms: int
    tasks: tuple[str, ...]
    samples: int


class _JobHeader(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    topology: msgspec.Raw
    closed_ms: int
    highest_ms: int
    late: int
    seen_ms: int
    partition: int
    left_ms: int
    baseline_tasks: tuple[str, ...]
    open: tuple[_OpenHeader, ...]
    saturations: tuple[Saturation, ...] = ()


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    figures: tuple[str, ...]
    sample_columns: tuple[str, ...]
    jobs: tuple[_JobHeader, ...]
    left: dict[str, int]


class _Versioned(msgspec.Struct, frozen=True):
    version: int


class _RowsHeader(msgspec.Struct, frozen=True):
    version: int
    figures: tuple[str, ...]
    jobs: tuple[str, ...]
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of closed minutes, as they were saved together; never changed.

    Attributes:
        blocks: job, minute's end, and the minute's rows, in order.
        ends: the newest end of each job's.
    """

    blocks: tuple[tuple[str, int, MinuteRows], ...]
    ends: Mapping[str, int]


def to_arrays(minutes: Minutes) -> Arrays:
    """Return the state without the rows of closed minutes; the same state gives the same arrays.

    Arrays: ``header`` uint8 (JSON); ``hours`` float64 [h] with ``hour_keys`` int64 [h, 3] (job, hour start, known minutes);
    ``hour_peaks`` float64 [h], NaN where unknown; ``waits`` int64 [w, 4] (job, hour start, seconds waited, minutes);
    ``blocks`` uint16 [J, 2304] and ``newest_blocks`` int64 [J], as ``contracts.block_load`` has them;
    ``baseline`` and ``open`` int64 [b, C] with ``baseline_jobs`` int64 [b]; ``open`` has its lengths in the header.
    """
    jobs = [minutes.jobs[name] for name in sorted(minutes.jobs)]
    header = _Head(
        version=STATE_VERSION,
        figures=FIGURES,
        sample_columns=SAMPLE_COLUMNS,
        jobs=tuple(_job_header(job) for job in jobs),
        left=dict(sorted(minutes.left.items())),
    )
    hours = [(index, hour, *known) for index, job in enumerate(jobs) for hour, known in sorted(job.history.hours.items())]
    opened = [job.open[end_ms].samples() for job in jobs for end_ms in sorted(job.open)]
    return {
        "header": _text(header),
        "hour_keys": np.array([(index, hour, known) for index, hour, _, known in hours], dtype=np.int64).reshape(-1, 3),
        "hours": np.array([records for _, _, records, _ in hours], dtype=np.float64),
        "hour_peaks": np.array([jobs[index].history.peaks.get(hour, np.nan) for index, hour, _, _ in hours], dtype=np.float64),
        "waits": _waits_of(jobs),
        "blocks": np.array([job.history.blocks.codes for job in jobs], dtype=np.uint16).reshape(-1, BLOCKS),
        "newest_blocks": np.array([job.history.blocks.newest for job in jobs], dtype=np.int64),
        "baseline": _stacked([job.baseline.samples for job in jobs]),
        "baseline_jobs": np.repeat(np.arange(len(jobs)), [len(job.baseline.samples) for job in jobs]).astype(np.int64),
        "open": _stacked(opened),
    }


def rows_to_arrays(minutes: Minutes, after_ms: Mapping[str, int]) -> Arrays:
    """Return the rows of minutes that closed after each job's given instant (absent: all its rows).

    Arrays: ``header`` uint8 (JSON); ``rows`` float32 [r, F] with ``row_keys`` int64 [r, 3] (job, minute end, task).
    """
    keys: list[Int64] = [np.zeros((0, 3), dtype=np.int64)]
    rows: list[Float32] = [np.zeros((0, len(FIGURES)), dtype=np.float32)]
    jobs: list[str] = []
    tasks: dict[str, int] = {}
    for name in sorted(minutes.jobs):
        history = minutes.jobs[name].history
        ends = [end_ms for end_ms in sorted(history.rows) if end_ms > after_ms.get(name, -1) and history.rows[end_ms]]
        jobs += [name] if ends else []
        for end_ms in ends:
            own = history.rows[end_ms]
            block = np.array([(len(jobs) - 1, end_ms, 0)], dtype=np.int64).repeat(len(own), axis=0)
            block[:, 2] = [tasks.setdefault(task, len(tasks)) for task in own.tasks]
            keys.append(block)
            rows.append(own.figures)
    header = _RowsHeader(STATE_VERSION, FIGURES, tuple(jobs), tuple(tasks))
    return {"header": _text(header), "row_keys": np.concatenate(keys), "rows": np.concatenate(rows)}


def from_arrays(arrays: Mapping[str, npt.NDArray[np.generic]], parts: Iterable[Rows], rules: MinuteRules) -> Minutes:
    """Rebuild the state from its arrays and its rows.

    Raises:
        StateRefused: written by another version.
        KeyError, ValueError, msgspec.DecodeError: not such a state at all.
    """
    header = _head_of(arrays)
    minutes = Minutes(rules)
    minutes.left = dict(header.left)
    count, first_open = len(header.jobs), 0
    baselines = _by_job(arrays["baseline_jobs"], count)
    hours = _by_job(arrays["hour_keys"][:, 0], count)
    every_wait = _int64(arrays.get("waits", np.zeros((0, 4))))  # none in states from before waits were kept
    waits = _by_job(every_wait[:, 0], count)
    for at, (each, baseline, known, waited) in enumerate(zip(header.jobs, baselines, hours, waits, strict=True)):
        lengths = [opened.samples for opened in each.open]
        chunks = np.split(arrays["open"][first_open : first_open + sum(lengths)], np.cumsum(lengths)[:-1]) if lengths else []
        first_open += sum(lengths)
        minutes.jobs[each.job] = JobMinutes(
            job=each.job,
            rules=rules,
            history=WindowHistory(
                each.job,
                rules.window_minutes,
                {},
                *_hours_of(arrays, known),
                each.saturations,
                _hourly_waits(every_wait[waited]),
                _block_loads(arrays, at),
            ),
            closed_ms=each.closed_ms,
            highest_ms=each.highest_ms,
            late=each.late,
            topology=_topology_of(bytes(each.topology)),
            baseline=Baseline(each.baseline_tasks, _int64(arrays["baseline"][baseline])),
            open={opened.minute_end_ms: _opened(opened, chunk) for opened, chunk in zip(each.open, chunks, strict=True)},
            seen_ms=each.seen_ms,
            partition=each.partition,
            left_ms=each.left_ms,
        )
    for part in parts:
        for name, end_ms, rows in part.blocks:  # some have left the window since, and some jobs are forgotten
            job = minutes.jobs.get(name)
            if job is not None and end_ms > job.oldest_kept_ms():
                job.history.rows[end_ms] = rows
    return minutes


def rows_of(arrays: Mapping[str, npt.NDArray[np.generic]]) -> Rows:
    """Return saved rows.

    Raises:
        KeyError, ValueError, msgspec.DecodeError: not such rows at all.
    """
    header = decoder(_RowsHeader).decode(arrays["header"].tobytes())
    if (header.version, header.figures) != (STATE_VERSION, FIGURES):
        raise ValueError("its rows were written by another version")
    keys, rows = _int64(arrays["row_keys"]), arrays["rows"].astype(np.float32)
    if len(keys) != len(rows):
        raise ValueError(f"{len(keys)} keys of {len(rows)} rows")
    names: dict[bytes, tuple[str, ...]] = {}  # most minutes have the tasks of the one before
    blocks: list[tuple[str, int, MinuteRows]] = []
    cuts = np.flatnonzero((np.diff(keys[:, :2], axis=0) != 0).any(axis=1)) + 1
    for own, figures in zip(np.split(keys, cuts), np.split(rows, cuts), strict=True):
        if not len(own):
            continue
        codes = own[:, 2].tobytes()
        if codes not in names:
            names[codes] = tuple(header.tasks[task] for task in own[:, 2].tolist())
        blocks.append((header.jobs[int(own[0, 0])], int(own[0, 1]), MinuteRows(names[codes], figures)))
    return Rows(tuple(blocks), {name: end_ms for name, end_ms, _ in blocks})


def _head_of(arrays: Mapping[str, npt.NDArray[np.generic]]) -> _Head:
    raw = arrays["header"].tobytes()
    version = decoder(_Versioned).decode(raw).version
    if version == STATE_VERSION:
        head = decoder(_Head).decode(raw)
        if (head.figures, head.sample_columns) == (FIGURES, SAMPLE_COLUMNS):
            return head
    raise StateRefused(f"it was written by another version (state version {version}, this is {STATE_VERSION})")


def _job_header(job: JobMinutes) -> _JobHeader:
    opened = sorted(job.open.items())
    return _JobHeader(
        job=job.job,
        topology=msgspec.Raw(msgspec.json.encode(job.topology)),
        closed_ms=job.closed_ms,
        highest_ms=job.highest_ms,
        late=job.late,
        seen_ms=job.seen_ms,
        partition=job.partition,
        left_ms=job.left_ms,
        baseline_tasks=job.baseline.tasks,
        open=tuple(_OpenHeader(end_ms, tuple(minute.tasks), len(minute.samples())) for end_ms, minute in opened),
        saturations=job.history.saturations,
    )


@lru_cache(maxsize=2048)
def _topology_of(raw: bytes) -> JobTopology | None:
    """Decode a topology once: jobs keep theirs from batch to batch, and decoding them was half of a load."""
    return msgspec.json.decode(raw, type=JobTopology | None)


def _by_job(jobs: npt.NDArray[np.generic], count: int) -> list[slice]:
    """Return each job's rows, of arrays that are sorted by job."""
    edges = np.searchsorted(_int64(jobs), np.arange(count + 1)).tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _hours_of(arrays: Mapping[str, npt.NDArray[np.generic]], own: slice) -> tuple[dict[int, tuple[float, int]], dict[int, float]]:
    """Return a job's hourly load and its peaks."""
    keys, records, peaks = arrays["hour_keys"][own].tolist(), arrays["hours"][own].tolist(), arrays["hour_peaks"][own].tolist()
    hours = {hour: (total, minutes) for (_, hour, minutes), total in zip(keys, records, strict=True)}
    return hours, {hour: peak for (_, hour, _), peak in zip(keys, peaks, strict=True) if not math.isnan(peak)}


def _block_loads(arrays: Mapping[str, npt.NDArray[np.generic]], job: int) -> BlockLoads:
    """Return a job's blocks; none in states from before they were kept."""
    if "blocks" not in arrays:
        return BlockLoads()
    codes = arrays["blocks"][job].astype(np.uint16)
    if codes.shape != (BLOCKS,):
        raise ValueError(f"the load by blocks has the shape {codes.shape}")
    return BlockLoads(codes, int(_int64(arrays["newest_blocks"])[job]))


def _waits_of(jobs: Sequence[JobMinutes]) -> Int64:
    rows = [
        (index, hour, wait_s, minutes)
        for index, job in enumerate(jobs)
        for hour, own in sorted(job.history.waits.hours.items())
        for wait_s, minutes in sorted(own.items())
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _hourly_waits(rows: Int64) -> HourlyWaits:
    """Return what is kept of a job's waits [w, 4]."""
    hours: dict[int, dict[int, int]] = {}
    for _, hour, wait_s, minutes in rows.tolist():
        hours.setdefault(hour, {})[wait_s] = minutes
    return HourlyWaits(hours)


def _text(header: msgspec.Struct) -> npt.NDArray[np.generic]:
    return np.frombuffer(msgspec.json.encode(header), dtype=np.uint8)


def _opened(header: _OpenHeader, samples: npt.NDArray[np.generic]) -> OpenMinute:
    return OpenMinute({task: number for number, task in enumerate(header.tasks)}, [_int64(samples)])


def _stacked(parts: Sequence[Int64]) -> Int64:
    return np.concatenate(parts) if parts else np.zeros((0, len(SAMPLE_COLUMNS)), dtype=np.int64)


def _int64(values: npt.NDArray[np.generic]) -> Int64:
    return values.astype(np.int64)
