"""Advice that somebody approves: exactly what was advised is carried out, if it is still the newest and still possible.

An approval is part of the job's settings. It is answered once, under an id of its own, like an act of the rescaler's own. Every
decision on the job, act or hold, makes earlier advice void.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from contracts.decisions import TaskDecision
from contracts.ids import decision_id
from contracts.job_settings import Approval
from contracts.messages import JobTopology
from contracts.own_acts import OwnAct
from rescaler.control.job import limits
from rescaler.control.job.checks import Objection, no_longer_possible, objection_to
from rescaler.control.job.context import JobContext
from rescaler.control.job.engine_checks import objection_of_engine
from rescaler.control.job.memory import Advice, PendingAct, TaskTarget
from rescaler.control.outcomes import OutcomeReason
from rescaler.control.world import parallelism_of


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an approval asks for, as the checks of decisions see it."""

    span_end_ms: int
    tasks: tuple[TaskDecision, ...]


def look(context: JobContext) -> None:
    """Take up an approval that has not been answered yet: as an act that waits for the gate, or with a refusal."""
    memory, approval = context.memory, context.world.allowed.approval
    if approval is msgspec.UNSET or approval == memory.approval:
        return
    # The clock may stand while several are given: each has an id of its own.
    at_ms = max(context.now_ms, memory.approved_at_ms + 1)
    memory.approval, memory.approved_at_ms = approval, at_ms
    act = PendingAct(
        decision_id=decision_id(memory.job, at_ms, OwnAct.APPROVED.value),
        span_end_ms=context.now_ms,
        accepted_at_ms=context.now_ms,
        wanted=memory.advised.wanted if memory.advised else {},
        own=OwnAct.APPROVED,
        note=f"{approval.decision_id}, approved by {approval.by}",
    )
    objection = _objection(context, act, approval)
    if objection is None:
        memory.pending = act
    else:
        context.add_outcome(act, "refused", objection.reason, detail=f"{act.note}: {objection.detail}")


def _objection(context: JobContext, act: PendingAct, approval: Approval) -> Objection | None:
    memory, topology, world = context.memory, context.topology, context.world
    if memory.advised is None or memory.advised.decision_id != approval.decision_id:
        newest = f"the newest advice is {memory.advised.decision_id}" if memory.advised else "no advice is open"
        return Objection(OutcomeReason.NO_SUCH_ADVICE, newest)
    objection = no_longer_possible(act, topology, world.mode)
    if objection is not None or topology is None:
        return objection
    if world.engine.acts == "none":
        return Objection(OutcomeReason.ADVISE, "mode: its engine cannot be acted on")
    if memory.pending is not None:
        return Objection(OutcomeReason.ADVICE_OUTDATED, f"{memory.pending.decision_id} waits to be carried out")
    return _objection_now(context, topology, memory.advised)


def _objection_now(context: JobContext, topology: JobTopology, advice: Advice) -> Objection | None:
    """Check the advice again, as if it were a decision that has just been made. Pauses count as they do for every act."""
    world, current = context.world, parallelism_of(topology)
    for change in advice.changes:
        if current[change.task] != change.before:
            words = f"{change.task} runs with {current[change.task]}, the advice was made for {change.before}"
            return Objection(OutcomeReason.ADVICE_OUTDATED, words)
    asked = _Asked(context.now_ms, tuple(_as_decided(task, want, current[task]) for task, want in advice.wanted.items()))
    objection = objection_to(asked, topology, world.allowed, world.mode)
    if objection is None and world.by_counts:
        objection = objection_of_engine(context, topology, approved=True)
    if objection is not None:
        return objection
    kept = limits.apply_limits(
        context.memory.limits, asked, topology, world.allowed, engine=world.engine.engine, hosts=world.hosts
    )
    if kept.refusal is None and all(kept.wanted[task] == want.desired for task, want in advice.wanted.items()):
        return None
    return Objection(kept.refusal or OutcomeReason.ADVICE_OUTDATED, kept.words)


def _as_decided(task: str, want: TaskTarget, current: int) -> TaskDecision:
    return TaskDecision(
        task=task,
        current=current,
        ratio=want.desired / current,
        proposed=want.desired,
        desired=want.desired,
        floor=want.floor,
        overloaded=want.overloaded_at is not None,
        records_per_minute=want.overloaded_at,
    )
