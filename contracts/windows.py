"""Windows: the last L minutes of one job, their binary form, and the history they are cut from. Knows no Kafka and no clock.

A window is what the topic ``snapshots`` carries. Bytes: magic ``SSW``, layout version (1 byte), header length (4 bytes, big
endian), header (JSON), then the figures as float32 with their bytes shuffled (all first bytes, all second bytes, ...) under zstd.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard

from contracts.clock import MINUTE_MS
from contracts.errors import RecordRejected
from contracts.ids import window_id
from contracts.messages import Count, HourlyLoad, JobTopology, Text, TimeMs
from contracts.topics import WINDOW_BYTES_MAX

LAYOUT = 1
HOURS = 192  # eight days
HOUR_MS = 60 * MINUTE_MS
PEAK_MINUTES = 5  # an hour's peak is the largest mean of so many minutes in a row that ends in it

FIGURES = (
    "records_in",  # in this minute, all subtasks
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy_ms",
    "idle_ms",
    "backpressured_ms",
    "queued_records_mean",  # mean over the minute's samples of the sum over subtasks
    "queued_records_last",
    "parallelism",  # at the end of the minute
    "state_bytes",
    "queue_wait_record_ms",  # NaN where the engine has no such figure
    "latency_record_ms",
    "restarts",  # attempts that began in this minute
    "coverage",  # share of the task's subtasks that reported at the end of the minute
)
FIGURE = {name: index for index, name in enumerate(FIGURES)}

Float32 = npt.NDArray[np.float32]

_MAGIC = b"SSW"
_PREFIX = struct.Struct(">3sBI")


class WindowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for the job in the minute that the window ends with."""

    samples: Count = 0
    late: Count = 0
    duplicates: Count = 0


NO_COUNTS = WindowCounts()


class _Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    job: Text
    window_end_ms: TimeMs
    window_minutes: Count
    figures: tuple[str, ...]
    topology: JobTopology
    counts: WindowCounts
    hourly_load: tuple[float | None, ...]
    closed_append_ms: TimeMs | None
    reached_wall_ms: TimeMs | None
    hourly_peak: tuple[float | None, ...] = ()  # left out while no peak is known, as in windows made before there were any


def unknown_hours() -> Float32:
    """Return float32 [192] of NaN."""
    return np.full(HOURS, np.nan, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Window:
    """The last ``window_minutes`` snapshots of one job.

    Attributes:
        figures: float32 [L, N, F]; axis 0 from the oldest minute to the newest, axis 1 in the order of ``topology.tasks``,
            axis 2 as ``FIGURES``. A task-minute that was not reported is NaN throughout.
        hourly_load: float32 [192], mean records per minute that entered the job, oldest hour first; the last entry is the hour
            (possibly unfinished) that the window ends in. NaN where unknown.
        hourly_peak: float32 [192], of each of these hours the largest mean of five minutes in a row that ends in it, records per
            minute. NaN where unknown: an engine's history may lack it.
        closed_append_ms: broker's append time of the record that closed the newest minute.
    """

    job: str
    window_end_ms: int
    figures: Float32
    topology: JobTopology
    hourly_load: Float32
    counts: WindowCounts = NO_COUNTS
    closed_append_ms: int | None = None
    reached_wall_ms: int | None = None
    hourly_peak: Float32 = field(default_factory=unknown_hours)

    @property
    def window_minutes(self) -> int:
        """Return L."""
        return int(self.figures.shape[0])

    @property
    def id(self) -> str:
        """Return the window's identity."""
        return window_id(self.job, self.window_end_ms, self.window_minutes, LAYOUT)

    @property
    def reported(self) -> npt.NDArray[np.bool_]:
        """Return bool [L, N]: which task-minutes were reported."""
        return ~np.isnan(self.figures[:, :, FIGURE["coverage"]])

    @property
    def completeness(self) -> float:
        """Return the share of the window's task-minutes that were reported."""
        reported = self.reported
        return float(reported.mean()) if reported.size else 0.0

    @property
    def minutes_known(self) -> int:
        """Return in how many minutes at least one task was reported."""
        return int(self.reported.any(axis=1).sum())

    def figure(self, name: str) -> Float32:
        """Return one figure, float32 [L, N]."""
        view: Float32 = self.figures[:, :, FIGURE[name]]
        return view


def encode_window(window: Window) -> bytes:
    """Return the window's bytes; the same window gives the same bytes.

    Raises:
        RecordRejected: ``too_large``, when it would pass the topic's limit of 16 MiB.
    """
    header = _Header(
        job=window.job,
        window_end_ms=window.window_end_ms,
        window_minutes=window.window_minutes,
        figures=FIGURES,
        topology=window.topology,
        counts=window.counts,
        hourly_load=_with_none(window.hourly_load),
        closed_append_ms=window.closed_append_ms,
        reached_wall_ms=window.reached_wall_ms,
        hourly_peak=() if np.isnan(window.hourly_peak).all() else _with_none(window.hourly_peak),
    )
    head = msgspec.json.encode(header, order="deterministic")
    values = np.ascontiguousarray(window.figures, dtype="<f4")
    shuffled = values.view(np.uint8).reshape(-1, 4).T.tobytes()
    raw = _PREFIX.pack(_MAGIC, LAYOUT, len(head)) + head + zstandard.ZstdCompressor(level=1).compress(shuffled)
    if len(raw) > WINDOW_BYTES_MAX:
        raise RecordRejected("too_large", "figures", f"window {window.id} has {len(raw)} bytes, {WINDOW_BYTES_MAX} allowed")
    return raw


def decode_window(raw: bytes | None) -> Window:
    """Parse a window.

    Raises:
        RecordRejected: ``unknown_layout`` for another magic or version, ``invalid_field`` for anything else that does not fit.
    """
    if raw is None or len(raw) < _PREFIX.size or not raw.startswith(_MAGIC):
        raise RecordRejected("unknown_layout", "", "not a window: the magic bytes are missing")
    _, layout, head_bytes = _PREFIX.unpack_from(raw)
    if layout != LAYOUT:
        raise RecordRejected("unknown_layout", "layout", f"window layout {layout}; this version reads layout {LAYOUT}")
    body_at = _PREFIX.size + head_bytes
    try:
        header = msgspec.json.decode(raw[_PREFIX.size : body_at], type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordRejected("invalid_field", "header", str(error)) from None
    if header.window_minutes < 1:
        raise RecordRejected("invalid_field", "window_minutes", "a window of no minute")
    if header.figures != FIGURES:
        raise RecordRejected("unknown_layout", "figures", "the window lists other figures than this version knows")
    if len(header.hourly_load) != HOURS:
        raise RecordRejected("invalid_field", "hourly_load", f"{len(header.hourly_load)} hours of load, {HOURS} expected")
    if len(header.hourly_peak) not in (0, HOURS):
        raise RecordRejected(
            "invalid_field", "hourly_peak", f"{len(header.hourly_peak)} peaks of hours, {HOURS} or none expected"
        )
    shape = (header.window_minutes, len(header.topology.tasks), len(FIGURES))
    return Window(
        job=header.job,
        window_end_ms=header.window_end_ms,
        figures=_figures(raw[body_at:], shape),
        topology=header.topology,
        hourly_load=_with_nan(header.hourly_load),
        counts=header.counts,
        closed_append_ms=header.closed_append_ms,
        reached_wall_ms=header.reached_wall_ms,
        hourly_peak=_with_nan(header.hourly_peak) if header.hourly_peak else unknown_hours(),
    )


def _with_none(values: Float32) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in values.tolist())


def _with_nan(values: tuple[float | None, ...]) -> Float32:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float32)


def _figures(body: bytes, shape: tuple[int, int, int]) -> Float32:
    expected = math.prod(shape) * 4
    try:
        shuffled = zstandard.ZstdDecompressor().decompress(body, max_output_size=expected)
    except (zstandard.ZstdError, MemoryError, OverflowError) as error:  # the latter two: a length that cannot be meant
        raise RecordRejected("invalid_field", "figures", f"cannot decompress: {error}") from None
    if len(shuffled) != expected:
        raise RecordRejected("invalid_field", "figures", f"{len(shuffled)} bytes of figures, {expected} expected")
    planes = np.frombuffer(shuffled, dtype=np.uint8).reshape(4, -1)
    plain = np.empty((planes.shape[1], 4), dtype=np.uint8)
    for index, plane in enumerate(planes):  # four long strided copies: a transposed one takes four times as long
        plain[:, index] = plane
    return plain.view("<f4").reshape(shape).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class _Stacked:
    """The figures of the window before, from which the next one differs by its newest minutes."""

    end_ms: int
    tasks: tuple[str, ...]
    figures: Float32


@dataclass(slots=True)
class WindowHistory:
    """What is kept of one job between minutes: rows of the last L minutes per task, the hourly load and its peaks.

    ``rows`` maps a minute's end to the rows of that minute (task -> float32 [F]); absent task = not reported.
    ``hours`` maps an hour's start to (records, known minutes), ``peaks`` to the most records in five minutes in a row that end in
    it; five minutes of which one is unknown do not count.
    """

    job: str
    window_minutes: int
    rows: dict[int, dict[str, Float32]] = field(default_factory=dict)
    hours: dict[int, tuple[float, int]] = field(default_factory=dict)
    peaks: dict[int, float] = field(default_factory=dict)
    _last: _Stacked | None = field(default=None, repr=False, compare=False)
    _loads: dict[int, float] = field(default_factory=dict, repr=False, compare=False)  # of the last minutes, by their end

    def add_load_history(self, history: tuple[HourlyLoad, ...]) -> None:
        """Take over hours that the engine knew before the road watched; hours seen by the road itself are kept."""
        for hour in history:
            self.hours.setdefault(hour.hour_start_ms, (float(hour.records), hour.minutes))
            if hour.peak_records is not None:
                self.peaks.setdefault(hour.hour_start_ms, float(hour.peak_records))

    def close(
        self,
        minute_end_ms: int,
        rows: Mapping[str, Float32],
        topology: JobTopology,
        *,
        counts: WindowCounts = NO_COUNTS,
        closed_append_ms: int | None = None,
        reached_wall_ms: int | None = None,
    ) -> Window:
        """Add one finished minute and return the window that ends with it.

        Minutes may be skipped (they stay masked) but never go back.
        """
        assert minute_end_ms % MINUTE_MS == 0, minute_end_ms
        assert not self.rows or minute_end_ms > max(self.rows), "a closed minute cannot be closed again"
        self.rows[minute_end_ms] = dict(rows)
        self._add_hour(minute_end_ms, rows, topology)
        first = minute_end_ms - self.window_minutes * MINUTE_MS
        for old in [end for end in self.rows if end <= first]:
            del self.rows[old]
        return Window(
            job=self.job,
            window_end_ms=minute_end_ms,
            figures=self._stack(minute_end_ms, topology),
            topology=topology,
            hourly_load=hourly_mean(self.hours, minute_end_ms),
            counts=counts,
            closed_append_ms=closed_append_ms,
            reached_wall_ms=reached_wall_ms,
            hourly_peak=hourly_peak(self.peaks, minute_end_ms),
        )

    def _stack(self, minute_end_ms: int, topology: JobTopology) -> Float32:
        tasks = tuple(spec.task for spec in topology.tasks)
        figures = np.full((self.window_minutes, len(tasks), len(FIGURES)), np.nan, dtype=np.float32)
        new = self.rows
        if self._last is not None and self._last.tasks == tasks:
            by = (minute_end_ms - self._last.end_ms) // MINUTE_MS
            figures[: max(self.window_minutes - by, 0)] = self._last.figures[by:]
            new = {minute_end_ms: self.rows[minute_end_ms]}
        position = {task: index for index, task in enumerate(tasks)}
        for end, rows in new.items():
            back = (minute_end_ms - end) // MINUTE_MS
            for task, row in rows.items():
                if task in position:
                    figures[self.window_minutes - 1 - back, position[task]] = row
        self._last = _Stacked(minute_end_ms, tasks, figures)
        return figures.copy()  # ours stays as it is, whatever is done to a window

    def _add_hour(self, minute_end_ms: int, rows: Mapping[str, Float32], topology: JobTopology) -> None:
        load = source_load(rows, topology)
        if math.isnan(load):
            return
        hour = hour_of(minute_end_ms)
        records, minutes = self.hours.get(hour, (0.0, 0))
        self.hours[hour] = (records + load, minutes + 1)
        oldest = hour - (HOURS - 1) * HOUR_MS
        for old in [start for start in self.hours if start < oldest]:
            del self.hours[old]
            self.peaks.pop(old, None)
        ends = [minute_end_ms - back * MINUTE_MS for back in range(PEAK_MINUTES)]
        self._loads = {end: self._loads[end] if end in self._loads else self._load_at(end, topology) for end in ends}
        add_peak(self.peaks, hour, tuple(self._loads.values()))

    def _load_at(self, minute_end_ms: int, topology: JobTopology) -> float:
        return source_load(self.rows.get(minute_end_ms, {}), topology)


def hour_of(minute_end_ms: int) -> int:
    """Return the start of the hour that a minute belongs to."""
    return (minute_end_ms - 1) // HOUR_MS * HOUR_MS


def add_peak(peaks: dict[int, float], hour: int, recent: Sequence[float]) -> None:
    """Note the records of the last five minutes, of which the newest lies in ``hour``; NaN: unknown."""
    records = sum(recent)
    if len(recent) == PEAK_MINUTES and not math.isnan(records):
        peaks[hour] = max(records, peaks.get(hour, 0.0))


def hourly_mean(hours: Mapping[int, tuple[float, int]], minute_end_ms: int) -> Float32:
    """Return ``Window.hourly_load`` from (records, known minutes) by hour start."""
    return _by_hour({hour: records / minutes for hour, (records, minutes) in hours.items()}, minute_end_ms)


def hourly_peak(peaks: Mapping[int, float], minute_end_ms: int) -> Float32:
    """Return ``Window.hourly_peak`` from the most records in five minutes by hour start."""
    return _by_hour({hour: records / PEAK_MINUTES for hour, records in peaks.items()}, minute_end_ms)


def _by_hour(values: Mapping[int, float], minute_end_ms: int) -> Float32:
    last = hour_of(minute_end_ms)
    first = last - (HOURS - 1) * HOUR_MS
    found = unknown_hours()
    for hour, value in values.items():
        if first <= hour <= last:
            found[(hour - first) // HOUR_MS] = value
    return found


def source_load(rows: Mapping[str, Float32], topology: JobTopology) -> float:
    """Return the records that entered the job in one minute, NaN when no source reported.

    A source may count what it reads (a simulated engine) or only what it emits (Flink), hence the larger of the two.
    """
    loads = [
        max(float(rows[spec.task][FIGURE["records_in"]]), float(rows[spec.task][FIGURE["records_out"]]))
        for spec in topology.tasks
        if not spec.upstream and spec.task in rows
    ]
    return sum(loads) if loads else math.nan
