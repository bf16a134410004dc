"""Carries out one act that the gate has released: makes the plan, issues a command for each step, and records how it ended.

prepare ──ready──▶ commit ──applied──▶ over
   │ ▲                ▲
   │ └─ elsewhere ──┐ │ cold
   └─ given up ─────┴─┴──▶ abort ──▶ over, nothing has changed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from surescale.contracts.commands import GENERATION_LEAP_MAX, Expected, Progress, RescheduleCommand
from surescale.contracts.ids import command_id
from surescale.contracts.messages import JobTopology
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.topology import required_of, running_of, units_of
from surescale.policies import stateful_limits as limits
from surescale.rescaler.control.counts import plan_counts
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.job_gate import backoff_ms, targets_of
from surescale.rescaler.control.job.memory import PATIENCE_MS, Advice, AppliedCommand, PendingAct, RescaleInProgress, TaskTarget
from surescale.rescaler.control.job.owners import named, written
from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.control.units import JobPlan, plan_job
from surescale.rescaler.control.world import mode_of
from surescale.rescaler.gate import Cause, Gate, Mode, Transition
from surescale.rescaler.refusals import Refused
from surescale.rescaler.reschedule import RescheduleRefusal

Action = Literal["prepare", "commit", "abort"]

FIRST_STEP = 0

WARM_UP_TIMEOUT = "WARM_UP_TIMEOUT"
"""Learners were not ready in time."""
NOT_WARMED = "NOT_WARMED"
"""The engine has no learners, and what must not move cold stays."""
LEARNER_LOST = "LEARNER_LOST"
"""A unit that the job was to move to is gone, or on a host that will go."""


# The first command


def begin(
    context: JobContext, gate: Gate, transition: Transition, act: PendingAct, *, plan: JobPlan | None = None, detail: str = ""
) -> None:
    """Turn a released act into its first command, and remember the rescale; ``plan``: one made already."""
    memory, at_ms = context.memory, max(transition.at_ms, act.accepted_at_ms)
    try:
        plan = plan or plan_rescale(context, transition.parallelism, of=act.decision_id)
    except Refused as refusal:
        context.finish(act, "refused", _reason(refusal), at_ms=at_ms, detail=refusal.message)
        close_gate(context, gate, gate.current, ok=False, at_ms=at_ms)
        return
    if not plan.changes and context.world.by_counts:
        detail = f"{named(transition.parallelism or {}, context.topology)}: the engine is already asked for as much"
        context.finish(act, "refused", OutcomeReason.NO_CHANGE, at_ms=at_ms, detail=detail)
        close_gate(context, gate, gate.current, ok=False, at_ms=at_ms)
        return
    if act.own is OwnAct.APPROVED and (memory.advised is None or plan.changes != memory.advised.changes):
        detail = f"{act.note}: it would change other units now than advised"
        context.finish(act, "refused", OutcomeReason.ADVICE_OUTDATED, at_ms=at_ms, detail=detail)
        close_gate(context, gate, gate.current, ok=False, at_ms=at_ms)
        return
    detail = "; ".join(filter(None, (detail, *_missing(plan, context.topology))))
    command = _first_command(context, plan, transition, act, at_ms)
    reason = OutcomeReason.ADVISE if command.advice else OutcomeReason(command.gate_reason)
    context.effects.commands.append(command)
    context.finish(act, "commanded", reason, at_ms=at_ms, detail=detail, command_id=command.command_id)
    memory.desired_generation = command.desired_generation
    if command.advice:
        memory.advised = advised(act, command, transition.parallelism or {})
        close_gate(context, gate, gate.current, ok=False, at_ms=at_ms)
        return
    memory.advised = None
    if act.own in (None, OwnAct.APPROVED, OwnAct.SAFE):
        memory.limits = limits.after_begin(memory.limits, _changes(act, command, context.topology), at_ms)
    elif act.own is OwnAct.REST:  # it counts for the day, and says nothing of any size
        memory.limits = limits.after_begin(memory.limits, {}, at_ms)
    memory.underway = RescaleInProgress(
        command=command,
        wanted=transition.parallelism or {},
        planned_mappings=plan.mappings,
        preparations=int(command.action == "prepare"),
        own=act.own,
    )


def advised(act: PendingAct, command: RescheduleCommand, sizes: Mapping[str, int]) -> Advice:
    """Return what is remembered of an act that was given as advice. It is approved in full or not at all."""
    wanted = {}
    for change in command.changes:
        before = act.wanted.get(change.task)
        desired = sizes.get(change.task, change.after)  # more than that may be asked for, where some do not join
        target = TaskTarget(desired=desired, floor=desired)
        if before is not None:
            target = msgspec.structs.replace(target, overloaded_at=before.overloaded_at, overloaded=before.overloaded)
        wanted[change.task] = target
    return Advice(decision_id=act.decision_id, wanted=wanted, changes=command.changes)


def _missing(plan: JobPlan, topology: JobTopology | None) -> list[str]:
    """Say of which tasks more is asked for than is wanted, since fewer run than were asked for."""
    spec_of = {spec.task: spec for spec in topology.tasks} if topology is not None else {}
    return [
        f"{spec.label or spec.task}: {spec.parallelism} run of {change.before} that were asked for, and nobody knows which would "
        f"go: {change.before - change.after} fewer are asked for"
        for change in plan.changes
        if (spec := spec_of.get(change.task)) is not None and spec.parallelism < change.before
    ]


def _changes(act: PendingAct, command: RescheduleCommand, topology: JobTopology | None) -> dict[str, limits.Change]:
    """Return how the command changes what runs of tasks, with what is known of those that are overloaded."""
    running = running_of(topology) if topology is not None else {}
    found = {}
    for change in command.changes:
        missing = max(0, change.before - running.get(change.task, change.before))
        wanted = act.wanted.get(change.task)
        at = None if wanted is None else wanted.overloaded_at
        found[change.task] = limits.Change(change.before - missing, change.after - missing, at)
    return found


def plan_rescale(
    context: JobContext, wanted: Mapping[str, int] | None, avoided: Collection[int] = (), *, of: str = ""
) -> JobPlan:
    """Return the units that the job gets for this parallelism; ``avoided``: units that it gets only if it has them.

    ``of``: the decision that the plan is for.

    Raises:
        Refused: there are too few units, or the topology is gone or contradicts itself.
    """
    topology, world = context.topology, context.world
    if wanted is None:
        raise Refused(RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS, "no units became free while the job waited")
    if topology is None:
        raise Refused(RescheduleRefusal.CLUSTER_INCONSISTENT, "the job's topology is gone")
    if world.by_counts:
        return plan_counts(topology, wanted)
    taken = world.units_of_others() | (frozenset(avoided) - units_of(topology))
    mappings, placing = context.memory.mappings, context.rules.placing
    with context.timed("placement", of):
        return plan_job(topology, wanted, world.hosts, taken=taken, mappings=mappings, placing=placing)


def next_generation(context: JobContext) -> int:
    """Return the generation of the job's next command."""
    commanded, shown = context.memory.desired_generation, context.topology.generation if context.topology else 0
    return (max(commanded, shown) if shown - commanded <= GENERATION_LEAP_MAX else commanded) + 1


def _first_command(context: JobContext, plan: JobPlan, transition: Transition, act: PendingAct, at_ms: int) -> RescheduleCommand:
    """Prepare if state of a running job moves between hosts, else commit at once."""
    job, generation, topology = context.memory.job, next_generation(context), context.topology
    advice, by_counts = context.world.mode.mode == "advise" and act.own is not OwnAct.APPROVED, context.world.by_counts
    runs = topology is not None and mode_of(topology) is Mode.EXECUTING
    warms = plan.state_moves and context.rules.warm_up_ms_max > 0 and not advice and runs
    action: Action = "prepare" if warms else "commit"
    return RescheduleCommand(
        command_id=command_id(job, generation, FIRST_STEP),
        cluster=context.world.cluster,
        job=job,
        desired_generation=generation,
        step=FIRST_STEP,
        steps=_steps(FIRST_STEP, action),
        action=action,
        base_placement_generation=context.world.placement_generation + context.effects.commits,
        decision_id=act.decision_id,
        gate_reason=_resources(transition, act) if by_counts else transition.reason.value,
        gate_cause=_cause(transition, context).value,
        issued_at_ms=at_ms,
        changes=plan.changes,
        placement=plan.placement,
        advice=advice,
        deadline_ms=_deadline_ms(context, action, at_ms),
        expected=expected_state(topology) if by_counts and topology is not None else None,
    )


def expected_state(topology: JobTopology) -> Expected:
    """Return the state that a command is made for: an engine where it has changed since refuses the command."""
    return Expected(epoch=topology.epoch, requirement_id=topology.requirement_id, required=required_of(topology))


def _cause(transition: Transition, context: JobContext) -> Cause:
    """Return what released the rescale; it waited for no checkpoint where there are none, or the engine itself waits for them."""
    waits = context.gate_settings.trigger_delay_ms > 0
    return Cause.NO_DELAY if transition.cause is Cause.MAX_DELAY and not waits else transition.cause


def _resources(transition: Transition, act: PendingAct) -> Literal["desired", "sufficient"]:
    """Say whether there are slots for all that the act wants: the gate was only shown what fits."""
    got = transition.parallelism or {}
    in_full = all(got.get(task, want.desired) >= want.desired for task, want in act.wanted.items())
    return "desired" if in_full else "sufficient"


def _steps(step: int, action: Action) -> int:
    """Return how many steps there are as far as is known: after a preparation comes at least one more."""
    return step + (2 if action == "prepare" else 1)


def _deadline_ms(context: JobContext, action: Action, at_ms: int) -> int:
    """Count from when the command was due; if it is written much later, from shortly before now."""
    allowed_ms = context.rules.warm_up_ms_max if action == "prepare" else context.rules.apply_ms_max
    return max(at_ms, context.world.learned_ms - min(PATIENCE_MS, allowed_ms // 2)) + allowed_ms


def _reason(refusal: Refused) -> OutcomeReason:
    if refusal.code == RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS:
        return OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS
    return OutcomeReason.INCONSISTENT_TOPOLOGY


# From step to step


def accept(context: JobContext, rescaling: RescaleInProgress, expected_end_ms: int | None) -> None:
    """Note that the engine has accepted the present step, and when it expects the step to end."""
    end_ms = rescaling.expected_end_ms if expected_end_ms is None else expected_end_ms
    context.memory.underway = msgspec.structs.replace(rescaling, accepted=True, expected_end_ms=end_ms)


def expected_end_ms(rescaling: RescaleInProgress, progress: Progress) -> int | None:
    """Return when a commit ends as far as the engine knows, at the latest its deadline; of a preparation nobody knows."""
    command = rescaling.command
    if not progress.duration_ms or command.action != "commit":
        return None
    end_ms = progress.at_ms + progress.duration_ms
    return end_ms if command.deadline_ms is None else min(end_ms, command.deadline_ms)


def end_step(context: JobContext, rescaling: RescaleInProgress, progress: Progress) -> None:
    """Go on from a step that has ended: to the next one, or to the end of the rescale."""
    command, applied = rescaling.command, progress.status == "applied"
    if command.action != "prepare":
        end(context, rescaling, ok=applied and command.action == "commit", at_ms=context.now_ms, progress=progress)
    elif applied and (lost := _lost_units(context, command)):
        _give_up_learners(context, rescaling, LEARNER_LOST, lost)
    elif applied and rescaling.own is OwnAct.BALANCE and not progress.learners and not context.rules.balancing.standbys:
        _give_up_learners(context, rescaling, NOT_WARMED, progress.units)
    elif applied:
        _step_on(context, rescaling, "commit")
    elif rescaling.accepted:
        _give_up_learners(context, rescaling, progress.code, progress.units)
    else:  # the engine refused the preparation, so it has nothing to drop
        end(context, rescaling, ok=False, at_ms=context.now_ms)


def _lost_units(context: JobContext, prepared: RescheduleCommand) -> tuple[int, ...]:
    """Return units whose learners are ready but whose host has died meanwhile."""
    alive = {unit for host in context.world.hosts for unit in host.units}
    return tuple(sorted({unit for change in prepared.changes for unit in change.units} - alive)) if alive else ()


def _give_up_learners(context: JobContext, rescaling: RescaleInProgress, code: str, units: tuple[int, ...]) -> None:
    """Try other hosts, go on without learners, or abort; ``units`` were lost, or their learners took too long."""
    if rescaling.own is OwnAct.BALANCE:  # nothing has to move: leave it, and let the next look at the hosts try others
        context.effects.avoided_hosts |= _hosts_to_avoid(context, rescaling, code, units)
        _step_on(context, msgspec.structs.replace(rescaling, given_up=code, avoided_units=units), "abort")
        return
    topology = context.world.topology
    rescaling = msgspec.structs.replace(rescaling, given_up=code)
    if topology is not None and {spec.task for spec in topology.tasks} != rescaling.wanted.keys():
        _step_on(context, rescaling, "abort")  # the job has other tasks now: no plan for these fits it
        return
    may_try = rescaling.preparations < context.rules.preparations_max
    too_slow, lost = code == WARM_UP_TIMEOUT, code == LEARNER_LOST
    if (
        may_try
        and (lost or (too_slow and context.rules.warm_up_then == "elsewhere"))
        and _goes_elsewhere(context, rescaling, units)
    ):
        return
    _step_on(context, rescaling, "commit" if too_slow else "abort")


def _hosts_to_avoid(context: JobContext, rescaling: RescaleInProgress, code: str, units: tuple[int, ...]) -> set[str]:
    added = {unit for change in rescaling.command.changes for unit in change.added_units}
    bad = {WARM_UP_TIMEOUT: set(units), NOT_WARMED: added}.get(code, set())
    return {host.host for host in context.world.hosts if set(host.units) & bad}


def _goes_elsewhere(context: JobContext, rescaling: RescaleInProgress, units: tuple[int, ...]) -> bool:
    """Start again on hosts that have none of these units; False: there is no such plan."""
    of_same_hosts = {unit for host in context.world.hosts if set(units) & set(host.units) for unit in host.units}
    avoided = of_same_hosts.union(units, rescaling.avoided_units)
    try:
        plan = plan_rescale(context, rescaling.wanted, avoided, of=rescaling.command.decision_id)
    except Refused:
        return False
    if plan.changes:
        tried = msgspec.structs.replace(rescaling, avoided_units=tuple(sorted(avoided)))
        _step_on(context, tried, "prepare" if plan.state_moves else "commit", plan)
    return bool(plan.changes)


def _step_on(context: JobContext, rescaling: RescaleInProgress, action: Action, plan: JobPlan | None = None) -> None:
    """Issue the command of the next step: of the same plan, or of a new one that replaces it."""
    before, step = rescaling.command, rescaling.command.step + 1
    command = msgspec.structs.replace(
        before,
        command_id=command_id(before.job, before.desired_generation, step),
        step=step,
        steps=_steps(step, action),
        action=action,
        issued_at_ms=context.now_ms,
        deadline_ms=_deadline_ms(context, action, context.now_ms),
        changes=before.changes if plan is None else plan.changes,
        placement=before.placement if plan is None else plan.placement,
    )
    context.effects.commands.append(command)
    context.memory.underway = msgspec.structs.replace(
        rescaling,
        command=command,
        accepted=False,
        expected_end_ms=None,
        preparations=rescaling.preparations + (action == "prepare"),
        planned_mappings=rescaling.planned_mappings if plan is None else plan.mappings,
    )


# The end


def end(context: JobContext, rescaling: RescaleInProgress, *, ok: bool, at_ms: int, progress: Progress | None = None) -> None:
    """Commit the rescale, or count it as failed. Either way it is over, and the gate rests.

    ``progress``: the last report of its command; None: its end was not reported.
    """
    memory, command = context.memory, rescaling.command
    memory.underway = memory.partly = None
    memory.limits = limits.after_end(memory.limits, ok=ok, at_ms=at_ms)
    written(context, command, progress, ok=ok, accepted=rescaling.accepted, at_ms=at_ms)
    if ok:
        memory.applied = _applied(context, command, at_ms)
        memory.mappings = memory.mappings | rescaling.planned_mappings
        memory.failures = 0
        memory.rest = None if rescaling.own is OwnAct.WAKE else memory.rest
        context.effects.commits += int(command.expected is None)  # of placements
    elif rescaling.own is not OwnAct.BALANCE:  # that nothing was balanced is no failure of the job's
        memory.failures += 1
    if not ok and context.world.topology is not None and mode_of(context.world.topology) is Mode.WAITING:
        memory.not_before_ms = at_ms + backoff_ms(context.rules.gate, memory.failures)
    if memory.gate is not None:
        gate = Gate(context.gate_settings, memory.gate)
        close_gate(context, gate, rescaling.wanted if ok else gate.current, ok=ok, at_ms=at_ms)


def _applied(context: JobContext, command: RescheduleCommand, at_ms: int) -> AppliedCommand:
    """Return the command's result; until the topology shows it, results of earlier commands stay in force beside it."""
    before, topology = context.memory.applied, context.world.topology
    earlier = before.units if topology is None or before.is_missing_from(topology) else {}
    units = earlier | {change.task: change.units for change in command.changes}
    return AppliedCommand(generation=command.desired_generation, at_ms=at_ms, units=units)


def close_gate(context: JobContext, gate: Gate, after: Mapping[str, int] | None, *, ok: bool, at_ms: int) -> None:
    """End the gate's transition; ``after``: the parallelism now. Nothing is retried: the next decision sees the job as it is."""
    if after is None:  # still waiting for resources: the next act starts a gate
        context.memory.gate = None
        return
    gate.on_change(targets=targets_of(context.memory.pending, after), now_ms=gate.state.now_ms)
    gate.on_rescaled(ok, at_ms)
    context.memory.gate = gate.state
