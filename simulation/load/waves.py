"""What reaches each task of a job in the world ``waves``: every part of it has a rhythm of its own. Seeded; pure.

In the other worlds each record reaches every task once, so one load drives all of them. Here

- **sources**: the tasks that read the source share its records, by shares that rise and fall over the day, each at an hour of
  its own, and wander within hours: regions, devices, topics.
- **selectivities**: half of the tasks emit more or fewer records per record, wandering within hours: filters, side outputs.
  Twice a day a task emits 1.5 to 3 times as many for half an hour to three hours: campaigns, replays.
- **timers**: half of the tasks with state hold back what they emit, on average for 10 to 40 minutes: windows, sessions.
- **joins**: a task with several parents gets the records of all of them.

What a task works for a record that enters the job is on average what the job's table says. A backlog is counted in records that
entered, so records that waited cost what those cost that come while they are served.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from surescale.contracts.topology import levels
from surescale.contracts.windows import FIGURE, Float32
from surescale.simulation.load.graphs import JobGraph

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

DAY_MINUTES = 24 * 60
COURSE_MINUTES = 28 * DAY_MINUTES  # then it repeats
SWING = (0.2, 0.8)  # of the log of a source's share over the day
WANDERS = 0.2  # standard deviation of the log of a share, and of a selectivity
WANDER_MINUTES = 180.0
CAMPAIGNS_A_DAY = 2.0  # per job
CAMPAIGN_MINUTES = (30, 180)
CAMPAIGN = (1.5, 3.0)
HELD_MINUTES = (10, 40)
REACHED_MOST = 20.0  # where hardly a record comes, what is released is not many times the load
_INTO = ("records_in", "bytes_in", "queued_records_mean", "queued_records_last", "queue_wait_record_ms")
_OUT = ("records_out", "bytes_out")


@dataclass(frozen=True, slots=True)
class Waves:
    """The course of one job under one load, float64 [T, N] by minute of the load, which repeats.

    Attributes:
        reached: records that reach a task for each one that enters the job.
        sent: records that it sends to each task after it, likewise.
        work: factors on the work for a record that enters.
    """

    reached: Float64
    sent: Float64
    work: Float64

    def at(self, values: Float64, first_minutes: Int64, minutes: int) -> Float64:
        """Return values [m, N, B] in m minutes from ``first_minutes`` [B] on."""
        found: Float64 = np.moveaxis(values[places(first_minutes, minutes, len(values))], 0, -1)
        return found

    def seen(self, figures: Float32, first_minutes: Int64) -> Float32:
        """Return figures [B, m, N, F] of records that each reach every task once, as they are here."""
        at = places(first_minutes, figures.shape[1], len(self.reached))
        found, reached = figures.copy(), self.reached[at].astype(np.float32)[..., None]
        found[..., [FIGURE[name] for name in _INTO]] *= reached
        found[..., [FIGURE[name] for name in _OUT]] *= self.sent[at].astype(np.float32)[..., None]
        waited = figures[..., FIGURE["queue_wait_record_ms"]]
        found[..., FIGURE["latency_record_ms"]] += waited * (reached[..., 0] - 1.0)
        return found


def places(first_minutes: Int64, minutes: int, length: int) -> Int64:
    """Return the minutes [B, m] from ``first_minutes`` [B] on in a course of this length, which repeats."""
    found: Int64 = (first_minutes[:, None] + np.arange(minutes)) % length
    return found


def waves_of(seed: int, graph: JobGraph, requests: Int64) -> Waves:
    """Return what a seed draws for a job under a load [T]."""
    shares, passes, held = _drawn(seed, graph)
    minutes = np.arange(len(requests)) % COURSE_MINUTES
    load = np.maximum(requests, 1).astype(np.float64)
    taken, emitted = np.zeros((2, len(load), graph.size))
    for task in np.argsort(levels(graph.specs()), kind="stable").tolist():
        parents = graph.upstream[task]
        taken[:, task] = load * shares[minutes, task] if parents in ((), (0,)) else emitted[:, list(parents)].sum(axis=1)
        emitted[:, task] = _released(taken[:, task] * passes[minutes, task], int(held[task]))
    mean = taken.sum(axis=0) / load.sum()
    reached, sent = (np.minimum(flow / load[:, None], REACHED_MOST * mean) for flow in (taken, emitted))
    return Waves(reached, sent, reached / mean)


def wandering(generator: np.random.Generator, minutes: float, count: int) -> Float64:
    """Return stationary Ornstein-Uhlenbeck processes of variance 1, [COURSE_MINUTES, n]."""
    keeps = np.exp(-1.0 / minutes)
    steps = generator.standard_normal((COURSE_MINUTES, count))
    steps[1:] *= np.sqrt(1.0 - keeps**2)
    for minute in range(1, COURSE_MINUTES):
        steps[minute] += keeps * steps[minute - 1]
    return steps


@lru_cache(maxsize=8)
def _drawn(seed: int, graph: JobGraph) -> tuple[Float64, Float64, Int64]:
    """Return shares of the load [T, N], 1 where a task reads no source, selectivities [T, N], and minutes held back [N]."""
    generator, size = np.random.default_rng([seed, 10]), graph.size
    real = np.zeros(size, dtype=np.bool_)
    real[1:-1] = True
    readers = np.array([parents == (0,) for parents in graph.upstream])
    hours = np.arange(COURSE_MINUTES)[:, None] / DAY_MINUTES
    swing, phase = generator.uniform(*SWING, size), generator.random(size)
    logs = swing * np.sin(2.0 * np.pi * (hours - phase)) + WANDERS * wandering(generator, WANDER_MINUTES, size)
    weights = np.where(readers, np.exp(logs), 0.0)
    shares = np.where(readers, weights / weights.sum(axis=1, keepdims=True), 1.0)
    moves = real & (generator.random(size) < 0.5)
    passes = np.where(moves, WANDERS, 0.0) * wandering(generator, WANDER_MINUTES, size)
    for minute in np.flatnonzero(generator.random(COURSE_MINUTES) < CAMPAIGNS_A_DAY / DAY_MINUTES).tolist():
        task, lasts = generator.choice(np.flatnonzero(real)), int(generator.integers(*CAMPAIGN_MINUTES, endpoint=True))
        passes[minute : minute + lasts, task] += np.log(generator.uniform(*CAMPAIGN))
    holds = real & np.array(graph.stateful) & (generator.random(size) < 0.5)
    held = np.where(holds, generator.integers(*HELD_MINUTES, size, endpoint=True), 0)
    return shares, np.exp(passes), held


def _released(flow: Float64, held: int) -> Float64:
    """Return a flow [T] held back by half of these minutes to one and a half times as many, evenly; it repeats after its end."""
    if not held:
        return flow
    least = held // 2
    total = np.cumsum(np.concatenate([np.zeros(1), np.resize(flow[::-1], least + held)[::-1], flow]))
    at = np.arange(len(flow)) + held + 1  # the minutes from least + held - 1 to least before each
    released: Float64 = (total[at] - total[at - held]) / held
    return released
