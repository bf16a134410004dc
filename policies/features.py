"""Encodes a window's figures as the numbers a learned policy sees. Training and serving share it; it works on any batch.

The first 27 slots are SURE's (IJCAI 2022, section 1 of its state), derived from what engines count. The rest adds the daily
rhythm, short trends, true demand and backlog. ``SLOTS`` names them; a change of meaning needs a new ``FEATURE_VERSION``.
"""

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURE, Float32
from surescale.policies.answer import Float64
from surescale.policies.forecast import LookedBack
from surescale.policies.graph import JobGraph, Padded
from surescale.policies.measure import Measured, measure

FEATURE_VERSION = 1
DAY_MS = 24 * 60 * MINUTE_MS
LATENCY_MINUTES = 5  # slot 8 looks back this far
POSITIONS = 5  # values per half of the positional code

SLOTS = (
    "queue_log",  # 0 records waiting at the minute's end, log1p
    "queue_per_instance_log",
    "queue_mean_log",  # mean over the minute
    "drain_minutes_log",  # time this task needs to drain its queue
    "wait_minutes_log",  # mean wait of a record processed in this minute
    "wait_record_minutes_log",  # total wait of all records
    "utilisation",  # busy subtask-minutes over subtasks
    "parallelism_share",  # of the largest allowed
    "latency_log",  # minutes from arrival to completion at this task, over the last five
    "parents_count_log",
    "parents_latency_mean_log",
    "parents_latency_sum_log",
    "children_count_log",
    "children_latency_mean_log",
    "children_latency_sum_log",
    "job_utilisation",
    "latency_now_log",  # of this minute alone
    *(f"level_code_{j}" for j in range(POSITIONS)),
    *(f"minute_code_{j}" for j in range(POSITIONS)),
    "day_sin",  # time of day at the window's end
    "day_cos",
    "trend_5",  # log of the mean load of the last 5 / 60 minutes
    "trend_15",
    "trend_30",
    "yesterday_growth",  # log of yesterday's next hour over yesterday's last hour
    "days_growth",
    "yesterday_level",  # log of yesterday's last hour over this one
    "days_level",
    "yesterday_known",
    "hour_peak",  # log of the largest minute of the hour over its mean
    "hour_spread",  # standard deviation over mean
    "demand",  # subtasks kept busy by the load of this minute
    "demand_share",  # the same over present subtasks
    "backlog_minutes_log",  # at the window's end
    "restarting",  # an attempt began in this minute
    "scalable",
    "reported",
)
WIDTH = len(SLOTS)
SURE_WIDTH = 27  # the paper's slots come first
SLOTS_SHA256 = hashlib.sha256("\n".join((str(FEATURE_VERSION), *SLOTS)).encode()).hexdigest()
_TINY = 1e-3


@dataclass(frozen=True, slots=True)
class Encoded:
    """The input of a learned policy; leading batch axes stand for ``..``.

    Attributes:
        x: float32 [.., L, N, D], columns as ``SLOTS``; rows of unreported task-minutes are zero.
        mask: bool [.., L, N], reported task-minutes.
    """

    x: Float32
    mask: npt.NDArray[np.bool_]


def encode(
    figures: Float32,
    graph: JobGraph,
    window_end_ms: npt.NDArray[np.int64],
    hourly_load: npt.NDArray[np.floating],
    measured: Measured | None = None,
    *,
    width: int = WIDTH,
) -> Encoded:
    """Return the encoding of figures [.., L, N, F] of one graph, with ends [..] and hourly loads [.., 192].

    ``measured`` saves measuring the same figures twice. ``width`` is ``SURE_WIDTH`` for SURE's slots alone, a third cheaper.

    In memory each slot is contiguous, tasks first, and ``x`` is a view of that: encoding many rows does not jump through memory.
    Figures with the same layout (the simulator's) are read in place.
    """
    assert width in (SURE_WIDTH, WIDTH), width
    measured = measured or measure(figures, graph)
    mask = measured.reported
    slots = np.empty((width, mask.shape[-1], *mask.shape[:-1]), dtype=np.float32)
    planes = _Planes.of(figures)
    _fill_alone(slots, planes, graph, measured)
    _fill_around(slots[9:12], planes.latency, slots[8], graph.parents)
    _fill_around(slots[12:15], planes.latency, slots[8], graph.children)
    busy, allocated = (_sum_of_real(values, graph, mask) for values in (planes.busy, planes.parallelism))
    slots[15] = busy / np.maximum(allocated, 1.0)
    _fill_positions(slots, graph, window_end_ms)
    if width > SURE_WIDTH:
        _fill_load(slots, window_end_ms, hourly_load, measured)
        _fill_state(slots, planes, graph, measured)
    if not mask.all():
        slots *= np.moveaxis(mask, -1, 0)
    return Encoded(x=np.moveaxis(slots, (0, 1), (-1, -2)), mask=mask)


@dataclass(frozen=True, slots=True)
class _Planes:
    """Figures by name, and derived ones that several slots need; planes are float32 [N, .., L].

    Attributes:
        figures: [F, N, .., L].
        busy: busy subtask-minutes.
        parallelism: at least 1.
        latency: minutes, slot 8 before its logarithm.
    """

    figures: Float32
    busy: Float32
    parallelism: Float32
    latency: Float32

    @classmethod
    def of(cls, figures: Float32) -> "_Planes":
        """Return the planes of figures [.., L, N, F]; the derived ones are filled in later."""
        by_name = np.moveaxis(figures, (-1, -2), (0, 1))
        return cls(by_name, *np.empty((3, *by_name.shape[1:]), dtype=np.float32))

    def raw(self, name: str) -> Float32:
        """Return a contiguous figure, NaN where unknown. It may share the caller's memory."""
        return np.ascontiguousarray(self.figures[FIGURE[name]])

    def __getitem__(self, name: str) -> Float32:
        values = self.raw(name)
        return values if np.isfinite(values).all() else np.nan_to_num(values)


def _log1p(values: npt.NDArray[np.floating], out: Float32 | None = None) -> Float32:
    """Return log(1 + x) in float32, to 1e-7. Far faster than the exact one; 0 stays 0."""
    logs: Float32 = np.add(values, 1.0, out=out, dtype=np.float32)
    return np.log(logs, out=logs)


def _or_zero(values: Float64) -> Float64:
    return np.where(np.isnan(values), 0.0, values)


def _per_task(values: npt.NDArray[np.floating | np.integer | np.bool_], like: Float32) -> Float32:
    """Return values of tasks [N] in float32, shaped to broadcast to [N, .., L]."""
    return values.astype(np.float32).reshape(-1, *[1] * (like.ndim - 1))


def _fill_alone(slots: Float32, planes: _Planes, graph: JobGraph, measured: Measured) -> None:
    """Fill the slots about one task alone: 0 to 8, 16, and the true demand."""
    service = np.moveaxis(_or_zero(measured.service_minutes), -1, 0)[..., None]
    np.divide(planes["busy_ms"], np.float32(MINUTE_MS), out=planes.busy)
    np.maximum(planes["parallelism"], 1.0, out=planes.parallelism)
    np.divide(planes.busy, planes.parallelism, out=slots[6])
    np.divide(planes.parallelism, _per_task(graph.parallelism_max, planes.busy), out=slots[7])
    _fill_times(slots, planes, service.astype(np.float32))
    if len(slots) > SURE_WIDTH:
        demand = np.moveaxis(_or_zero(measured.visits), -1, 0)[..., None] * service
        _fill_demand(slots, planes, demand * _or_zero(measured.load))


def _fill_times(slots: Float32, planes: _Planes, service: Float32) -> None:
    """Fill slots 0 to 5, 8 and 16: queue, waiting, latency."""
    processed, mean = planes["records_in"], planes["queued_records_mean"]
    waited = planes.raw("queue_wait_record_ms") / np.float32(MINUTE_MS)
    spent = planes.raw("latency_record_ms") / np.float32(MINUTE_MS)
    # Without the figure, Little's law gives it: mean queue x one minute = waiting done in that minute.
    if np.isnan(waited).any():
        waited = np.where(np.isnan(waited), mean, waited)
    if np.isnan(spent).any():
        spent = np.where(np.isnan(spent), waited + processed * service, spent)
    served = np.maximum(processed, 1.0)
    _fill_queues(slots, planes, service, mean)
    _fill_waiting(slots, waited, served)
    _fill_recent(planes.latency, spent, processed)
    _log1p(planes.latency, out=slots[8])
    _log1p(np.divide(spent, served, out=slots[16]), out=slots[16])


def _fill_queues(slots: Float32, planes: _Planes, service: Float32, mean: Float32) -> None:
    """Fill slots 0 to 3. At the end of most minutes most tasks have no queue, and only the others need a logarithm."""
    queued = planes["queued_records_last"]
    at = _few(queued != 0)
    waiting, subtasks, work = (values.ravel()[at] for values in (queued, planes.parallelism, queued * service))
    for slot, values in ((slots[0], waiting), (slots[1], waiting / subtasks), (slots[3], work / subtasks)):
        _fill_few(slot, at, _log1p(values))
    at = _few(mean != 0)
    _fill_few(slots[2], at, _log1p(mean.ravel()[at]))


def _fill_waiting(slots: Float32, waited: Float32, served: Float32) -> None:
    """Fill slots 4 and 5. A wait so small that adding it to 1 changes nothing (rounding noise) has logarithm 0."""
    at = _few(waited + np.float32(1.0) != 1.0)
    some = waited.ravel()[at]
    _fill_few(slots[4], at, _log1p(some / served.ravel()[at]))
    _fill_few(slots[5], at, _log1p(some))


def _few(found: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64] | slice:
    """Return the positions in memory where something was found; all of them if that is no more work."""
    at = np.flatnonzero(found)
    return at if 2 * len(at) < found.size else slice(None)


def _fill_few(slot: Float32, at: npt.NDArray[np.int64] | slice, values: Float32) -> None:
    slot.fill(0.0)
    slot.reshape(-1)[at] = values


def _fill_demand(slots: Float32, planes: _Planes, needed: Float64) -> None:
    """Fill the slots of true demand from the subtasks that each minute's load keeps busy; 0 where unknown."""
    at = SLOTS.index("demand")
    slots[at] = needed
    needed /= planes.parallelism
    np.minimum(needed, 5.0, out=slots[at + 1], casting="same_kind")


def _sum_of_real(values: Float32, graph: JobGraph, mask: npt.NDArray[np.bool_]) -> Float32:
    """Return the sum [.., L] over reported scalable tasks of values [N, .., L], in the memory layout of the caller's figures."""
    real = np.empty_like(mask, dtype=np.float32)
    np.multiply(np.moveaxis(values, 0, -1), graph.scalable.astype(np.float32), out=real)
    if not mask.all():
        real *= mask
    total: Float32 = real.sum(axis=-1)
    return total


def _fill_recent(latency: Float32, spent: Float32, processed: Float32) -> None:
    """Fill in time per record over the last minutes, [N, .., L]; with nothing processed, the previous value, or 0 at first."""
    total, records = _last_minutes(spent), _last_minutes(processed)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(total, records, out=latency, casting="same_kind")
    has = records > 0.5
    if not has.all():
        gaps = ~has.all(axis=-1)
        latency[gaps] = _held(latency[gaps], has[gaps])


def _held(values: Float32, known: npt.NDArray[np.bool_]) -> Float32:
    """Return values [n, L] with each unknown one replaced by the latest known before it, or 0."""
    newest = np.maximum.accumulate(np.where(known, np.arange(known.shape[-1]), 0), axis=-1)
    latest: Float32 = np.where(known, values, np.float32(0.0))[np.arange(len(values))[:, None], newest]
    return latest


def _last_minutes(values: Float32) -> Float64:
    """Return sums over the last ``LATENCY_MINUTES`` minutes, [.., L].

    Zeros before the first minute separate the lines, so all of them are summed as one: far faster than line by line.
    """
    before = LATENCY_MINUTES - 1
    single = np.zeros((*values.shape[:-1], before + values.shape[-1]))
    single[..., before:] = values
    total = np.empty_like(single)
    summed, line = total.ravel(), single.ravel()
    summed[0] = line[0]
    np.add(line[1:], line[:-1], out=summed[1:])
    for back in range(2, LATENCY_MINUTES):
        summed[back:] += line[:-back]
    return total[..., before:]


def _fill_around(slots: Float32, latency: Float32, logs: Float32, table: Padded) -> None:
    """Fill three slots: the number of a task's neighbours, the mean and the sum of their latencies.

    Most tasks have one neighbour; then mean and sum are its latency, whose logarithm is there already.
    """
    count = table.known.sum(axis=1)
    slots[0] = _per_task(np.log1p(count.astype(np.float32)), latency)
    np.take(logs, table.index[:, 0], axis=0, out=slots[1], mode="clip")
    slots[1, count == 0] = 0.0
    slots[2] = slots[1]
    for task in np.flatnonzero(count > 1):
        first, *others = table.index[task][table.known[task]]
        total = latency[first].copy()
        for other in others:
            total += latency[other]
        _log1p(total / np.float32(count[task]), out=slots[1, task])
        _log1p(total, out=slots[2, task])


def _fill_positions(slots: Float32, graph: JobGraph, window_end_ms: npt.NDArray[np.int64]) -> None:
    """Fill slots 17 to 26: sine and cosine codes of the level (1-based) and of the minute of the hour."""
    minutes = slots.shape[-1]
    for j, code in enumerate(_code((graph.level + 1).astype(np.float64)).T):
        slots[17 + j] = _per_task(code, slots[0])
    first = (window_end_ms // MINUTE_MS - (minutes - 1)) % 60
    slots[22:27] = np.moveaxis(_minute_codes(minutes)[first], -2, 0)[:, None]


@cache
def _minute_codes(minutes: int) -> Float32:
    """Return float32 [60, 5, L]: for each minute of the hour, the codes of L minutes that start there."""
    codes = _code((np.arange(60 + minutes - 1) % 60).astype(np.float64)).astype(np.float32)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(codes, minutes, axis=0))


def _code(value: Float64) -> Float64:
    j = np.arange(POSITIONS)
    angle = value[..., None] / 10_000.0 ** (2 * (j // 2) / POSITIONS)
    code: Float64 = np.where(j % 2 == 0, np.sin(angle), np.cos(angle))
    return code


def _fill_load(
    slots: Float32, window_end_ms: npt.NDArray[np.int64], hourly_load: npt.NDArray[np.floating], measured: Measured
) -> None:
    """Fill the slots about the whole job: time of day, trends, yesterday, peak and spread of the hour."""
    first = SLOTS.index("day_sin")
    angle = 2 * np.pi * (window_end_ms % DAY_MS) / DAY_MS
    seen = LookedBack.of(measured.load, hourly_load, window_end_ms)
    mean = np.maximum(_or_zero(seen.hour), _TINY)
    minutes = np.where(np.isnan(measured.load), mean[..., None], measured.load)
    peak = np.log(np.maximum(minutes.max(axis=-1), _TINY) / mean)
    spread = np.minimum(minutes.std(axis=-1) / mean, 5.0)
    job = np.stack([np.sin(angle), np.cos(angle), *np.moveaxis(seen.inputs, -1, 0), seen.known, peak, spread])
    each_minute = np.repeat(job.astype(np.float32)[..., None], slots.shape[-1], axis=-1)
    slots[first : first + len(job)] = each_minute[:, None]


def _fill_state(slots: Float32, planes: _Planes, graph: JobGraph, measured: Measured) -> None:
    """Fill the last slots: backlog, restarts, and whether a task is scalable and reported."""
    backlog, restarting, scalable, reported = slots[SLOTS.index("backlog_minutes_log") :]
    work = np.moveaxis(measured.waiting_records * _or_zero(measured.service_minutes), -1, 0)
    backlog[...] = np.log1p(work / planes.parallelism[..., -1])[..., None]
    np.greater(planes.raw("restarts"), 0, out=restarting)
    scalable[...] = _per_task(graph.scalable, scalable)
    reported.fill(1.0)
