"""What the latest decision of each job says of its tasks, for a board: wanted size, target rate, true rate. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from surescale.contracts.decisions import TaskDecision
from surescale.contracts.job_limits import has_members
from surescale.contracts.messages import JobTopology
from surescale.contracts.topology import RESTING, size_to_ask

TASKS_SHOWN_MAX = 2_000
"""Of all jobs together: each has a handful of series, and a metrics system keeps every one that it has ever seen."""
NAME_LENGTH_MAX = 120


class DecidedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a decision that says how its tasks stood, and what they are to become."""

    tasks: tuple[TaskDecision, ...] = ()
    load_records_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One task that may change its size; a rate that is not known is None.

    Attributes:
        job: its id.
        task: its label, or its id if another task of the job has that label, or it has none.
        parallelism: subtasks that run.
        desired: subtasks that are to be asked for by the latest decision: as many as it wants, and where fewer run than are asked
            for, no fewer than that takes (`size_to_ask`). None also while no other size than the present one can be asked for.
        fixed: why that is so, for people; empty: it is not.
        target_rate: records a minute that would come to it if nothing were held back: what it took in, times what came to the
            job over what the job let in.
        true_rate: records a minute that it would process if its subtasks never rested.
    """

    job: str
    task: str
    parallelism: int
    desired: int | None
    target_rate: float | None
    true_rate: float | None
    fixed: str = ""


def task_figures(
    known: Iterable[tuple[str, JobTopology, DecidedTasks]], most: int = TASKS_SHOWN_MAX
) -> tuple[list[TaskFigures], int]:
    """Return the figures of each scalable task, in the order of the jobs, and how many tasks are left out.

    ``known``: id, topology and latest decision of each job.
    """
    every = [each for job, topology, decided in known for each in _of_job(job, topology, decided)]
    return every[:most], max(0, len(every) - most)


def _of_job(job: str, topology: JobTopology, decided: DecidedTasks) -> Iterable[TaskFigures]:
    by_task = {task.task: task for task in decided.tasks}
    held_back = _held_back(topology, by_task, decided.load_records_per_minute)
    names = _names(topology)
    for spec in topology.tasks:
        if not spec.scalable:
            continue
        task = by_task.get(spec.task)
        running = 0 if topology.state == RESTING else spec.parallelism
        desired = None
        if task and not spec.fixed:  # else what pods of three members run would be pods
            desired = size_to_ask(spec, task.desired, running, are_members=has_members(topology.engine))
        taken = task.records_per_minute if task else None
        busy = task.utilisation if task else None
        yield TaskFigures(
            job=job,
            task=names[spec.task],
            parallelism=running,
            desired=desired,
            target_rate=None if taken is None or held_back is None else taken * held_back,
            true_rate=taken / busy if taken is not None and busy else None,
            fixed=spec.fixed,
        )


def _held_back(topology: JobTopology, by_task: Mapping[str, TaskDecision], load: float | None) -> float | None:
    """Return what came to a job over what its sources let in; None where either is unknown."""
    sources = [by_task.get(spec.task) for spec in topology.tasks if not spec.upstream]
    taken = [source.records_per_minute for source in sources if source is not None and source.records_per_minute is not None]
    entered = math.fsum(taken)
    return load / entered if load is not None and len(taken) == len(sources) and entered > 0 else None


def _names(topology: JobTopology) -> dict[str, str]:
    """Return a name of each task that no other task of the job has."""
    labels = [(spec.label or spec.task)[:NAME_LENGTH_MAX] for spec in topology.tasks]
    return {
        spec.task: label if labels.count(label) == 1 else spec.task for spec, label in zip(topology.tasks, labels, strict=True)
    }
