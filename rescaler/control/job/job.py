"""One job's way from a decision to a command and to its end. Each function handles one kind of input in one `JobContext`.

    decision ──▶ pending act ──▶ gate ──▶ rescale.begin ──▶ command ──▶ progress ──▶ rescale.end
                     └──── waits, gives way, or is refused ────┘

At any time a job has at most one pending act and at most one command under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from surescale.contracts.commands import NOT_REPORTED, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision, TaskDecision
from surescale.contracts.messages import EngineEvent, JobTopology
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.plurals import counted
from surescale.contracts.topology import has_ended, required_of, running_of
from surescale.policies import stateful_limits as limits
from surescale.rescaler.control.counts import together
from surescale.rescaler.control.job import checks, own_acts, owners, rescale, rest, safe_size
from surescale.rescaler.control.job.checks import Objection, no_longer_possible, objection_of_engine, objection_to
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import (
    OVERDUE_MS,
    PATIENCE_MS,
    PartialRun,
    PendingAct,
    RescaleInProgress,
    StandbyChange,
    TaskTarget,
    given_up_at_ms,
    rescaled_at_ms,
)
from surescale.rescaler.control.outcomes import WAITING_REASON, OutcomeReason
from surescale.rescaler.control.world import mode_of, parallelism_of
from surescale.rescaler.gate import Gate, Mode, Phase

CHECKPOINTS = ("checkpoint_completed", "checkpoint_failed")
"""Kinds of engine events that a gate takes into account."""
RELEVANT_EVENTS = (*CHECKPOINTS, "standbys_ready")
"""Kinds of engine events that a job takes into account."""


# Inputs


def on_decision(
    context: JobContext, decision: Decision, newest: Decision | None = None, overtaken_by_ms: int | None = None
) -> None:
    """Accept a decision, hold it, or refuse it; a repeated decision changes nothing.

    ``newest``: the job's latest decision that waits to be answered. It replaces a stale act at once. ``overtaken_by_ms``: the end
    of a newer window that was there when the decision was made; what that window asks for counts.
    """
    if decision.decision_id in context.answers:
        context.effects.duplicates += 1
        return
    oldest_ms = context.now_ms - context.rules.remember_ms
    context.forget_before(oldest_ms)
    if context.memory.unreadable:
        _answer_unreadable(context, decision)
        return
    owners.look(context)
    memory, topology = context.memory, context.topology
    acts = decision.action == "act"
    if decision.span_end_ms < min(oldest_ms, memory.last_span_end_ms):
        context.effects.duplicates += 1  # answered, and forgotten since: its windows were sent again
        return
    if decision.span_end_ms < memory.last_span_end_ms:
        context.add_outcome(decision, "refused" if acts else "held", OutcomeReason.OLDER_DECISION)
        return
    if topology is None:
        _answer_without_job(context, decision)
        return
    left = _left_by_pauses(context, {task.task: task for task in decision.tasks}, topology)
    not_before_ms = _not_before_ms(context, decision, topology)
    if (acts and not left.is_nothing) or not _stands(context, decision):
        _supersede(context, decision)
    safe_size.note_figures(memory, decision)
    rest.note_size(memory, decision)
    before_ms, memory.last_span_end_ms = memory.last_span_end_ms, decision.span_end_ms
    memory.advised = None
    memory.limits = limits.with_needs(
        memory.limits, decision, context.world.allowed, context.world.engine.engine, before_ms=before_ms
    )
    if not acts:
        context.add_outcome(decision, "held", OutcomeReason.HOLD)
    elif newest is not None and _is_stale(context, decision, newest):
        context.add_outcome(decision, "superseded", OutcomeReason.NEWER_DECISION, detail=_wish(newest))
    elif overtaken_by_ms is not None and overtaken_by_ms > decision.span_end_ms:
        words = f"the window that ended at {overtaken_by_ms}, or a later one, was there when it was made"
        context.add_outcome(decision, "superseded", OutcomeReason.NEWER_DECISION, detail=words)
    else:
        _take_on(context, decision, topology, left, not_before_ms)
    _settle(context)


def on_progress(context: JobContext, progress: Progress) -> None:
    """Take an actuator's report into account, if it is about the command under way; any other one changes nothing."""
    underway = context.memory.underway
    if underway is None or progress.command_id != underway.command.command_id:
        return
    context.effects.progress.append(progress)
    has_ended = progress.status in ("applied", "failed")
    if isinstance(underway, StandbyChange):
        if has_ended:
            own_acts.end_standby_change(context, underway, progress)
            _settle(context)
    elif has_ended:
        context.date_back(progress.at_ms)  # `on_tick` comes next, and does what has become due since
        rescale.end_step(context, underway, progress)
        _settle(context)
    else:
        if progress.status == "partly":
            context.memory.partly = PartialRun(reached=progress.reached, waiting_for=progress.waiting_for)
        expected_end_ms = rescale.expected_end_ms(underway, progress)
        rescale.accept(context, underway, expected_end_ms)
        if expected_end_ms is not None:  # now a waiting act can be promised a time
            _settle(context)


def on_engine_event(context: JobContext, event: EngineEvent) -> None:
    """Take a checkpoint, or completed standbys, into account."""
    if event.kind in CHECKPOINTS:
        _on_checkpoint(context, event)
    else:
        own_acts.on_standbys_ready(context, event.at_ms)


def _on_checkpoint(context: JobContext, event: EngineEvent) -> None:
    """Trigger a gate that waits for a checkpoint. One from before the gate's present phase is no trigger."""
    memory = context.memory
    if memory.gate is None or memory.underway is not None:
        return
    if event.sequence <= memory.checkpoint or not context.is_believable(event.at_ms):
        return
    gate = Gate(context.gate_settings, memory.gate)
    gate.advance(event.at_ms)
    if gate.phase not in (Phase.STABILIZING, Phase.STABILIZED) or event.at_ms <= gate.state.entered_at_ms:
        return
    gate.on_checkpoint(completed=event.kind == "checkpoint_completed", now_ms=event.at_ms)
    memory.gate, memory.checkpoint = gate.state, event.sequence
    _settle(context)


def on_tick(context: JobContext) -> None:
    """Let time pass, and look at the world again."""
    memory, underway = context.memory, context.memory.underway
    if memory.unreadable:
        return
    owners.look(context)
    given_up_ms = given_up_at_ms(memory)
    if underway is not None and given_up_ms is not None and context.now_ms >= given_up_ms:
        _give_up_waiting(context, underway, given_up_ms)
    own_acts.recover(context)
    own_acts.look(context)
    safe_size.ask(context)
    if memory.pending is not None or memory.gate is not None or memory.underway is not underway:
        _settle(context)
    own_acts.drain(context)
    own_acts.restore(context)
    rest.look(context)


def give_way(context: JobContext, newer: Decision) -> None:
    """Let a pending act that is long overdue give way to a newer decision that waits to be answered.

    An act of the rescaler's own does not give way: it wants the present state, which is never stale. None begins for want of
    figures that the newer decision has.
    """
    memory, pending = context.memory, context.memory.pending
    safe_size.note_figures(memory, newer)
    if pending is None or pending.own or pending.until_ms is None or context.now_ms - pending.until_ms <= OVERDUE_MS:
        return
    if newer.decision_id not in context.answers and newer.span_end_ms > memory.last_span_end_ms:
        _supersede(context, newer)
        if memory.underway is None:
            memory.gate = None  # it has timers that are due, for a target that nobody wants any more


# From a decision to a pending act


def _answer_without_job(context: JobContext, decision: Decision) -> None:
    if decision.action == "act":
        detail = f"job: no topology of {decision.job!r} is known"
        context.add_outcome(decision, "refused", OutcomeReason.UNKNOWN_JOB, detail=detail)
    else:
        context.add_outcome(decision, "held", OutcomeReason.HOLD)


def _answer_unreadable(context: JobContext, decision: Decision) -> None:
    if decision.action == "act":
        context.add_outcome(decision, "refused", OutcomeReason.MEMORY_UNREADABLE, detail=context.memory.unreadable)
    else:
        context.add_outcome(decision, "held", OutcomeReason.HOLD)


def _is_stale(context: JobContext, decision: Decision, newest: Decision) -> bool:
    return context.now_ms - decision.span_end_ms > OVERDUE_MS and newest.span_end_ms > decision.span_end_ms


def _left_by_pauses(context: JobContext, wanted: Mapping[str, checks.Sized], topology: JobTopology) -> checks.PauseEffect:
    return checks.effect_of(wanted, topology, context.world.engine, context.world.pauses)


def _not_before_ms(context: JobContext, decision: Decision, topology: JobTopology) -> int:
    """Return until when an act waits for newer decisions that may be on their way; 0: it does not.

    One that takes the place of another waits as long as that one would have, so that a pipeline which is always late acts too. A
    job that is down is not kept waiting.
    """
    if context.now_ms - decision.span_end_ms <= OVERDUE_MS or mode_of(topology) is Mode.WAITING:
        return 0
    before = context.memory.pending
    return before.not_before_ms if before is not None and before.not_before_ms else context.now_ms + PATIENCE_MS


def _take_on(
    context: JobContext, decision: Decision, topology: JobTopology, left: checks.PauseEffect, not_before_ms: int
) -> None:
    if left.kept:
        tasks = tuple(task for task in decision.tasks if task.task not in left.kept)
        decision = msgspec.structs.replace(decision, tasks=tasks)
    objection = objection_to(decision, topology, context.world.allowed, context.world.mode)
    if objection is None and context.world.by_counts:
        objection = objection_of_engine(context, topology, decision)
    if objection is None and left.is_nothing:
        objection = Objection(OutcomeReason.PAUSED, left.words)
    if objection is not None:
        context.add_outcome(decision, "refused", objection.reason, detail=_joined(objection.detail, left))
        return
    world = context.world
    kept = limits.apply_limits(
        context.memory.limits, decision, topology, world.allowed, engine=world.engine.engine, hosts=world.hosts
    )
    if kept.refusal is not None:
        context.add_outcome(decision, "refused", OutcomeReason(kept.refusal), detail=_joined(kept.words, left))
        return
    wanted = {task.task: _wanted(task, kept.wanted[task.task]) for task in decision.tasks}
    context.memory.pending = PendingAct(
        decision_id=decision.decision_id,
        span_end_ms=decision.span_end_ms,
        accepted_at_ms=context.now_ms,
        wanted=together(wanted, topology, world.engine) if world.by_counts else wanted,
        note=_joined(kept.words, left),
        not_before_ms=not_before_ms,
    )


def _joined(words: str, left: checks.PauseEffect) -> str:
    return "; ".join(dict.fromkeys(each for each in (words, left.words) if each))


def _wanted(task: TaskDecision, desired: int) -> TaskTarget:
    overloaded_at = task.records_per_minute if task.overloaded else None
    return TaskTarget(desired=desired, floor=task.floor, overloaded_at=overloaded_at, overloaded=task.overloaded)


def _supersede(context: JobContext, newer: Decision) -> None:
    if context.memory.pending is not None:
        context.finish(context.memory.pending, "superseded", OutcomeReason.NEWER_DECISION, detail=_wish(newer))


def _stands(context: JobContext, newer: Decision) -> bool:
    """Return whether the pending act outlives a decision that changes nothing.

    Such a decision does not want a job dead; and one without newer figures says nothing against the safe size.
    """
    pending = context.memory.pending
    if pending is None:
        return False
    return pending.own is OwnAct.RECOVERY or (pending.own is OwnAct.SAFE and (newer.figures_until_ms or 0) <= pending.span_end_ms)


def _wish(newer: Decision) -> str:
    return f"{newer.decision_id} wants {newer.action}"


# From a pending act to a command


def _settle(context: JobContext) -> None:
    """Bring pending act and gate in line with the world: go, wait, or give up."""
    memory, topology = context.memory, context.topology
    _drop_impossible(context, topology)
    pending = memory.pending
    if memory.underway is not None:
        if pending is not None:
            until_ms = rescaled_at_ms(pending, memory.underway, context.now_ms)
            context.promise(pending, OutcomeReason.RESCALE_IN_PROGRESS, until_ms)
        return
    if topology is None or has_ended(topology) or (pending is None and mode_of(topology) is Mode.WAITING):
        memory.gate = None
        return
    if pending is None and memory.gate is None:
        return
    if pending is not None and context.now_ms < pending.not_before_ms:
        context.promise(pending, OutcomeReason.CATCHING_UP, pending.not_before_ms)
        return
    gate = context.gate(topology)
    if pending is not None:
        gate = _without_kept(context, gate, pending)
    memory.gate = gate.state
    if pending is not None and gate.transition is not None:
        rescale.begin(context, gate, gate.transition, pending, detail=pending.note)
    elif pending is not None:
        _wait(context, gate, pending)
    elif gate.transition is not None:  # released, but nobody wants it any more
        rescale.close_gate(context, gate, gate.current, ok=False, at_ms=context.now_ms)


def _without_kept(context: JobContext, gate: Gate, pending: PendingAct) -> Gate:
    """Return the gate without what was taken out of the act just now: if its time had come before, it has released that too."""
    transition, current = gate.transition, gate.current
    if transition is None or transition.parallelism is None or current is None:
        return gate
    left = {task: count if task in pending.wanted else current[task] for task, count in transition.parallelism.items()}
    if left == transition.parallelism:
        return gate
    return Gate(context.gate_settings, replace(gate.state, transition=replace(transition, parallelism=left)))


def _drop_impossible(context: JobContext, topology: JobTopology | None) -> None:
    pending = context.memory.pending
    objection = no_longer_possible(pending, topology, context.world.mode) if pending else None
    if pending and topology and objection is None and context.world.by_counts:
        objection = objection_of_engine(context, topology, approved=pending.own is OwnAct.APPROVED)
    if pending and topology and objection is None and context.memory.underway is None:
        objection = _leaves_limits(context, pending, topology)
    if pending and objection:
        context.finish(pending, "refused", objection.reason, detail=objection.detail)
    elif pending and topology and context.memory.underway is None:  # before its end nobody knows what the act would change
        _heed_time(context, pending, topology)


def _leaves_limits(context: JobContext, pending: PendingAct, topology: JobTopology) -> Objection | None:
    """Return that a waiting act would leave limits set, or begun with a period, since it was accepted; None: it would not."""
    if pending.own in checks.NEVER_PAUSED:
        return None
    world, asked = context.world, own_acts.Asked.of(pending.wanted, parallelism_of(topology), context.now_ms)
    objection = objection_to(asked, topology, world.allowed, world.mode)
    if objection is not None:
        return objection
    wanted = {task: want.desired for task, want in pending.wanted.items()}
    left = limits.within_budget(context.memory.limits, limits.LimitedAct(wanted), asked, topology, world.allowed, world.hosts)
    return Objection(OutcomeReason(left.refusal), left.words) if left.refusal is not None else None


def _heed_time(context: JobContext, pending: PendingAct, topology: JobTopology) -> None:
    """Take out of a waiting act what was paused since it was accepted, and what an excluded period keeps back now.

    And out of one that only grows, what is as large by now.
    """
    world = context.world
    _keep_back(context, pending, safe_size.outgrown(pending, topology), OutcomeReason.NO_CHANGE)
    if (rest := context.memory.pending) is not None:
        _keep_back(context, rest, _left_by_pauses(context, rest.wanted, topology), OutcomeReason.PAUSED)
    if (rest := context.memory.pending) is not None:
        left = checks.effect_of_calendar(rest.wanted, topology, world.engine, world.allowed.excluded or (), context.now_ms)
        _keep_back(context, rest, left, OutcomeReason.EXCLUDED_PERIOD)


def _keep_back(context: JobContext, pending: PendingAct, left: checks.PauseEffect, reason: OutcomeReason) -> None:
    if not left.kept or pending.own in checks.NEVER_PAUSED:
        return
    note = _joined(pending.note, left)
    if left.is_nothing or pending.own is OwnAct.APPROVED:  # which is carried out in full or not at all
        context.finish(pending, "refused", reason, detail=note)
        return
    context.memory.pending = msgspec.structs.replace(pending, wanted=checks.unpaused(pending.wanted, left), note=note)


def _wait(context: JobContext, gate: Gate, pending: PendingAct) -> None:
    current = gate.current or {}
    if gate.mode is Mode.EXECUTING and all(current[task] == want.desired for task, want in pending.wanted.items()):
        context.finish(pending, "refused", OutcomeReason.NO_CHANGE, detail="the job already runs like that")
        _settle(context)
    elif gate.phase is not Phase.IDLING:
        backs_off = gate.phase is Phase.COOLDOWN and context.memory.failures
        reason = OutcomeReason.BACKOFF if backs_off else WAITING_REASON[gate.phase]
        context.promise(pending, reason, _gate_wakes_at_ms(gate))
    elif gate.mode is Mode.WAITING:
        context.promise(pending, OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS, _start_until_ms(context, gate, pending))
    else:
        _wait_for_units(context, gate, pending)


def _gate_wakes_at_ms(gate: Gate) -> int:
    """Return when the timer of a gate that does not idle is due; each such phase has one."""
    due_ms = gate.wake_at_ms()
    assert due_ms is not None, gate.phase
    return due_ms


def _start_until_ms(context: JobContext, gate: Gate, pending: PendingAct) -> int:
    """The gate limits how long a job waits to start. If it is set not to, the outcome is repeated once a minute."""
    said_ms = (pending.until_ms or 0) if pending.reason == OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS else 0
    return gate.wake_at_ms() or (said_ms if said_ms > context.now_ms else context.now_ms + PATIENCE_MS)


def _wait_for_units(context: JobContext, gate: Gate, pending: PendingAct) -> None:
    """Wait for units of a running job, for as long as it may stabilize; then refuse the act."""
    give_up_ms = pending.accepted_at_ms + context.gate_settings.executing_stabilization_ms
    if context.now_ms < give_up_ms:
        context.promise(pending, OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS, give_up_ms)
        return
    least = max(target.lower for target in gate.state.targets.values())
    slots = gate.state.slots
    detail = f"the widest task needs at least {counted(least, 'parallel unit')}, {slots} {'is' if slots == 1 else 'are'} usable"
    if context.world.by_counts:
        detail = f"the widest task needs at least {counted(least, 'subtask')}, and slots are missing"
    at_ms = max(give_up_ms, gate.state.entered_at_ms)
    context.finish(pending, "refused", OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS, at_ms=at_ms, detail=detail)
    _settle(context)


# A command whose end nobody reported


def _give_up_waiting(context: JobContext, underway: RescaleInProgress | StandbyChange, given_up_ms: int) -> None:
    """End the command by what the engine's topology shows, and write that end down: no actuator will."""
    command, topology = underway.command, context.world.topology
    shown = isinstance(underway, RescaleInProgress) and topology is not None and is_shown(command, topology)
    context.effects.progress.append(_not_reported(command, given_up_ms, shown=shown))
    if isinstance(underway, StandbyChange):
        own_acts.end_standby_change(context, underway, None)
    else:
        rescale.end(context, underway, ok=shown, at_ms=context.now_ms if command.deadline_ms is None else command.deadline_ms)


def _not_reported(command: RescheduleCommand, at_ms: int, *, shown: bool) -> Progress:
    unheard = "no actuator reported in time how this command ended"
    return Progress(
        cluster=command.cluster,
        job=command.job,
        command_id=command.command_id,
        desired_generation=command.desired_generation,
        status="applied" if shown else "failed",
        at_ms=at_ms,
        code="" if shown else NOT_REPORTED,
        detail=f"{unheard}; the engine shows that it was carried out" if shown else f"{unheard}, and the engine does not show it",
    )


def is_shown(command: RescheduleCommand, topology: JobTopology) -> bool:
    """Say whether a topology shows that a command was carried out."""
    if command.expected is None:
        return topology.generation >= command.desired_generation
    running = running_of(topology)
    return required_of(topology) == running and all(running.get(change.task) == change.after for change in command.changes)
