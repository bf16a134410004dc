"""Queueing delay of a record: from bursts and surges at a given utilisation, and from the present backlog."""

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.latency_bound import DRAIN_SHARE, Bound
from surescale.policies.measure import Measured

LEAST = 1e-6  # records per minute
_BUSY_STEP = 0.05
BUSY = np.arange(0.1, 1.601, _BUSY_STEP)  # utilisations at which delay is computed; interpolated between them


def waiting_by_surges(ratio: Float64, busy: Float64, minutes: float, bound: Bound | None = None) -> Float64:
    """Return [..] how many minutes a record waits at utilisation ``busy`` [..] if an hour surges to one of ``ratio`` [.., H].

    A surge lasts ``minutes``. Its queue grows evenly and drains with the spare capacity, at ``DRAIN_SHARE`` of the load or
    faster. NaN stands for an unknown hour. Under a bound it is what minutes above it cost.
    """
    queue, spare, hours = _surged(ratio, busy, minutes)
    worked_off = np.einsum("...h,...h->...", queue, queue) / (2.0 * spare)
    waited: Float64 = (queue.sum(axis=-1) * (minutes / 2.0) + worked_off) / 60.0 / hours
    return waited if bound is None else bound.penalty(late_by_surges(ratio, busy, minutes, bound.minutes), waited)


def late_by_surges(ratio: Float64, busy: Float64, minutes: float, late_minutes: float) -> Float64:
    """Return [..] the share of an hour in which records wait longer than ``late_minutes``; the rest as ``waiting_by_surges``."""
    queue, spare, hours = _surged(ratio, busy, minutes)
    beyond = np.maximum(queue - late_minutes, 0.0)
    late = beyond / np.maximum(queue, LEAST) * minutes + beyond / spare[..., None]
    share: Float64 = np.minimum(late / 60.0, 1.0).sum(axis=-1) / hours
    return share


def _surged(ratio: Float64, busy: Float64, minutes: float) -> tuple[Float64, Float64, Int64]:
    """Return the queue [.., H] that each hour's surge leaves, in minutes of the load, what drains it, and the known hours."""
    room = 1.0 / np.maximum(busy, LEAST)
    known = ~np.isnan(ratio)
    queue = np.where(known, ratio, 0.0) - room[..., None]  # in place from here on: [.., H] is the most that a plan computes
    np.maximum(queue, 0.0, out=queue)
    queue *= minutes  # in minutes of the load
    return queue, np.maximum(room - 1.0, DRAIN_SHARE), np.maximum(known.sum(axis=-1), 1)


def waiting_inside(measured: Measured, graph: JobGraph) -> Float64:
    """Return [B] how many entered records wait in the job: the largest sum of queues along one path.

    Parallel branches hold copies of the same records, so queues add up along a path only. Queues that no entering record reaches
    date from before the window and do not count.
    """
    reached = measured.visits > 0
    own = np.where(reached, measured.backlog_records / np.maximum(measured.visits, LEAST), 0.0)
    lag = np.array(own)
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        lag[:, members] = own[:, members] + np.where(known, lag[:, parents], 0.0).max(axis=-1)
    inside: Float64 = lag.max(axis=-1)
    return inside


def waiting_by_bursts(burst: Float64, minutes: int, bound: Bound | None = None) -> Float64:
    """Return [B, U] how many minutes a record waits at each utilisation in stages that start with empty queues.

    The bursts [B, 60] are cut into stages of ``minutes``; a record not served within its stage waits until the stage ends. Under
    a bound it is what minutes above it cost.
    """
    stages = burst.reshape(len(burst), 1, -1, minutes)
    surplus = np.cumsum(stages - 1.0 / BUSY[:, None, None], axis=-1)
    queue = surplus - np.minimum(np.minimum.accumulate(surplus, axis=-1), 0.0)
    waited: Float64 = ((queue.sum(axis=-1) - queue[..., -1] / 2.0) / minutes).mean(axis=-1)
    return waited if bound is None else bound.penalty(bound.above(queue).mean(axis=(-2, -1)), waited)


def waiting_at(busy: Float64, curve: Float64) -> Float64:
    """Return curves [B, U] interpolated at utilisations [B, ..]."""
    at = np.clip((busy - BUSY[0]) / _BUSY_STEP, 0.0, len(BUSY) - 1 - 1e-6).reshape(len(busy), -1)
    low = at.astype(np.int64)
    rows = np.arange(len(busy))[:, None]
    waited: Float64 = (curve[rows, low] + (at - low) * np.diff(curve, axis=1)[rows, low]).reshape(busy.shape)
    return waited
