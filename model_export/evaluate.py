"""Judges policies in the simulator as the road runs them: windows in, ``policies.decide`` with all guardrails, restarts paid for.

Used for the scores in a model's card. Reads the second week, which nothing was trained or chosen on.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from contracts.messages import JobSettings, JobTopology
from contracts.windows import Window
from policies.decide import decide
from policies.graph import Int64
from policies.policy import Policy
from policies.proposal import Float64
from simulation.jobs import SizedJob
from simulation.loop import LoopRows, Terms
from simulation.report import block_reward
from simulation.workload import Workload

SPANS_PER_HOUR = 6


@dataclass(frozen=True, slots=True)
class Score:
    """One policy on one job over some days: hourly rewards and means.

    Attributes:
        hourly: float64 [hours], reward of each hour.
        latency: minutes, weighted by records. utilisation: busy over allocated.
        rescales_per_day: restarts paid for.
    """

    hourly: Float64
    latency: float
    utilisation: float
    rescales_per_day: float

    @property
    def reward(self) -> float:
        """Return the mean hourly reward."""
        return float(self.hourly.mean())

    def row(self) -> dict[str, float]:
        """Return the figures as a card prints them."""
        return {
            "reward": round(self.reward, 4),
            "latency_minutes": round(self.latency, 4),
            "utilisation": round(self.utilisation, 4),
            "rescales_per_day": round(self.rescales_per_day, 2),
            "worst_hour": round(float(self.hourly.min()), 4),
        }


def judge(policy: Policy, job: SizedJob, workload: Workload, first_minutes: Int64, spans: int, seed: int = 0) -> Score:
    """Run a policy over rows that begin at ``first_minutes`` [B], each at its configured parallelism, for ``spans`` decisions."""
    rows = LoopRows(job, workload, first_minutes, np.tile(job.configured_parallelism, (len(first_minutes), 1)), Terms())
    settings = JobSettings(job=f"sim/{job.name}", total_limit=job.total_limit)
    specs = job.specs()
    sums, restarts = [], 0
    for _ in range(spans):
        seen = rows.observe()
        desired = np.empty_like(seen.current)
        for row, current in enumerate(seen.current):
            tasks = tuple(msgspec.structs.replace(spec, parallelism=int(size)) for spec, size in zip(specs, current, strict=True))
            window = Window(
                job=settings.job,
                window_end_ms=int(seen.ends_ms[row]),
                figures=seen.figures[row],
                topology=JobTopology(job=settings.job, version=0, at_ms=0, tasks=tasks),
                hourly_load=seen.hourly_load[row].astype(np.float32),
                hourly_peak=seen.hourly_peak[row].astype(np.float32),
            )
            desired[row] = [task.desired for task in decide(window, policy, settings, seed=seed).tasks]
        span = rows.step(desired)
        restarts += int(span.restarted.sum())
        sums.append((span.arrivals, span.backlog_minutes, span.busy_minutes, span.allocated_minutes))
    return _score(np.array(sums), restarts, job, rows.terms)


def _score(sums: Float64, restarts: int, job: SizedJob, terms: Terms) -> Score:
    spans, _, rows = sums.shape
    hours = sums.transpose(1, 2, 0).reshape(4, rows, spans // SPANS_PER_HOUR, SPANS_PER_HOUR).sum(axis=-1)
    total = hours.sum(axis=(1, 2))
    return Score(
        hourly=block_reward(*hours, job.path_minutes, terms.latency_weight).ravel(),
        latency=float(total[1] / total[0] + job.path_minutes),
        utilisation=float(total[2] / total[3]),
        rescales_per_day=restarts / rows / spans * SPANS_PER_HOUR * 24,
    )


def paired(first: Score, second: Score, block_hours: int = 12) -> tuple[float, float]:
    """Return mean difference of hourly rewards and its standard error over blocks of half a day."""
    difference = first.hourly - second.hourly
    blocks = difference[: len(difference) // block_hours * block_hours].reshape(-1, block_hours).mean(axis=1)
    return float(difference.mean()), float(blocks.std(ddof=1) / np.sqrt(len(blocks)))
