"""Checks whether a decision may be carried out at all, against the latest topology and settings.

The guardrails of the policies have already amended it. Here nothing is amended, only accepted or refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from contracts.decisions import TaskDecision
from contracts.job_limits import bounds_of, total_limit
from contracts.job_settings import JobSettings
from contracts.messages import JobTopology, TaskSpec
from contracts.modes import ModeInForce
from contracts.own_acts import OwnAct
from contracts.topology import has_ended
from rescaler.control.job.limits import SizeRequest
from rescaler.control.job.memory import PendingAct
from rescaler.control.outcomes import OutcomeReason


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to refuse, and a sentence that names the field."""

    reason: OutcomeReason
    detail: str


def objection_to(decision: SizeRequest, topology: JobTopology, settings: JobSettings, mode: ModeInForce) -> Objection | None:
    """Return the first objection; None if the decision can be accepted.

    ``topology`` is the job as it runs now. A task that is outside its bounds already may stay as it is, and may go towards them
    in steps.
    """
    if has_ended(topology):
        return Objection(OutcomeReason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if mode.mode == "observe":
        return _observed(mode)
    specs = {spec.task: spec for spec in topology.tasks}
    wanted: dict[str, int] = {}
    for index, task in enumerate(decision.tasks):
        field = f"tasks[{index}]"
        if task.task not in specs:
            return Objection(OutcomeReason.UNKNOWN_TASK, f"{field}.task: {task.task!r} is not a task of job {topology.job}")
        if task.task in wanted:
            return Objection(OutcomeReason.REPEATED_TASK, f"{field}.task: {task.task!r} is named twice")
        wanted[task.task] = task.desired
        objection = _task_objection(field, task, specs[task.task], settings, topology.engine)
        if objection:
            return objection
    return _total_objection(wanted, topology, settings)


def no_longer_possible(pending: PendingAct, topology: JobTopology | None, mode: ModeInForce) -> Objection | None:
    """Return why an accepted act can no longer be carried out; None while it can."""
    if topology is None:
        return Objection(OutcomeReason.UNKNOWN_JOB, "job: its topology is gone")
    if has_ended(topology):
        return Objection(OutcomeReason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if mode.mode == "observe":
        return _observed(mode)
    if pending.own and pending.own is not OwnAct.APPROVED and mode.mode == "advise":
        detail = f"mode: advise: {pending.own} is an act of the rescaler's own, and happens in mode act only"
        return Objection(OutcomeReason.ADVISE, detail)
    if pending.own is OwnAct.APPROVED and topology.state == "waiting":  # it was advised to a job that ran: first comes its start
        return Objection(OutcomeReason.JOB_NOT_RUNNING, "job: waiting")
    fixed = [spec for spec in topology.tasks if spec.fixed and _size_of(spec.task, pending) not in (None, spec.parallelism)]
    if fixed:
        return Objection(OutcomeReason.NOT_SCALABLE, f"tasks: {fixed[0].task!r}: {fixed[0].fixed}")
    gone = sorted(set(pending.wanted) - {spec.task for spec in topology.tasks})
    return Objection(OutcomeReason.TOPOLOGY_CHANGED, f"tasks: {gone[0]!r} is gone") if gone else None


def _size_of(task: str, pending: PendingAct) -> int | None:
    return pending.wanted[task].desired if task in pending.wanted else None


def _observed(mode: ModeInForce) -> Objection:
    return Objection(OutcomeReason.OBSERVE, "" if mode.source == "settings" else f"mode: {mode}")


def _task_objection(field: str, task: TaskDecision, spec: TaskSpec, settings: JobSettings, engine: str) -> Objection | None:
    if task.desired == spec.parallelism:
        return None
    if spec.fixed:
        return Objection(OutcomeReason.NOT_SCALABLE, f"{field}.desired: {task.task!r}: {spec.fixed}")
    if not spec.scalable:
        return Objection(
            OutcomeReason.NOT_SCALABLE, f"{field}.desired: {task.task!r} has the fixed parallelism {spec.parallelism}"
        )
    least, most, pinned = bounds_of(settings, spec, engine)
    if pinned:
        return Objection(OutcomeReason.OUT_OF_BOUNDS, f"{field}.desired: {task.task!r} is pinned to {spec.parallelism}")
    if not min(least, spec.parallelism) <= task.desired <= max(most, spec.parallelism):
        return Objection(
            OutcomeReason.OUT_OF_BOUNDS, f"{field}.desired: {task.desired} for {task.task!r}, allowed {least} to {most}"
        )
    return None


def _total_objection(wanted: dict[str, int], topology: JobTopology, settings: JobSettings) -> Objection | None:
    scalable = [spec for spec in topology.tasks if spec.scalable]
    before = sum(spec.parallelism for spec in scalable)
    after = sum(wanted.get(spec.task, spec.parallelism) for spec in scalable)
    total = total_limit(settings, topology.engine)
    if total is None or after <= max(total, before):
        return None
    return Objection(OutcomeReason.ABOVE_TOTAL_LIMIT, f"tasks: {after} subtasks in all, allowed {total}")
