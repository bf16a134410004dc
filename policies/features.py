"""The one encoder of training and serving: figures of a window -> the numbers a learned policy sees. Works on any batch.

The first 27 slots are SURE's (IJCAI 2022, section 1 of its state), derived from what engines count; the rest adds the daily
rhythm, short trends, true demand and backlog. Names stand in ``SLOTS``; a change of meaning is a new ``FEATURE_VERSION``.
"""

import hashlib
from dataclasses import dataclass

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

    ``measured`` saves measuring the same figures twice.
    """
    measured = measured or measure(figures, graph)
    mask = measured.reported
    x = np.zeros((*mask.shape, WIDTH), dtype=np.float32)
    figure = _Figures(figures, mask)
    _task_slots(x, figure, graph, measured)
    _position_slots(x, graph, window_end_ms)
    _load_slots(x, graph, window_end_ms, hourly_load, measured)
    x[..., SLOTS.index("demand")] = _demand(measured)
    x[..., SLOTS.index("demand_share")] = np.minimum(_demand(measured) / figure.parallelism, 5.0)
    backlog = measured.backlog_records * np.nan_to_num(measured.service_minutes) / figure.parallelism[..., -1, :]
    x[..., SLOTS.index("backlog_minutes_log")] = np.log1p(backlog)[..., None, :]
    x[..., SLOTS.index("restarting")] = figure["restarts"] > 0
    x[..., SLOTS.index("scalable")] = graph.scalable
    x[..., SLOTS.index("reported")] = 1.0
    x *= mask[..., None]
    return Encoded(x=x, mask=mask)


@dataclass(frozen=True, slots=True)
class _Figures:
    figures: Float32
    mask: npt.NDArray[np.bool_]

    def __getitem__(self, name: str) -> Float32:
        values: Float32 = np.nan_to_num(self.figures[..., FIGURE[name]])
        return values

    @property
    def parallelism(self) -> Float32:
        values: Float32 = np.maximum(self["parallelism"], 1.0)
        return values


def _task_slots(x: Float32, figure: _Figures, graph: JobGraph, measured: Measured) -> None:
    """Fill slots 0 to 16: queue, waiting, utilisation, latency of the task, its parents and children."""
    queued, processed, parallelism = figure["queued_records_last"], figure["records_in"], figure.parallelism
    service = np.nan_to_num(measured.service_minutes).astype(np.float32)[..., None, :]
    # Little's law fills in for an engine without the figure: mean queue x one minute = waiting done in that minute.
    waited = np.where(
        np.isnan(figure.figures[..., FIGURE["queue_wait_record_ms"]]),
        figure["queued_records_mean"],
        figure["queue_wait_record_ms"] / MINUTE_MS,
    )
    spent = np.where(
        np.isnan(figure.figures[..., FIGURE["latency_record_ms"]]),
        waited + processed * service,
        figure["latency_record_ms"] / MINUTE_MS,
    )
    busy = figure["busy_ms"] / MINUTE_MS
    x[..., 0] = np.log1p(queued)
    x[..., 1] = np.log1p(queued / parallelism)
    x[..., 2] = np.log1p(figure["queued_records_mean"])
    x[..., 3] = np.log1p(queued * service / parallelism)
    x[..., 4] = np.log1p(waited / np.maximum(processed, 1.0))
    x[..., 5] = np.log1p(waited)
    x[..., 6] = busy / parallelism
    x[..., 7] = parallelism / graph.parallelism_max
    latency = _recent(spent, processed)
    x[..., 8] = np.log1p(latency)
    for at, table in ((9, graph.parents), (12, graph.children)):
        count, mean, total = _around(latency, table)
        x[..., at], x[..., at + 1], x[..., at + 2] = np.log1p(count), np.log1p(mean), np.log1p(total)
    real = graph.scalable & figure.mask
    allocated = np.where(real, parallelism, 0.0).sum(axis=-1)
    x[..., 15] = (np.where(real, busy, 0.0).sum(axis=-1) / np.maximum(allocated, 1.0))[..., None]
    x[..., 16] = np.log1p(spent / np.maximum(processed, 1.0))


def _recent(spent: Float32, processed: Float32) -> Float32:
    """Return time spent per record over the last minutes, [.., L, N]; nothing processed: the previous value, at first 0."""
    both = np.stack([spent, processed])
    total = np.cumsum(both, axis=-2, dtype=np.float64)
    total[..., LATENCY_MINUTES:, :] -= total[..., :-LATENCY_MINUTES, :].copy()
    has = total[1] > 0.5
    latency = np.where(has, total[0] / np.where(has, total[1], 1.0), 0.0)
    minutes = np.arange(has.shape[-2])[:, None]
    newest = np.maximum.accumulate(np.where(has, minutes, 0), axis=-2)
    held: Float32 = np.take_along_axis(latency, newest, axis=-2).astype(np.float32)
    return held


def _around(latency: Float32, table: Padded) -> tuple[Float32, Float32, Float32]:
    count = table.known.sum(axis=1).astype(np.float32)
    total = np.zeros_like(latency)
    for k in range(table.index.shape[1]):
        members = np.flatnonzero(table.known[:, k])
        total[..., members] += latency[..., table.index[members, k]]
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
