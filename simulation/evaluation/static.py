"""The best constant sizes on the calibration part: proportional vectors first, then single tasks up and down.

In mode ``clean`` latency depends only on the bottleneck, so the best vector is near p_i = ceil(c x d_i) for some capacity c in
records per minute. In the other modes every stage adds its own wait, so single tasks matter; the local search finds them.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.simulation.evaluation.hours import HOUR_MINUTES, hours_of
from surescale.simulation.evaluation.tune import CalibrationPart
from surescale.simulation.load.jobs import PARALLELISM_MAX, SizedJob

FAMILY_MAX = 40
ROUNDS = 6  # of single steps
GAIN_MIN = 1e-4  # a step that gains less is noise
TOGETHER = (1, 2, 4, 8, 16, 32)  # how many of the best single steps are tried at once


@dataclass(frozen=True, slots=True)
class StaticSizes:
    """The chosen vector int64 [N] and its mean reward on the calibration part."""

    sizes: Int64
    reward: float


def proportional(job: SizedJob, capacities: Float64) -> Int64:
    """Return int64 [C, N]: the least sizes that serve each capacity [C] in records per minute, within the limits."""
    exact = capacities[:, None] * job.service_minutes
    sizes = np.clip(np.ceil(exact - 1e-9), 1, PARALLELISM_MAX).astype(np.int64)
    return job.within_limits(sizes)


def family(job: SizedJob) -> Int64:
    """Return different proportional vectors [C, N]."""
    real = job.service_minutes[job.scalable]
    real = real[real > 0]
    breaks = np.unique(np.round((np.arange(1, PARALLELISM_MAX + 1)[:, None] / real).ravel(), 9))
    breaks = breaks[breaks <= PARALLELISM_MAX / real.max() * (1 + 1e-6)]
    if len(breaks) > FAMILY_MAX:
        breaks = breaks[np.unique(np.linspace(0, len(breaks) - 1, FAMILY_MAX).round().astype(np.int64))]
    return np.unique(proportional(job, breaks), axis=0)


def best_static(ground: CalibrationPart) -> StaticSizes:
    """Return the best vector found. Deterministic."""
    job = ground.job
    uniform = job.within_limits(np.repeat(np.arange(1, PARALLELISM_MAX + 1)[:, None], job.size, axis=1))
    candidates = np.unique(np.vstack([family(job), uniform, job.start_parallelism[None]]), axis=0)
    scores = sizes_scores(candidates, ground)
    best, reward = candidates[int(np.argmax(scores))], float(scores.max())
    for _ in range(ROUNDS):
        stepped, gained = _stepped(best, reward, ground)
        if gained - reward < GAIN_MIN:
            break
        best, reward = stepped, gained
    return StaticSizes(best, reward)


def sizes_scores(candidates: Int64, ground: CalibrationPart) -> Float64:
    """Return the mean reward [C] of sizes [C, N] on the calibration part."""
    rows = ground.rows(candidates, HOUR_MINUTES)
    desired = np.repeat(candidates, len(ground.first_minutes), axis=0)
    spans = [rows.step(desired) for _ in range(ground.hours)]
    first = np.tile(ground.first_minutes, len(candidates))
    return ground.scores(hours_of(spans, rows.terms, first, ground.job), len(candidates))


def single_steps(sizes: Int64, job: SizedJob) -> Int64:
    """Return the vectors [C, N] that differ from sizes [N] by one subtask at one task, within the limits."""
    tasks = np.flatnonzero(job.scalable)
    up, down = np.repeat(sizes[None], len(tasks), axis=0), np.repeat(sizes[None], len(tasks), axis=0)
    up[np.arange(len(tasks)), tasks] += 1
    down[np.arange(len(tasks)), tasks] -= 1
    steps = np.vstack([up, down])
    real = steps[:, job.scalable]
    allowed = (real >= 1).all(axis=1) & (real <= PARALLELISM_MAX).all(axis=1) & (real.sum(axis=1) <= job.total_limit)
    chosen: Int64 = steps[allowed]
    return chosen


def _stepped(sizes: Int64, reward: float, ground: CalibrationPart) -> tuple[Int64, float]:
    steps = single_steps(sizes, ground.job)
    if not len(steps):
        return sizes, reward
    scores = sizes_scores(steps, ground)
    order = np.argsort(-scores, kind="stable")
    better = steps[order[scores[order] > reward]]
    if not len(better):
        return sizes, reward
    moved = np.array([_together(sizes, better[:count]) for count in TOGETHER if count <= len(better)])
    moved = moved[(moved[:, ground.job.scalable].sum(axis=1) <= ground.job.total_limit)]
    together = sizes_scores(moved, ground)
    return moved[int(np.argmax(together))], float(together.max())


def _together(sizes: Int64, steps: Int64) -> Int64:
    """Return sizes with several single steps at once; opposite steps of one task cancel out."""
    moved: Int64 = np.clip(sizes + (steps - sizes).sum(axis=0), 1, PARALLELISM_MAX)
    return moved
