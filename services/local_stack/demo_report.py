"""The report of a demo: what ``--out`` writes and the summary shows."""

from collections.abc import Mapping
from statistics import fmean
from typing import Self

import msgspec

from contracts.rent import RentCost
from services.engine.documents import ReportedJob
from services.local_stack.pipeline_figures import Counts, Freshness
from services.local_stack.rescale_figures import Rescaling


class JobCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one job's hosts cost in dollars, and what its placement saved against two others."""

    dollars: float
    per_s: float
    per_day: float
    saved_round_robin: float
    saved_default: float

    @classmethod
    def of(cls, bill: RentCost) -> Self:
        """Return a bill rounded for the report."""
        return cls(**bill.document())


class ClusterCost(msgspec.Struct, frozen=True):
    """Cost of all hosts in use, in dollars; a host that jobs share is paid once."""

    dollars: float


class JobFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one job did under one policy; ``parallelism`` is the sum over its tasks, per minute."""

    reward: float
    latency_mean_s: float
    latency_p99_s: float
    utilisation: float
    task_minutes: int
    rescales: int
    overload_minutes: int
    parallelism: tuple[int, ...]
    rent: JobCost | None

    @classmethod
    def of(cls, job: ReportedJob, rent: JobCost | None) -> Self:
        """Return the figures of a job that ran in the pipeline."""
        own = {name: getattr(job, name) for name in cls.__struct_fields__ if name != "rent"}
        return cls(**own, rent=rent)


class Twins(msgspec.Struct, frozen=True):
    """What other policies would have made of the same run, by job and policy: the output of ``surescale twin``."""

    jobs: dict[str, dict[str, JobFigures]] = {}
    rent: dict[str, ClusterCost] = {}


class PolicyRan(msgspec.Struct, frozen=True):
    """The policy that decided in the pipeline; the hash is empty for a rule."""

    name: str
    sha256: str


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pipeline can be reached while it is up."""

    kafka: str
    redis: str
    http: str


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run of the pipeline came to. ``jobs`` and ``rent`` are by policy; the one that acted comes first.

    ``decided_by``: by job, the policies that were asked in the pipeline, in their order; ``policy`` is the first one.
    """

    jobs: dict[str, dict[str, JobFigures]]
    rent: dict[str, ClusterCost]
    counts: Counts
    rescaling: Rescaling
    freshness_s: Freshness
    policy: PolicyRan
    decided_by: dict[str, tuple[str, ...]]
    window_minutes: int
    span_minutes: int
    minutes: int
    seed: int
    pace: str
    lockstep_misses: int
    wall_s: float
    endpoints: Endpoints


def together(jobs: Mapping[str, Mapping[str, JobFigures]]) -> dict[str, JobFigures]:
    """Return the figures of all jobs by policy, without their minutes.

    Reward, latency and utilisation are means over the jobs; subtask minutes, rescales, overload and rent are sums.
    """
    policies = next(iter(jobs.values()))
    return {policy: _together([figures[policy] for figures in jobs.values()]) for policy in policies}


def _together(jobs: list[JobFigures]) -> JobFigures:
    rents = [job.rent for job in jobs if job.rent is not None]
    return JobFigures(
        reward=fmean(job.reward for job in jobs),
        latency_mean_s=fmean(job.latency_mean_s for job in jobs),
        latency_p99_s=fmean(job.latency_p99_s for job in jobs),
        utilisation=fmean(job.utilisation for job in jobs),
        task_minutes=sum(job.task_minutes for job in jobs),
        rescales=sum(job.rescales for job in jobs),
        overload_minutes=sum(job.overload_minutes for job in jobs),
        parallelism=(),
        rent=_sum(rents) if rents else None,
    )


def _sum(rents: list[JobCost]) -> JobCost:
    return JobCost(**{name: sum(getattr(rent, name) for rent in rents) for name in JobCost.__struct_fields__})
