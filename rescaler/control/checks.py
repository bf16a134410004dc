"""May a decision be carried out at all: the rescaler's own look at it, against the newest topology and settings.

The guardrails of the policies have amended it before; here nothing is amended, only accepted or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.messages import Decision, JobSettings, JobTopology, TaskDecision, TaskSpec
from contracts.topology import has_ended
from rescaler.control.memory import PendingAct
from rescaler.control.reasons import Reason


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to refuse, and a sentence that names the field."""

    reason: Reason
    detail: str


def objection_to(decision: Decision, topology: JobTopology, settings: JobSettings) -> Objection | None:
    """The first objection, None if the decision can be taken on.

    ``topology`` is the job as it runs now. Only what the decision would change is held against the bounds: a task that is
    outside of them and stays as it is harms nobody.
    """
    if has_ended(topology):
        return Objection(Reason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if settings.mode == "observe":
        return Objection(Reason.OBSERVE, "")
    specs = {spec.task: spec for spec in topology.tasks}
    wanted: dict[str, int] = {}
    for index, task in enumerate(decision.tasks):
        field = f"tasks[{index}]"
        if task.task not in specs:
            return Objection(Reason.UNKNOWN_TASK, f"{field}.task: {task.task!r} is no task of job {topology.job}")
        if task.task in wanted:
            return Objection(Reason.REPEATED_TASK, f"{field}.task: {task.task!r} is named twice")
        wanted[task.task] = task.desired
        objection = _task_objection(field, task, specs[task.task], settings)
        if objection:
            return objection
    return _total_objection(wanted, topology, settings)


def no_longer_possible(pending: PendingAct, topology: JobTopology | None, settings: JobSettings) -> Objection | None:
    """Why an act that was taken on can never be carried out any more; None while it can."""
    if topology is None:
        return Objection(Reason.UNKNOWN_JOB, "job: its topology is gone")
    if has_ended(topology):
        return Objection(Reason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if settings.mode == "observe":
        return Objection(Reason.OBSERVE, "")
    if pending.own and settings.mode == "advise":
        return Objection(Reason.ADVISE, f"mode: advise: {pending.own} is no policy's wish, and is made in mode act only")
    gone = sorted(set(pending.wanted) - {spec.task for spec in topology.tasks})
    return Objection(Reason.TOPOLOGY_CHANGED, f"tasks: {gone[0]!r} is gone") if gone else None


def _task_objection(field: str, task: TaskDecision, spec: TaskSpec, settings: JobSettings) -> Objection | None:
    if task.desired == spec.parallelism:
        return None
    if not spec.scalable:
        return Objection(Reason.NOT_SCALABLE, f"{field}.desired: {task.task!r} has the fixed parallelism {spec.parallelism}")
    least, most = settings.parallelism_min, min(settings.parallelism_max, spec.max_parallelism)
    if spec.stateful:
        most = min(most, spec.vnodes)  # a subtask without a vnode would have nothing to do
    if not least <= task.desired <= most:
        return Objection(Reason.OUT_OF_BOUNDS, f"{field}.desired: {task.desired} for {task.task!r}, allowed {least} to {most}")
    return None


def _total_objection(wanted: dict[str, int], topology: JobTopology, settings: JobSettings) -> Objection | None:
    scalable = [spec for spec in topology.tasks if spec.scalable]
    before = sum(spec.parallelism for spec in scalable)
    after = sum(wanted.get(spec.task, spec.parallelism) for spec in scalable)
    if after <= max(settings.total_limit, before):
        return None
    return Objection(Reason.ABOVE_TOTAL_LIMIT, f"tasks: {after} subtasks in all, allowed {settings.total_limit}")
