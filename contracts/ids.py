"""Identities. A record is counted once by its identity, however often it is delivered."""

from typing import NewType

from contracts.errors import RecordRejected

Cluster = NewType("Cluster", str)
JobId = NewType("JobId", str)  # "cluster/name"
TaskId = NewType("TaskId", str)  # unique within its job
UnitId = NewType("UnitId", int)  # cluster-wide, allocated by the engine, never used again


def job_id(cluster: str, name: str) -> JobId:
    """Join cluster and name, e.g. ``job_id("sim", "clicks") == "sim/clicks"``."""
    job = JobId(f"{cluster}/{name}")
    split_job(job)
    return job


def split_job(job: str) -> tuple[Cluster, str]:
    """Take a job id apart.

    Raises:
        RecordRejected: the id has not exactly one slash with text on both sides.
    """
    cluster, slash, name = job.partition("/")
    if not slash or not cluster or not name or "/" in name:
        raise RecordRejected("invalid_field", "job", f"{job!r} is not of the form cluster/name")
    return Cluster(cluster), name


def cluster_of(job: str) -> Cluster:
    """Return the cluster of a job id."""
    return split_job(job)[0]


def window_id(job: str, window_end_ms: int, window_minutes: int, layout: int) -> str:
    """Identity of a window: the same job, end, length and layout carry the same bytes."""
    return f"{job}@{window_end_ms}/{window_minutes}m/v{layout}"


def decision_id(job: str, span_end_ms: int, policy: str) -> str:
    """Identity of a decision: one per job, span and policy; the first in partition order wins."""
    return f"{job}@{span_end_ms}/{policy}"


def command_id(job: str, desired_generation: int, step: int) -> str:
    """Identity of a command: applying it twice changes nothing."""
    return f"{job}#{desired_generation}.{step}"
