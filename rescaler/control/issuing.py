"""Writes the commands of a rescale: the first one for a plan that the gate let through, then each further step."""

from __future__ import annotations

from typing import Literal

import msgspec

from contracts.commands import RescheduleCommand
from contracts.ids import Cluster, command_id
from rescaler.control.plan import JobPlan
from rescaler.gate import Transition

Action = Literal["prepare", "commit", "abort"]

FIRST_STEP = 0


def issued(
    plan: JobPlan,
    transition: Transition,
    *,
    action: Action,
    cluster: Cluster,
    job: str,
    generation: int,
    placement_generation: int,
    decision_id: str,
    at_ms: int,
    deadline_ms: int,
    advice: bool,
) -> RescheduleCommand:
    """The command that begins to carry out a plan; its identity is job, generation and step."""
    return RescheduleCommand(
        command_id=command_id(job, generation, FIRST_STEP),
        cluster=cluster,
        job=job,
        desired_generation=generation,
        step=FIRST_STEP,
        steps=_steps(FIRST_STEP, action),
        action=action,
        base_placement_generation=placement_generation,
        decision_id=decision_id,
        gate_reason=transition.reason.value,
        gate_cause=transition.cause.value,
        issued_at_ms=at_ms,
        changes=plan.changes,
        placement=plan.placement,
        advice=advice,
        deadline_ms=deadline_ms,
    )


def followed_by(
    before: RescheduleCommand, action: Action, *, at_ms: int, deadline_ms: int, plan: JobPlan | None = None
) -> RescheduleCommand:
    """The next step of a rescale: of the same plan, or of another one that takes its place."""
    step = before.step + 1
    return msgspec.structs.replace(
        before,
        command_id=command_id(before.job, before.desired_generation, step),
        step=step,
        steps=_steps(step, action),
        action=action,
        issued_at_ms=at_ms,
        deadline_ms=deadline_ms,
        changes=before.changes if plan is None else plan.changes,
        placement=before.placement if plan is None else plan.placement,
    )


def _steps(step: int, action: Action) -> int:
    """After a preparation one more step follows, as far as is known then."""
    return step + (2 if action == "prepare" else 1)
