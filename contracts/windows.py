"""Windows: the last L minutes of one job, and their binary form. No Kafka, no clock.

The topic ``snapshots`` carries windows. Bytes: magic ``SSW``, layout version (1 byte), header length (4 bytes, big
endian), header (JSON), then the figures as float32 with their bytes shuffled (all first bytes, all second bytes, ...) under zstd.
The header names the figures; other figures, or others in number, need another layout.
"""

import math
import struct
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import zstandard
from msgspec import Meta

from surescale.contracts.block_load import BLOCKS, Codes, unknown_blocks
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import UNREADABLE, RecordRejected
from surescale.contracts.figures import FIGURE_MAX
from surescale.contracts.ids import split_job, window_id
from surescale.contracts.messages import Count, JobTopology, Saturation, Text, TimeMs
from surescale.contracts.topics import WINDOW_BYTES_MAX
from surescale.contracts.topology import check_topology
from surescale.contracts.wire import decoder

LAYOUT = 1
HOURS = 192  # eight days
HOUR_MS = 60 * MINUTE_MS
FIGURES_MAX = 2**26  # of one window, 256 MiB: figures pack so well that a record of 200 KB could claim gigabytes
PEAK_MINUTES = 5  # an hour's peak is the largest mean over this many consecutive minutes ending in it
WAITED_HOURS = 24  # of which waits are told: the hour that the window ends in, and those before it
WAITED_MOST_S = 86_400  # nobody waits longer

FIGURES = (
    # Counters: their growth in this minute over all subtasks. If the samples are not a minute apart: per 60,000 ms.
    "records_in",
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
    "coverage",  # share of the task's subtasks whose counters are known for this minute
    # These only some engines have.
    "arrived",  # a source: records that came in at its door, taken or still waiting; a counter
    "busy_ms_max",  # ``busy_ms`` of the busiest subtask
    "covered_ms",  # the time in which the counters grew, from 30,000 to 90,000 ms
    "in_pool",  # share of the input buffers in use at the end of the minute, mean over subtasks
    "watermark_lag_ms",  # at the end of the minute, the largest of the subtasks
)
FIGURE = {name: index for index, name in enumerate(FIGURES)}

Float32 = npt.NDArray[np.float32]
Waits = tuple[tuple[int, int], ...]
"""How many minutes waited so long, as (seconds, minutes) by seconds; minutes whose wait is unknown are in none."""

_MAGIC = b"SSW"
_PREFIX = struct.Struct(">3sBI")


class WindowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts for the job in the window's last minute."""

    samples: Count = 0
    late: Count = 0
    duplicates: Count = 0


NO_COUNTS = WindowCounts()


def blank_figures(*shape: int) -> Float32:
    """Return float32 [*shape, F]: zeros, and NaN for the figures that only some engines have."""
    figures = np.zeros((*shape, len(FIGURES)), dtype=np.float32)
    figures[..., FIGURE["arrived"] :] = np.nan
    return figures


_COUNTERS = np.array([*range(FIGURES.index("queued_records_mean")), FIGURE["queue_wait_record_ms"], FIGURE["latency_record_ms"]])


def of_all_subtasks(figures: Float32) -> Float32:
    """Return figures [.., F] whose counters stand for all subtasks, where only a part of them reported; else the same array.

    What is counted is divided by the coverage: the silent ones are taken to do as much as the others. Not in a minute in which
    an attempt began: there coverage tells of the new attempt only, and the counters of both.
    """
    coverage = figures[..., FIGURE["coverage"]]
    is_part = coverage < 1.0  # False where unknown
    if is_part.any():
        is_part &= (coverage > 0.0) & ~(figures[..., FIGURE["restarts"]] > 0)
    if not is_part.any():
        return figures
    whole = figures.copy()
    whole[..., _COUNTERS] /= np.where(is_part, coverage, np.float32(1.0))[..., None]
    return whole


_WaitedS = Annotated[int, Meta(ge=0, le=WAITED_MOST_S)]
_WaitedMinutes = Annotated[int, Meta(ge=1, le=WAITED_HOURS * 60)]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    job: Text
    window_end_ms: TimeMs
    window_minutes: Count
    figures: tuple[str, ...]
    topology: JobTopology
    counts: WindowCounts
    hourly_load: tuple[float | None, ...]
    closed_append_ms: TimeMs | None
    reached_wall_ms: TimeMs | None
    hourly_peak: tuple[float | None, ...]
    saturations: tuple[Saturation, ...] = ()
    waits: Annotated[tuple[tuple[_WaitedS, _WaitedMinutes], ...], Meta(max_length=WAITED_HOURS * 60)] = ()
    load_codes: bytes = b""  # uint16, their bytes shuffled, under zstd; empty: all blocks are unknown


def unknown_hours() -> Float32:
    """Return float32 [192] of NaN."""
    return np.full(HOURS, np.nan, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Window:
    """The last ``window_minutes`` snapshots of one job.

    Attributes:
        figures: float32 [L, N, F]; axis 0 from the oldest minute to the newest, axis 1 in the order of ``topology.tasks``,
            axis 2 as ``FIGURES``. An unreported task-minute is all NaN; in a reported one NaN is what the engine does not know.
        hourly_load: float32 [192], mean records per minute entering the job, oldest hour first; the last entry is the hour
            (possibly unfinished) the window ends in. NaN where unknown.
        hourly_peak: float32 [192], for each of these hours the largest mean over five consecutive minutes ending in it, records
            per minute. NaN where unknown: an engine's history may lack it.
        closed_append_ms: broker's append time of the record that closed the newest minute.
        saturations: what is remembered of tasks that never rested (``contracts.saturation``), by task.
        waits: how long records waited in the minutes of the last ``WAITED_HOURS`` (``contracts.waits``).
        load_codes: uint16 [2304], the mean load of every five minutes of the hours of ``hourly_load`` (``contracts.block_load``).
        unusable: in one line, which figures of a record were no usable numbers, and so count as unknown; empty: none.
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
    saturations: tuple[Saturation, ...] = ()
    waits: Waits = ()
    load_codes: Codes = field(default_factory=unknown_blocks)
    unusable: str = ""

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
        """Return the number of minutes in which at least one task reported."""
        return int(self.reported.any(axis=1).sum())

    @property
    def figures_until_ms(self) -> int | None:
        """Return the end of the newest minute in which at least one task reported; None: the window has no figures."""
        known = np.flatnonzero(self.reported.any(axis=1))
        return self.window_end_ms - (self.window_minutes - 1 - int(known[-1])) * MINUTE_MS if len(known) else None

    def figure(self, name: str) -> Float32:
        """Return one figure, float32 [L, N]."""
        view: Float32 = self.figures[:, :, FIGURE[name]]
        return view


def compressor() -> zstandard.ZstdCompressor:
    """Return what packs figures, for one thread. To encode many windows, keep it: each claims and returns a megabyte."""
    return zstandard.ZstdCompressor(level=1)


def encode_window(window: Window, packer: zstandard.ZstdCompressor | None = None) -> bytes:
    """Return the window's bytes; the same window gives the same bytes.

    Args:
        window: to encode.
        packer: a ``compressor()`` that was used before.

    Raises:
        RecordRejected: ``too_large``, above the topic's limit of 8 MiB.
    """
    header = _Header(
        job=window.job,
        window_end_ms=window.window_end_ms,
        window_minutes=window.window_minutes,
        figures=FIGURES,
        topology=window.topology,
        counts=window.counts,
        hourly_load=window.hourly_load.tolist(),  # NaN becomes null
        closed_append_ms=window.closed_append_ms,
        reached_wall_ms=window.reached_wall_ms,
        hourly_peak=window.hourly_peak.tolist(),
        saturations=window.saturations,
        waits=window.waits,
        load_codes=_packed(window.load_codes),
    )
    head = msgspec.json.encode(header, order="deterministic")
    values = np.ascontiguousarray(window.figures, dtype="<f4")
    shuffled = values.view(np.uint8).reshape(-1, 4).T.tobytes()
    raw = _PREFIX.pack(_MAGIC, LAYOUT, len(head)) + head + (packer or compressor()).compress(shuffled)
    if len(raw) > WINDOW_BYTES_MAX:
        raise RecordRejected("too_large", "figures", f"window {window.id} has {len(raw)} bytes, {WINDOW_BYTES_MAX} allowed")
    return raw


def decode_window(raw: bytes | None) -> Window:
    """Parse a window.

    Raises:
        RecordRejected: ``unknown_layout`` for another magic or version, ``invalid_field`` for anything else.
    """
    if raw is None or len(raw) < _PREFIX.size or not raw.startswith(_MAGIC):
        raise RecordRejected("unknown_layout", "", "not a window: the magic bytes are missing")
    _, layout, head_bytes = _PREFIX.unpack_from(raw)
    if layout != LAYOUT:
        raise RecordRejected("unknown_layout", "layout", f"window layout {layout}; this version reads layout {LAYOUT}")
    body_at = _PREFIX.size + head_bytes
    try:
        header = decoder(_Header).decode(raw[_PREFIX.size : body_at])
    except UNREADABLE as error:
        raise RecordRejected("invalid_field", "header", str(error)) from None
    if header.window_minutes < 1:
        raise RecordRejected("invalid_field", "window_minutes", "a window of no minute")
    if header.figures != FIGURES:
        raise RecordRejected("unknown_layout", "figures", "the window lists other figures than this version knows")
    for name, hours in (("hourly_load", header.hourly_load), ("hourly_peak", header.hourly_peak)):
        if len(hours) != HOURS:
            raise RecordRejected("invalid_field", name, f"{len(hours)} hours, {HOURS} expected")
    try:
        split_job(header.job)
        check_topology(header.topology)
    except RecordRejected as rejected:
        raise RecordRejected(rejected.reason, f"header.{rejected.field}", rejected.message) from None
    shape = (header.window_minutes, len(header.topology.tasks), len(FIGURES))
    if math.prod(shape) > FIGURES_MAX:
        raise RecordRejected("too_large", "figures", f"{math.prod(shape)} figures, {FIGURES_MAX} allowed")
    figures = _figures(raw[body_at:], shape)
    is_unusable = np.abs(figures) > FIGURE_MAX  # False for NaN, which is unknown already
    return Window(
        job=header.job,
        window_end_ms=header.window_end_ms,
        figures=np.where(is_unusable, np.float32(np.nan), figures) if is_unusable.any() else figures,
        topology=header.topology,
        hourly_load=_with_nan(header.hourly_load),
        counts=header.counts,
        closed_append_ms=header.closed_append_ms,
        reached_wall_ms=header.reached_wall_ms,
        hourly_peak=_with_nan(header.hourly_peak),
        saturations=header.saturations,
        waits=header.waits,
        load_codes=_codes(header.load_codes),
        unusable=_unusable_in_words(is_unusable, header) if is_unusable.any() else "",
    )


def _unusable_in_words(unusable: npt.NDArray[np.bool_], header: _Header) -> str:
    minute, task, figure = np.argwhere(unusable)[-1].tolist()
    spec, ended_ms = header.topology.tasks[task], header.window_end_ms - MINUTE_MS * (len(unusable) - 1 - minute)
    others = int(unusable.sum()) - 1
    return (
        f"{spec.label or spec.task}: {FIGURES[figure]} of the minute that ended at {ended_ms} was no usable number"
        f"{f', nor were {others} more figures' if others else ''}; that counts as unknown."
    )


def _with_nan(values: tuple[float | None, ...]) -> Float32:
    told = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.abs(told) > FIGURE_MAX, np.nan, told).astype(np.float32)


def _packed(codes: Codes) -> bytes:
    if not codes.any():
        return b""
    shuffled = np.ascontiguousarray(codes, dtype="<u2").view(np.uint8).reshape(-1, 2).T.tobytes()
    packed: bytes = zstandard.ZstdCompressor(level=1).compress(shuffled)
    return packed


def _codes(packed: bytes) -> Codes:
    if not packed:
        return unknown_blocks()
    plain = np.frombuffer(_decompressed(packed, 2 * BLOCKS, "load_codes"), dtype=np.uint8).reshape(2, -1)
    return np.ascontiguousarray(plain.T).view("<u2").reshape(-1).astype(np.uint16, copy=False)


def _figures(body: bytes, shape: tuple[int, int, int]) -> Float32:
    shuffled = _decompressed(body, math.prod(shape) * 4, "figures")
    planes = np.frombuffer(shuffled, dtype=np.uint8).reshape(4, -1)
    plain = np.empty((planes.shape[1], 4), dtype=np.uint8)
    for index, plane in enumerate(planes):  # four long strided copies; one transposed copy takes four times as long
        plain[:, index] = plane
    return plain.view("<f4").reshape(shape).astype(np.float32, copy=False)


def _decompressed(packed: bytes, expected: int, field: str) -> bytes:
    try:
        plain: bytes = zstandard.ZstdDecompressor().decompress(packed, max_output_size=expected)
    except (zstandard.ZstdError, MemoryError, OverflowError) as error:  # the latter two: an absurd length
        raise RecordRejected("invalid_field", field, f"cannot decompress: {error}") from None
    if len(plain) != expected:
        raise RecordRejected("invalid_field", field, f"{len(plain)} bytes of {field}, {expected} expected")
    return plain
