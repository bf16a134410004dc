"""Writes the command for a plan that the gate has let through. Chooses nothing."""

from __future__ import annotations

from contracts.ids import Cluster, command_id
from contracts.messages import RescheduleCommand
from rescaler.control.plan import JobPlan
from rescaler.gate import Transition

STEP = 0  # every change goes in one step


def issued(
    plan: JobPlan,
    transition: Transition,
    *,
    cluster: Cluster,
    job: str,
    generation: int,
    placement_generation: int,
    decision_id: str,
    at_ms: int,
    deadline_ms: int,
    advice: bool,
) -> RescheduleCommand:
    """The command that asks for all of a plan; its identity is job, generation and step."""
    return RescheduleCommand(
        command_id=command_id(job, generation, STEP),
        cluster=cluster,
        job=job,
        desired_generation=generation,
        step=STEP,
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
