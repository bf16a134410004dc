"""What the merge step remembers, as named arrays and back. Pure; how the arrays lie on disk is ``state_store``.

All jobs share each array, so the number of arrays does not grow with the number of jobs: a job's rows carry its index. Names
and topologies travel in a JSON header. No pickle: a state file can carry nothing but numbers and text.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.errors import SurescaleError
from contracts.messages import JobTopology
from contracts.windows import FIGURES, Float32, WindowHistory
from spark_streaming.columns import SAMPLE_COLUMNS, Int64
from spark_streaming.figures import Baseline
from spark_streaming.minutes import JobMinutes, MinuteRules, Minutes, OpenMinute

STATE_VERSION = 1
Arrays = dict[str, npt.NDArray[np.generic]]


class StateRefused(SurescaleError):
    """Saved state cannot be used; the message names the file and the way out. The job stops, it never starts empty."""


class _OpenHeader(msgspec.Struct, frozen=True):
    minute_end_ms: int
    tasks: tuple[str, ...]
    samples: int


class _JobHeader(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    topology: JobTopology | None
    closed_ms: int
    highest_ms: int
    late: int
    row_tasks: tuple[str, ...]
    baseline_tasks: tuple[str, ...]
    open: tuple[_OpenHeader, ...]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    rules: MinuteRules
    figures: tuple[str, ...]
    sample_columns: tuple[str, ...]
    jobs: tuple[_JobHeader, ...]


def to_arrays(minutes: Minutes) -> Arrays:
    """Return the state; the same state gives the same arrays.

    Arrays: ``header`` uint8 (JSON); ``rows`` float32 [r, F] with ``row_keys`` int64 [r, 3] (job, minute end, task);
    ``hours`` float64 [h] with ``hour_keys`` int64 [h, 3] (job, hour start, known minutes); ``baseline`` and ``open`` int64
    [b, C] with ``baseline_jobs`` int64 [b]; ``open`` has its lengths in the header.
    """
    jobs = [minutes.jobs[name] for name in sorted(minutes.jobs)]
    header = _Header(
        version=STATE_VERSION,
        rules=minutes.rules,
        figures=FIGURES,
        sample_columns=SAMPLE_COLUMNS,
        jobs=tuple(_job_header(job) for job in jobs),
    )
    row_keys, rows = _closed_rows(jobs)
    hours = [(index, hour, *job.history.hours[hour]) for index, job in enumerate(jobs) for hour in sorted(job.history.hours)]
    opened = [job.open[end_ms].samples() for job in jobs for end_ms in sorted(job.open)]
    return {
        "header": np.frombuffer(msgspec.json.encode(header), dtype=np.uint8),
        "row_keys": row_keys,
        "rows": rows,
        "hour_keys": np.array([(index, hour, known) for index, hour, _, known in hours], dtype=np.int64).reshape(-1, 3),
        "hours": np.array([records for _, _, records, _ in hours], dtype=np.float64),
        "baseline": _stacked([job.baseline.samples for job in jobs]),
        "baseline_jobs": np.repeat(np.arange(len(jobs)), [len(job.baseline.samples) for job in jobs]).astype(np.int64),
        "open": _stacked(opened),
    }


def from_arrays(arrays: Mapping[str, npt.NDArray[np.generic]], rules: MinuteRules) -> Minutes:
    """Build the state anew.

    Raises:
        StateRefused: written by another version or under other rules.
        KeyError, ValueError, msgspec.DecodeError: not such a state at all.
    """
    header = msgspec.json.decode(arrays["header"].tobytes(), type=_Header)
    if (header.version, header.figures, header.sample_columns) != (STATE_VERSION, FIGURES, SAMPLE_COLUMNS):
        raise StateRefused(f"it was written by another version (state version {header.version}, this is {STATE_VERSION})")
    if header.rules != rules:
        raise StateRefused(f"it was written under other settings ({header.rules}, now {rules})")
    minutes = Minutes(rules)
    first_open = 0
    for index, each in enumerate(header.jobs):
        lengths = [opened.samples for opened in each.open]
        chunks = np.split(arrays["open"][first_open : first_open + sum(lengths)], np.cumsum(lengths)[:-1]) if lengths else []
        first_open += sum(lengths)
        minutes.jobs[each.job] = JobMinutes(
            job=each.job,
            rules=rules,
            history=WindowHistory(
                each.job, rules.window_minutes, _rows_of(arrays, index, each.row_tasks), _hours_of(arrays, index)
            ),
            closed_ms=each.closed_ms,
            highest_ms=each.highest_ms,
            late=each.late,
            topology=each.topology,
            baseline=Baseline(each.baseline_tasks, _int64(arrays["baseline"][arrays["baseline_jobs"] == index])),
            open={opened.minute_end_ms: _opened(opened, chunk) for opened, chunk in zip(each.open, chunks, strict=True)},
        )
    return minutes


def _job_header(job: JobMinutes) -> _JobHeader:
    opened = sorted(job.open.items())
    return _JobHeader(
        job=job.job,
        topology=job.topology,
        closed_ms=job.closed_ms,
        highest_ms=job.highest_ms,
        late=job.late,
        row_tasks=_row_tasks(job),
        baseline_tasks=job.baseline.tasks,
        open=tuple(_OpenHeader(end_ms, tuple(minute.tasks), len(minute.samples())) for end_ms, minute in opened),
    )


def _row_tasks(job: JobMinutes) -> tuple[str, ...]:
    return tuple(sorted({task for rows in job.history.rows.values() for task in rows}))


def _closed_rows(jobs: Sequence[JobMinutes]) -> tuple[Int64, Float32]:
    keys: list[tuple[int, int, int]] = []
    rows: list[Float32] = []
    for index, job in enumerate(jobs):
        number = {task: position for position, task in enumerate(_row_tasks(job))}
        for end_ms in sorted(job.history.rows):
            for task, row in sorted(job.history.rows[end_ms].items()):
                keys.append((index, end_ms, number[task]))
                rows.append(row)
    stacked = np.array(rows, dtype=np.float32).reshape(-1, len(FIGURES))
    return np.array(keys, dtype=np.int64).reshape(-1, 3), stacked


def _rows_of(arrays: Mapping[str, npt.NDArray[np.generic]], index: int, tasks: tuple[str, ...]) -> dict[int, dict[str, Float32]]:
    keys, rows = arrays["row_keys"], arrays["rows"].astype(np.float32)
    found: dict[int, dict[str, Float32]] = {}
    for position in np.flatnonzero(keys[:, 0] == index).tolist():
        end_ms, task = int(keys[position, 1]), tasks[int(keys[position, 2])]
        found.setdefault(end_ms, {})[task] = rows[position]
    return found


def _hours_of(arrays: Mapping[str, npt.NDArray[np.generic]], index: int) -> dict[int, tuple[float, int]]:
    keys, records = arrays["hour_keys"], arrays["hours"]
    own = np.flatnonzero(keys[:, 0] == index).tolist()
    return {int(keys[position, 1]): (float(records[position]), int(keys[position, 2])) for position in own}


def _opened(header: _OpenHeader, samples: npt.NDArray[np.generic]) -> OpenMinute:
    return OpenMinute({task: number for number, task in enumerate(header.tasks)}, [_int64(samples)])


def _stacked(parts: Sequence[Int64]) -> Int64:
    return np.concatenate(parts) if parts else np.zeros((0, len(SAMPLE_COLUMNS)), dtype=np.int64)


def _int64(values: npt.NDArray[np.generic]) -> Int64:
    return values.astype(np.int64)
