"""The one encoder of training and serving: figures of a window -> the numbers a learned policy sees. Works on any batch.

The first 27 slots are SURE's (IJCAI 2022, section 1 of its state), derived from what engines count; the rest adds the daily
rhythm, short trends, true demand and backlog. Names stand in ``SLOTS``; a change of meaning is a new ``FEATURE_VERSION``.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, Float32
from policies.forecast import forecast_inputs
from policies.graph import JobGraph, Padded
from policies.measure import Measured, mean_of_last, measure
from policies.proposal import Float64

FEATURE_VERSION = 1
DAY_MS = 24 * 60 * MINUTE_MS
LATENCY_MINUTES = 5  # slot 8 looks back this far
POSITIONS = 5  # values per half of the positional code

SLOTS = (
    "queue_log",  # 0 records waiting at the minute's end, log1p
    "queue_per_instance_log",
    "queue_mean_log",  # mean over the minute
    "drain_minutes_log",  # time this task needs to work off its queue
    "wait_minutes_log",  # mean wait of a record processed in this minute
    "wait_record_minutes_log",  # waiting done by all records
    "utilisation",  # busy subtask-minutes over subtasks
    "parallelism_share",  # of the largest allowed
    "latency_log",  # minutes from arrival to completion at this task, last five minutes
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
    "demand",  # subtasks that the load of this minute keeps busy
    "demand_share",  # the same over the subtasks there are
    "backlog_minutes_log",  # at the window's end
    "restarting",  # an attempt began in this minute
    "scalable",
    "reported",
)
WIDTH = len(SLOTS)
SLOTS_SHA256 = hashlib.sha256("\n".join((str(FEATURE_VERSION), *SLOTS)).encode()).hexdigest()
_TINY = 1e-3


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a learned policy sees; leading batch axes stand for ``..``.

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
) -> Encoded:
    """Encode figures [.., L, N, F] of one graph, with ends [..] and hourly loads [.., 192].

    ``measured`` saves measuring the same figures twice. In memory each slot is contiguous, tasks first; ``x`` is a view of that,
    so that many rows are encoded without jumping through memory.
    """
    measured = measured or measure(figures, graph)
    mask = measured.reported
    slots = np.empty((WIDTH, mask.shape[-1], *mask.shape[:-1]), dtype=np.float32)
    x = np.moveaxis(slots, (0, 1), (-1, -2))
    figure = _Figures(figures, mask)
    _task_slots(x, figure, graph, measured)
    _position_slots(x, graph, window_end_ms)
    _load_slots(x, graph, window_end_ms, hourly_load, measured)
    demand = _demand(measured)
    x[..., SLOTS.index("demand")] = demand
    x[..., SLOTS.index("demand_share")] = np.minimum(demand / figure.parallelism, 5.0)
    backlog = measured.backlog_records * np.nan_to_num(measured.service_minutes) / figure.parallelism[..., -1, :]
    x[..., SLOTS.index("backlog_minutes_log")] = np.log1p(backlog)[..., None, :]
    x[..., SLOTS.index("restarting")] = figure["restarts"] > 0
    x[..., SLOTS.index("scalable")] = graph.scalable
    x[..., SLOTS.index("reported")] = 1.0
    if not mask.all():
        x *= mask[..., None]
    return Encoded(x=x, mask=mask)


@dataclass(frozen=True)
class _Figures:
    figures: Float32
    mask: npt.NDArray[np.bool_]

    def raw(self, name: str) -> Float32:
        """Return a figure [.., L, N], tasks first in memory as the slots are; NaN where unknown."""
        plane = np.ascontiguousarray(np.moveaxis(self.figures[..., FIGURE[name]], -1, 0))
        return np.moveaxis(plane, 0, -1)

    def __getitem__(self, name: str) -> Float32:
        values = self.raw(name)
        return np.nan_to_num(values) if np.isnan(values.sum()) else values

    @cached_property
    def parallelism(self) -> Float32:
        values: Float32 = np.maximum(self["parallelism"], 1.0)
        return values


def _log1p(values: npt.NDArray[np.floating]) -> Float32:
    """Return log(1 + x) in float32, to 1e-7; far faster than the exact one, and 0 stays 0."""
    logs: Float32 = np.log(np.add(values, 1.0, dtype=np.float32))
    return logs


def _task_slots(x: Float32, figure: _Figures, graph: JobGraph, measured: Measured) -> None:
    """Fill slots 0 to 16: queue, waiting, utilisation, latency of the task, its parents and children."""
    queued, processed, parallelism = figure["queued_records_last"], figure["records_in"], figure.parallelism
    service = np.nan_to_num(measured.service_minutes).astype(np.float32)[..., None, :]
    mean = figure["queued_records_mean"]
    waited = figure.raw("queue_wait_record_ms") / np.float32(MINUTE_MS)
    spent = figure.raw("latency_record_ms") / np.float32(MINUTE_MS)
    # Little's law fills in for an engine without the figure: mean queue x one minute = waiting done in that minute.
    if np.isnan(waited.sum()):
        waited = np.where(np.isnan(waited), mean, waited)
    if np.isnan(spent.sum()):
        spent = np.where(np.isnan(spent), waited + processed * service, spent)
    busy = figure["busy_ms"] / np.float32(MINUTE_MS)
    served = np.maximum(processed, 1.0)
    x[..., 0] = _log1p(queued)
    x[..., 1] = _log1p(queued / parallelism)
    x[..., 2] = _log1p(mean)
    x[..., 3] = _log1p(queued * service / parallelism)
    x[..., 4] = _log1p(waited / served)
    x[..., 5] = _log1p(waited)
    np.divide(busy, parallelism, out=x[..., 6])
    x[..., 7] = parallelism / graph.parallelism_max
    latency = _recent(spent, processed)
    x[..., 8] = _log1p(latency)
    for at, table in ((9, graph.parents), (12, graph.children)):
        count, average, total = _around(latency, table)
        x[..., at], x[..., at + 1], x[..., at + 2] = np.log1p(count), _log1p(average), _log1p(total)
    real = graph.scalable & figure.mask
    allocated = np.where(real, parallelism, 0.0).sum(axis=-1)
    x[..., 15] = (np.where(real, busy, 0.0).sum(axis=-1) / np.maximum(allocated, 1.0))[..., None]
    x[..., 16] = _log1p(spent / served)


def _recent(spent: Float32, processed: Float32) -> Float32:
    """Return time spent per record over the last minutes, [.., L, N]; nothing processed: the previous value, at first 0."""
    total = np.stack([_last_minutes(spent), _last_minutes(processed)])
    has = total[1] > 0.5
    latency = np.divide(total[0], total[1], where=has, out=np.zeros_like(total[0]))
    held: Float32 = latency.astype(np.float32)
    if has.all():
        return held
    minutes = np.arange(has.shape[-2])[:, None]
    newest = np.maximum.accumulate(np.where(has, minutes, 0), axis=-2)
    latest: Float32 = np.take_along_axis(held, newest, axis=-2)
    return latest


def _last_minutes(values: Float32) -> Float64:
    """Return sums over the last ``LATENCY_MINUTES`` minutes, [.., L, N]."""
    total = values.astype(np.float64)
    for back in range(1, min(LATENCY_MINUTES, values.shape[-2])):
        total[..., back:, :] += values[..., :-back, :]
    return total


def _around(latency: Float32, table: Padded) -> tuple[Float32, Float32, Float32]:
    count = table.known.sum(axis=1).astype(np.float32)
    by_task = np.moveaxis(latency, -1, 0)
    total = np.zeros_like(by_task)
    for k in range(table.index.shape[1]):
        members = np.flatnonzero(table.known[:, k])
        total[members] += by_task[table.index[members, k]]
    total = np.moveaxis(total, 0, -1)
    mean: Float32 = total / np.maximum(count, 1.0)
    return np.broadcast_to(count, latency.shape), mean, total


def _position_slots(x: Float32, graph: JobGraph, window_end_ms: npt.NDArray[np.int64]) -> None:
    """Fill slots 17 to 26: ordinary sine and cosine codes of the level (1-based) and of the minute of the hour."""
    minutes = x.shape[-3]
    ends = window_end_ms[..., None] // MINUTE_MS + np.arange(minutes) - (minutes - 1)
    x[..., 17:22] = _code((graph.level + 1).astype(np.float64))
    x[..., 22:27] = _code((ends % 60).astype(np.float64))[..., None, :]


def _code(value: Float64) -> Float64:
    j = np.arange(POSITIONS)
    angle = value[..., None] / 10_000.0 ** (2 * (j // 2) / POSITIONS)
    code: Float64 = np.where(j % 2 == 0, np.sin(angle), np.cos(angle))
    return code


def _load_slots(
    x: Float32,
    graph: JobGraph,
    window_end_ms: npt.NDArray[np.int64],
    hourly_load: npt.NDArray[np.floating],
    measured: Measured,
) -> None:
    """Fill the slots of the whole job: time of day, trends, yesterday, peak and spread of the hour."""
    first = SLOTS.index("day_sin")
    angle = 2 * np.pi * (window_end_ms % DAY_MS) / DAY_MS
    inputs, known = forecast_inputs(measured.load, hourly_load, window_end_ms)
    mean = np.maximum(np.nan_to_num(mean_of_last(measured.load, 60)), _TINY)
    minutes = np.where(np.isnan(measured.load), mean[..., None], measured.load)
    peak = np.log(np.maximum(minutes.max(axis=-1), _TINY) / mean)
    spread = np.minimum(minutes.std(axis=-1) / mean, 5.0)
    job = np.stack([np.sin(angle), np.cos(angle), *np.moveaxis(inputs, -1, 0), known, peak, spread], axis=-1)
    x[..., first : first + job.shape[-1]] = job[..., None, None, :]


def _demand(measured: Measured) -> Float64:
    """Return busy subtasks [.., L, N] that the load of each minute needs; 0 where unknown."""
    per_record = measured.visits * np.nan_to_num(measured.service_minutes)
    demand: Float64 = np.nan_to_num(measured.load)[..., None] * per_record[..., None, :]
    return demand
