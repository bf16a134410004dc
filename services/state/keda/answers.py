"""What KEDA is told of a job: how many workers each task should have, and whether it is to have any. Knows no gRPC.

Where nothing new is known there is no figure but an error: KEDA then keeps the size, or does what its ``fallback`` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from surescale.contracts.errors import RecordRejected, SurescaleError
from surescale.contracts.ids import split_job
from surescale.contracts.suggestions import near
from surescale.services.state.metrics import GONE
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.view import NotFound


class BadMetadata(SurescaleError):
    """The trigger's metadata name no task of a job; one line for people."""


class NoSize(SurescaleError):
    """It is not known what size the task should have now, and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a trigger is about."""

    job: str
    task: str


def target_of(metadata: Mapping[str, str]) -> Target:
    """Return what a trigger's metadata name; KEDA adds its own, so others are not looked at.

    Raises:
        BadMetadata: the job or the task is missing, or the job is none.
    """
    job, task = metadata.get("job", ""), metadata.get("task", "")
    try:
        split_job(job)
    except RecordRejected:
        raise BadMetadata(f"metadata: job: {job!r} is no name of a job; write CLUSTER/NAME") from None
    if not task:
        raise BadMetadata(f"metadata: task: missing; write the name of one of {job}'s tasks")
    return Target(job, task)


def size_of(queries: Queries, target: Target) -> int:
    """Return how many workers a task should have by its job's latest decision, after all limits.

    Raises:
        NotFound: there is no such job, or it has no such task that may change its size.
        NoSize: what is known of the job is not new, nothing has been decided on it yet, or its size cannot be told in workers.
    """
    job = queries.overview(target.job)
    figures = {each.task: each for each in queries.task_figures([target.job])[0]}
    if target.task not in figures:
        raise NotFound(f"task of {target.job}", target.task, near(target.task, figures))
    if job.stale is not None:
        raise NoSize(f"{target.job}: {job.stale.words}")
    if job.status in GONE:
        raise NoSize(f"{target.job}: {'it has ended' if job.status == 'ended' else 'how it is now is not known'}")
    desired, fixed = figures[target.task].desired, figures[target.task].fixed
    if fixed:
        raise NoSize(f"{target.job}: task {target.task!r}: {fixed}")
    if desired is None:
        raise NoSize(f"{target.job}: nothing has been decided on task {target.task!r} yet")
    return desired


def is_active(queries: Queries, target: Target) -> bool:
    """Say whether a job is to have any worker: not while surescale has it at rest, and sees that nothing waits for it.

    Raises:
        NotFound: there is no such job.
    """
    return not queries.is_at_rest(target.job)
