"""Acts that no policy asks for: start a job that waits without units, move one off hosts that will go, move units and copies.

They change no parallelism, so the gate has nothing to decide. They wait for an idle gate, though, and it rests afterwards. While
somebody has paused both directions, only jobs that have lost their units or are about to are helped.

Advice that somebody approves is such an act too: exactly what was advised is carried out, if it is still the newest and still
possible. An approval is part of the job's settings and is answered once, under an id of its own. Every decision on the job,
act or hold, makes earlier advice void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from surescale.contracts.commands import Progress, RescheduleCommand, SlotStandbys
from surescale.contracts.decisions import TaskDecision
from surescale.contracts.ids import command_id, decision_id
from surescale.contracts.job_settings import Approval
from surescale.contracts.messages import JobTopology
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.topology import required_of, units_of
from surescale.policies import stateful_limits as limits
from surescale.rescaler.control.counts import plan_counts
from surescale.rescaler.control.hosts import MovableJob
from surescale.rescaler.control.job import rescale
from surescale.rescaler.control.job.checks import (
    Objection,
    effect_of_calendar,
    no_longer_possible,
    objection_of_engine,
    objection_to,
    stops_restoring,
)
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import Advice, PendingAct, Standby, StandbyChange, TaskTarget
from surescale.rescaler.control.job.owners import loses_state, named, to_apply_again, to_insist_on, to_take_back
from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.control.units import JobPlan, plan_moves
from surescale.rescaler.control.world import leaving_units, mode_of, parallelism_of
from surescale.rescaler.gate import Cause, Gate, GateReason, Mode, Phase, Transition
from surescale.rescaler.refusals import Refused


def own_act(topology: JobTopology, now_ms: int, own: OwnAct, *, since_ms: int) -> PendingAct:
    """Return an act that keeps every task as wide as it is, or was; ``since_ms``: when the need arose."""
    return PendingAct(
        decision_id=decision_id(topology.job, now_ms, own.value),
        span_end_ms=since_ms,
        accepted_at_ms=now_ms,
        wanted={spec.task: TaskTarget(desired=spec.parallelism, floor=0) for spec in topology.tasks if spec.scalable},
        own=own,
    )


# Jobs that wait, and jobs on hosts that will be removed


def recover(context: JobContext) -> None:
    """Want a job that waits without units started again: as wide as it was, or as wide as it can be."""
    memory, topology = context.memory, context.topology
    if memory.pending or memory.underway or context.now_ms < memory.not_before_ms:
        return
    memory.not_before_ms = 0
    if context.world.by_counts:
        return  # the engine starts it by itself
    if topology is not None and mode_of(topology) is Mode.WAITING and context.world.mode.mode == "act":
        memory.pending = own_act(topology, context.now_ms, OwnAct.RECOVERY, since_ms=topology.at_ms)


def drain(context: JobContext) -> None:
    """Move a job off hosts that will be removed, at the parallelism it has, once its gate is idle."""
    memory, topology = context.memory, context.topology
    if topology is None or memory.pending or memory.underway or not _must_drain(context, topology):
        return
    if memory.gate is not None and memory.gate.phase is not Phase.IDLING:
        return
    gate = context.gate(topology)
    plan = _plan_at_same_width(context, gate) if gate.phase is Phase.IDLING else None
    if plan is None:
        memory.gate = gate.state  # try again when its rest is over, or when there is another host
    else:
        go(context, gate, own_act(topology, context.now_ms, OwnAct.DRAIN, since_ms=context.now_ms), plan)


def _must_drain(context: JobContext, topology: JobTopology) -> bool:
    on_leaving_hosts = units_of(topology) & leaving_units(context.world.hosts)
    return topology.state == "running" and context.world.mode.mode == "act" and bool(on_leaving_hosts)


# Requirements of engines that place by themselves


def restore(context: JobContext) -> None:
    """Ask for what should be asked for: take back what was given up, insist on ours, or apply it to a new submission.

    Only in mode act, while nothing else is pending or under way and the gate is idle.
    """
    topology, memory = context.topology, context.memory
    if topology is None or not context.world.by_counts or _movable(context) is None:
        return
    for own, wanted in (
        (OwnAct.TAKE_BACK, to_take_back(context, topology)),
        (OwnAct.INSIST, to_insist_on(context)),
        (OwnAct.REAPPLY, to_apply_again(context)),
    ):
        if wanted is None or (own is not OwnAct.TAKE_BACK and loses_state(context, topology)):
            continue
        if stops_restoring(wanted, topology, context.world.pauses):
            continue
        if own is not OwnAct.TAKE_BACK and _leaves_limits(context, topology, wanted):
            continue
        plan = plan_counts(topology, wanted, whole=True)
        if not plan.changes:
            continue
        gate = context.gate(topology)
        if gate.phase is not Phase.IDLING:
            memory.gate = gate.state  # when its rest is over
            return
        act = own_act(topology, context.now_ms, own, since_ms=context.now_ms)
        go(context, gate, act, plan, f"{own.value}: {named(wanted, topology)}", wanted=wanted)
        return


def _leaves_limits(context: JobContext, topology: JobTopology, wanted: Mapping[str, int]) -> bool:
    """Say whether asking for this again would leave the limits in force now, or change a job in an excluded period.

    What is asked for now is what would change: it may not run yet.
    """
    world, required = context.world, required_of(topology)
    targets = {task: TaskTarget(desired=count, floor=0) for task, count in wanted.items()}
    tasks = (msgspec.structs.replace(spec, parallelism=required.get(spec.task, spec.parallelism)) for spec in topology.tasks)
    asked_for = msgspec.structs.replace(topology, tasks=tuple(tasks))
    asked = Asked.of(targets, parallelism_of(asked_for), context.now_ms)
    calendar = effect_of_calendar(targets, asked_for, world.engine, world.allowed.excluded or (), context.now_ms)
    return bool(calendar.kept) or objection_to(asked, asked_for, world.allowed, world.mode) is not None


def _plan_at_same_width(context: JobContext, gate: Gate) -> JobPlan | None:
    """Return a plan that changes something; None: there is none now."""
    try:
        plan = rescale.plan_rescale(context, gate.current or {})
    except Refused:
        return None
    return plan if plan.changes else None


def go(
    context: JobContext, gate: Gate, act: PendingAct, plan: JobPlan, detail: str = "", *, wanted: Mapping[str, int] | None = None
) -> None:
    """Go through an idle gate: it learns of the end as of any rescale, and then rests.

    ``wanted`` None: at constant parallelism.
    """
    after = {**(gate.current or {}), **(wanted or {})}
    transition = Transition(context.now_ms, GateReason.DESIRED, Cause.TRIGGER, after)
    going = replace(
        gate.state, phase=Phase.TRANSITIONING, entered_at_ms=context.now_ms, now_ms=context.now_ms, transition=transition
    )
    context.memory.gate = going
    rescale.begin(context, Gate(context.gate_settings, going), transition, act, plan=plan, detail=detail)


# Jobs whose units or copies move after hosts came or went


def as_movable(context: JobContext, topology: JobTopology) -> MovableJob:
    """Return a running job as a look at the hosts sees it."""
    memory = context.memory
    return MovableJob(
        topology=memory.applied.completed(topology),
        outstanding=memory.outstanding,
        is_pending=memory.pending is not None,
        is_free=is_free(context),
        standbys={each.unit: each.hosts for each in memory.standby.copies},
        units_of_others=context.world.units_of_others,
        has_ready_copies=memory.standby.ready_at_ms > 0,
    )


def is_free(context: JobContext) -> bool:
    """Say whether the job could be moved now: it runs and may be moved, nothing is pending or under way, and its gate is idle."""
    topology = _movable(context)
    return topology is not None and context.gate(topology).phase is Phase.IDLING


def note_rest(context: JobContext) -> None:
    """Remember the gate of a job that only rests, so that the end of its rest is known."""
    topology = _movable(context)
    if topology is not None and (gate := context.gate(topology)).phase is not Phase.IDLING:
        context.memory.gate = gate.state


def _movable(context: JobContext) -> JobTopology | None:
    """Return the job's topology if only its gate could keep it from moving."""
    topology, memory = context.topology, context.memory
    runs = topology is not None and topology.state == "running" and context.world.mode.mode == "act"
    return topology if runs and not memory.pending and not memory.underway else None


def move(context: JobContext, moves: Mapping[int, int]) -> None:
    """Move units of a free job to other units, each with everything on it."""
    topology, world = context.topology, context.world
    if topology is None:
        return
    taken, mappings, algorithm = world.units_of_others(), context.memory.mappings, context.rules.placing.algorithm
    plan = plan_moves(topology, moves, world.hosts, taken=taken, mappings=mappings, algorithm=algorithm)
    host_of = {unit: host.host for host in world.hosts for unit in host.units}
    to = ", ".join(sorted({host_of[unit] for unit in moves.values()}))
    act = own_act(topology, context.now_ms, OwnAct.BALANCE, since_ms=context.now_ms)
    what = "1 unit goes" if len(moves) == 1 else f"{len(moves)} units go"
    go(context, context.gate(topology), act, plan, f"hosts changed: {what} to {to}")


def change_standbys(context: JobContext, wanted: Mapping[int, tuple[str, ...]]) -> None:
    """Command which hosts are to keep copies of the state of each unit."""
    memory, topology = context.memory, context.topology
    if topology is None:
        return
    act = own_act(topology, context.now_ms, OwnAct.STANDBY, since_ms=context.now_ms)
    generation = rescale.next_generation(context)
    command = RescheduleCommand(
        command_id=command_id(memory.job, generation, rescale.FIRST_STEP),
        cluster=context.world.cluster,
        job=memory.job,
        desired_generation=generation,
        step=rescale.FIRST_STEP,
        action="standby",
        base_placement_generation=context.world.placement_generation + context.effects.commits,
        decision_id=act.decision_id,
        gate_reason="desired",
        gate_cause=Cause.TRIGGER.value,
        issued_at_ms=context.now_ms,
        changes=(),
        deadline_ms=context.now_ms + context.rules.apply_ms_max,
        standbys=tuple(SlotStandbys(unit=unit, hosts=hosts) for unit, hosts in sorted(wanted.items()) if hosts),
    )
    detail = f"{sum(map(len, wanted.values()))} copies of units' state"
    context.effects.commands.append(command)
    context.add_outcome(act, "commanded", OutcomeReason.DESIRED, detail=detail, command_id=command.command_id)
    memory.desired_generation, memory.underway = generation, StandbyChange(command=command)


def end_standby_change(context: JobContext, underway: StandbyChange, progress: Progress | None) -> None:
    """The engine keeps the copies since the time it reports, or it refused (or never answered): the next look asks again."""
    memory, command = context.memory, underway.command
    memory.underway = None
    if progress is not None and progress.status == "applied" and command.standbys is not None:
        ready_ms = memory.standby.ready_at_ms
        is_ready = ready_ms > max(progress.at_ms, command.issued_at_ms)  # the event may have come before this report
        memory.standby = Standby(
            copies=command.standbys, asked_at_ms=command.issued_at_ms, ready_at_ms=ready_ms if is_ready else 0
        )


def on_standbys_ready(context: JobContext, at_ms: int) -> None:
    """Note that all copies last commanded are complete; an event from before their command says nothing about them."""
    standby, underway = context.memory.standby, context.memory.underway
    if isinstance(underway, StandbyChange):  # whether the event is about its copies shows when it ends
        is_news = at_ms > max(underway.command.issued_at_ms, standby.ready_at_ms)
    else:
        is_news = bool(standby.copies) and at_ms > standby.asked_at_ms and not standby.ready_at_ms
    if is_news:
        context.memory.standby = Standby(copies=standby.copies, asked_at_ms=standby.asked_at_ms, ready_at_ms=at_ms)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an act of the rescaler's own asks for, as the checks of decisions see it."""

    span_end_ms: int
    tasks: tuple[TaskDecision, ...]

    @classmethod
    def of(cls, wanted: Mapping[str, TaskTarget], current: Mapping[str, int], now_ms: int) -> Asked:
        """Return what is wanted now of tasks that run as ``current``."""
        return cls(now_ms, tuple(_as_decided(task, want, current[task]) for task, want in wanted.items()))


def look(context: JobContext) -> None:
    """Take up an approval that has not been answered yet: as an act that waits for the gate, or with a refusal."""
    memory, approval = context.memory, context.world.allowed.approval
    if approval is None or approval == memory.approval:
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
    world, current, required = context.world, parallelism_of(topology), required_of(topology)
    for change in advice.changes:
        if change.before not in (current[change.task], required.get(change.task)):
            words = f"{change.task} runs with {current[change.task]}, the advice was made for {change.before}"
            return Objection(OutcomeReason.ADVICE_OUTDATED, words)
    asked = Asked.of(advice.wanted, current, context.now_ms)
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
    return Objection(OutcomeReason(kept.refusal) if kept.refusal else OutcomeReason.ADVICE_OUTDATED, kept.words)


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
