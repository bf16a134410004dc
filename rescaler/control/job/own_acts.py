"""Acts that no policy asks for: start a job that waits without units, move one off hosts that will go, move units and copies.

They change no parallelism, so the gate has nothing to decide. They wait for an idle gate, though, and it rests afterwards. While
somebody has paused both directions, only jobs that have lost their units or are about to are helped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from contracts.commands import Progress, RescheduleCommand, SlotStandbys
from contracts.ids import command_id, decision_id
from contracts.messages import JobTopology
from contracts.own_acts import OwnAct
from contracts.topology import units_of
from rescaler.control.counts.plan import plan_counts
from rescaler.control.hosts.balance import MovableJob
from rescaler.control.job import rescale
from rescaler.control.job.memory import PendingAct, Standby, StandbyChange, TaskTarget
from rescaler.control.job.owners import loses_state, named, to_apply_again, to_insist_on, to_take_back
from rescaler.control.job.pauses import stops_restoring
from rescaler.control.job.turn import Turn
from rescaler.control.outcomes import OutcomeReason
from rescaler.control.units.plan import JobPlan, plan_moves
from rescaler.control.world import leaving_units, mode_of
from rescaler.gate import Cause, Gate, GateReason, Mode, Phase, Transition
from rescaler.refusals import Refused


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


def recover(turn: Turn) -> None:
    """Want a job that waits without units started again: as wide as it was, or as wide as it can be."""
    memory, topology = turn.memory, turn.topology
    if memory.pending or memory.underway or turn.now_ms < memory.not_before_ms:
        return
    memory.not_before_ms = 0
    if turn.world.by_counts:
        return  # the engine starts it by itself
    if topology is not None and mode_of(topology) is Mode.WAITING and turn.world.mode.mode == "act":
        memory.pending = own_act(topology, turn.now_ms, OwnAct.RECOVERY, since_ms=topology.at_ms)


def drain(turn: Turn) -> None:
    """Move a job off hosts that will be removed, at the parallelism it has, once its gate is idle."""
    memory, topology = turn.memory, turn.topology
    if topology is None or memory.pending or memory.underway or not _must_drain(turn, topology):
        return
    if memory.gate is not None and memory.gate.phase is not Phase.IDLING:
        return
    gate = turn.gate(topology)
    plan = _plan_at_same_width(turn, gate) if gate.phase is Phase.IDLING else None
    if plan is None:
        memory.gate = gate.state  # try again when its rest is over, or when there is another host
    else:
        _go(turn, gate, own_act(topology, turn.now_ms, OwnAct.DRAIN, since_ms=turn.now_ms), plan)


def _must_drain(turn: Turn, topology: JobTopology) -> bool:
    on_leaving_hosts = units_of(topology) & leaving_units(turn.world.hosts)
    return topology.state == "running" and turn.world.mode.mode == "act" and bool(on_leaving_hosts)


# Requirements of engines that place by themselves


def restore(turn: Turn) -> None:
    """Ask for what should be asked for: take back what was given up, insist on ours, or apply it to a new submission.

    Only in mode act, while nothing else is pending or under way and the gate is idle.
    """
    topology, memory = turn.topology, turn.memory
    if topology is None or not turn.world.by_counts or _movable(turn) is None:
        return
    for own, wanted in (
        (OwnAct.TAKE_BACK, to_take_back(turn, topology)),
        (OwnAct.INSIST, to_insist_on(turn)),
        (OwnAct.REAPPLY, to_apply_again(turn)),
    ):
        if wanted is None or (own is not OwnAct.TAKE_BACK and loses_state(turn, topology)):
            continue
        if stops_restoring(wanted, topology, turn.world.pauses):
            continue
        plan = plan_counts(topology, wanted, whole=True)
        if not plan.changes:
            continue
        gate = turn.gate(topology)
        if gate.phase is not Phase.IDLING:
            memory.gate = gate.state  # when its rest is over
            return
        act = own_act(topology, turn.now_ms, own, since_ms=turn.now_ms)
        _go(turn, gate, act, plan, f"{own.value}: {named(wanted, topology)}", wanted=wanted)
        return


def _plan_at_same_width(turn: Turn, gate: Gate) -> JobPlan | None:
    """Return a plan that changes something; None: there is none now."""
    try:
        plan = rescale.plan_rescale(turn, gate.current or {})
    except Refused:
        return None
    return plan if plan.changes else None


def _go(
    turn: Turn, gate: Gate, act: PendingAct, plan: JobPlan, detail: str = "", *, wanted: Mapping[str, int] | None = None
) -> None:
    """Go through an idle gate: it learns of the end as of any rescale, and then rests.

    ``wanted`` None: at constant parallelism.
    """
    after = {**(gate.current or {}), **(wanted or {})}
    transition = Transition(turn.now_ms, GateReason.DESIRED, Cause.TRIGGER, after)
    going = replace(gate.state, phase=Phase.TRANSITIONING, entered_at_ms=turn.now_ms, now_ms=turn.now_ms, transition=transition)
    turn.memory.gate = going
    rescale.begin(turn, Gate(turn.gate_settings, going), transition, act, plan=plan, detail=detail)


# Jobs whose units or copies move after hosts came or went


def as_movable(turn: Turn, topology: JobTopology) -> MovableJob:
    """Return a running job as a look at the hosts sees it."""
    memory = turn.memory
    return MovableJob(
        topology=memory.applied.completed(topology),
        outstanding=memory.outstanding,
        is_pending=memory.pending is not None,
        is_free=is_free(turn),
        standbys={each.unit: each.hosts for each in memory.standby.copies},
        units_of_others=turn.world.units_of_others,
    )


def is_free(turn: Turn) -> bool:
    """Say whether the job could be moved now: it runs and may be moved, nothing is pending or under way, and its gate is idle."""
    topology = _movable(turn)
    return topology is not None and turn.gate(topology).phase is Phase.IDLING


def note_rest(turn: Turn) -> None:
    """Remember the gate of a job that only rests, so that the end of its rest is known."""
    topology = _movable(turn)
    if topology is not None and (gate := turn.gate(topology)).phase is not Phase.IDLING:
        turn.memory.gate = gate.state


def _movable(turn: Turn) -> JobTopology | None:
    """Return the job's topology if only its gate could keep it from moving."""
    topology, memory = turn.topology, turn.memory
    runs = topology is not None and topology.state == "running" and turn.world.mode.mode == "act"
    return topology if runs and not memory.pending and not memory.underway else None


def move(turn: Turn, moves: Mapping[int, int]) -> None:
    """Move units of a free job to other units, each with everything on it."""
    topology, world = turn.topology, turn.world
    if topology is None:
        return
    taken, mappings, algorithm = world.units_of_others(), turn.memory.mappings, turn.rules.placing.algorithm
    plan = plan_moves(topology, moves, world.hosts, taken=taken, mappings=mappings, algorithm=algorithm)
    host_of = {unit: host.host for host in world.hosts for unit in host.units}
    to = ", ".join(sorted({host_of[unit] for unit in moves.values()}))
    act = own_act(topology, turn.now_ms, OwnAct.BALANCE, since_ms=turn.now_ms)
    what = "1 unit goes" if len(moves) == 1 else f"{len(moves)} units go"
    _go(turn, turn.gate(topology), act, plan, f"hosts changed: {what} to {to}")


def change_standbys(turn: Turn, wanted: Mapping[int, tuple[str, ...]]) -> None:
    """Command which hosts are to keep copies of the state of each unit."""
    memory, topology = turn.memory, turn.topology
    if topology is None:
        return
    act = own_act(topology, turn.now_ms, OwnAct.STANDBY, since_ms=turn.now_ms)
    generation = rescale.next_generation(turn)
    command = RescheduleCommand(
        command_id=command_id(memory.job, generation, rescale.FIRST_STEP),
        cluster=turn.world.cluster,
        job=memory.job,
        desired_generation=generation,
        step=rescale.FIRST_STEP,
        action="standby",
        base_placement_generation=turn.world.placement_generation + turn.effects.commits,
        decision_id=act.decision_id,
        gate_reason="desired",
        gate_cause=Cause.TRIGGER.value,
        issued_at_ms=turn.now_ms,
        changes=(),
        deadline_ms=turn.now_ms + turn.rules.apply_ms_max,
        standbys=tuple(SlotStandbys(unit=unit, hosts=hosts) for unit, hosts in sorted(wanted.items()) if hosts),
    )
    detail = f"{sum(map(len, wanted.values()))} copies of units' state"
    turn.effects.commands.append(command)
    turn.say(act, "commanded", OutcomeReason.DESIRED, detail=detail, command_id=command.command_id)
    memory.desired_generation, memory.underway = generation, StandbyChange(command=command)


def end_standby_change(turn: Turn, underway: StandbyChange, progress: Progress | None) -> None:
    """The engine keeps the copies since the time it reports, or it refused (or never answered): the next look asks again."""
    memory, command = turn.memory, underway.command
    memory.underway = None
    if progress is not None and progress.status == "applied" and command.standbys is not msgspec.UNSET:
        ready_ms = memory.standby.ready_at_ms
        is_ready = ready_ms > max(progress.at_ms, command.issued_at_ms)  # the event may have come before this report
        memory.standby = Standby(
            copies=command.standbys, asked_at_ms=command.issued_at_ms, ready_at_ms=ready_ms if is_ready else 0
        )


def on_standbys_ready(turn: Turn, at_ms: int) -> None:
    """Note that all copies last commanded are complete; an event from before their command says nothing about them."""
    standby, underway = turn.memory.standby, turn.memory.underway
    if isinstance(underway, StandbyChange):  # whether the event is about its copies shows when it ends
        is_news = at_ms > max(underway.command.issued_at_ms, standby.ready_at_ms)
    else:
        is_news = bool(standby.copies) and at_ms > standby.asked_at_ms and not standby.ready_at_ms
    if is_news:
        turn.memory.standby = Standby(copies=standby.copies, asked_at_ms=standby.asked_at_ms, ready_at_ms=at_ms)
