"""Mean and standard deviation of the 27 slots over loops on all six jobs, or others, and the sizes that loops start with."""

from collections.abc import Iterable

import msgspec
import numpy as np

from benchmarks.archive import load_job
from reproductions.sure.environment import JOBS, PaperMode, View, sizes_of, terms_of, week
from surescale.policies.features import SURE_WIDTH
from surescale.policies.graph import Int64
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows

STD_MIN = 0.05  # so that a slot that hardly varies in training cannot explode later
ROWS, DECISIONS = 12, 16


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and standard deviation of each slot over loops; frozen inside the sampler's graph too."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def spread_start(job: SizedJob, load: Workload, first: Int64, generator: np.random.Generator) -> Int64:
    """Return start sizes [B, N] of three kinds: as runs start, fitted to the load at a random utilisation, and ample but uneven.

    Sizes drawn freely would nearly always overload a job, because its slowest task decides, and teach only to grow.
    """
    rows = len(first)
    around = load.requests[(first[:, None] - np.arange(1, 61)) % load.minutes].mean(axis=1)
    utilisation = generator.uniform(0.5, 1.0, size=(rows, 1))
    fit = np.ceil(around[:, None] / utilisation * job.service_minutes)
    ample = np.ceil(fit * generator.uniform(1.0, 3.0, size=(rows, 1))) + generator.integers(-1, 3, size=(rows, job.size))
    kind = (np.arange(rows) % 3)[:, None]
    sizes = np.where(kind == 0, job.start_parallelism, np.where(kind == 1, fit, ample))
    return job.within_limits(sizes.astype(np.int64))


def fit_statistics(workload: Workload, mode: PaperMode, seed: int = 0, jobs: Iterable[str] = JOBS) -> Statistics:
    """Return the statistics of week 1 over loops that follow utilisation with noise. Each job has equal weight."""
    load, terms, generator = week(workload, 1), terms_of(mode), np.random.default_rng(seed)
    total, squares, count = np.zeros(SURE_WIDTH), np.zeros(SURE_WIDTH), 0
    for name in jobs:
        job = load_job(name, workload)
        first = generator.integers(60, load.minutes, size=ROWS)
        rows = LoopRows(job, load, first, spread_start(job, load, first, generator), terms)
        for _ in range(DECISIONS):
            view = View(rows.observe(), rows.graph, job, terms)
            slots = view.encoded.x[..., rows.graph.scalable, :SURE_WIDTH].reshape(-1, SURE_WIDTH).astype(np.float64)
            total, squares, count = total + slots.mean(axis=0), squares + np.square(slots).mean(axis=0), count + 1
            busy = view.encoded.x[..., 6].mean(axis=1) / 0.7 - 1.0
            noisy = np.clip(busy + 0.3 * generator.standard_normal(busy.shape), -1.0, 1.0)
            rows.step(sizes_of(noisy, view.observed.current, job, terms))
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    return Statistics(
        mean=tuple(round(float(value), 6) for value in mean),
        std=tuple(round(max(STD_MIN, float(value)), 6) for value in std),
    )
