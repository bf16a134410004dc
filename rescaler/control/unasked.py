"""Acts that no policy asks for: their names, what they want, and the gate while they are carried out. Pure.

What it does not do: command them (`rescaler.control.own_acts` does).
"""

from __future__ import annotations

from dataclasses import replace

from contracts.ids import decision_id
from contracts.messages import JobTopology
from contracts.topology import units_of
from rescaler.control.memory import JobMemory, PendingAct, Wanted
from rescaler.control.situation import Situation
from rescaler.gate import Cause, GateState, Phase, Reason, Transition

# What `own` says, and what stands in place of a policy's name in the id, of an act that
RECOVERY = "recovery"  # starts a job which waits without any unit
DRAIN = "drain"  # moves a job off hosts that go
BALANCE = "balance"  # moves units between hosts which came or went
STANDBY = "standby"  # changes only standbys


def is_recovering(memory: JobMemory) -> bool:
    """The pending act is no decision's: it wants a job started that waits."""
    return memory.pending is not None and memory.pending.own == RECOVERY


def is_balancing(memory: JobMemory) -> bool:
    """The rescale under way moves units between hosts, for nobody's decision."""
    return memory.rescaling is not None and memory.rescaling.own == BALANCE


def must_drain(topology: JobTopology, now: Situation) -> bool:
    """The job runs, may be moved, and has units on a host that will be removed."""
    leaving = {unit for host in now.hosts if host.state == "removed_soon" for unit in host.units}
    return topology.state == "running" and now.settings.mode == "act" and bool(units_of(topology) & leaving)


def own_act(topology: JobTopology, now_ms: int, name: str, *, span_end_ms: int) -> PendingAct:
    """An act of the rescaler's own that wants every task as wide as it is, or was; ``name`` says which, and stands in its id.

    ``span_end_ms``: since when it is wanted.
    """
    return PendingAct(
        decision_id=decision_id(topology.job, now_ms, name),
        span_end_ms=span_end_ms,
        accepted_at_ms=now_ms,
        wanted={spec.task: Wanted(desired=spec.parallelism, floor=0) for spec in topology.tasks if spec.scalable},
        own=name,
    )


def moving(idle: GateState, now_ms: int) -> GateState:
    """The gate while units move at constant parallelism: it is told of the end as of any rescale, and rests afterwards."""
    going = Transition(now_ms, Reason.DESIRED, Cause.TRIGGER, dict(idle.current or {}))
    return replace(idle, phase=Phase.TRANSITIONING, entered_at_ms=now_ms, now_ms=now_ms, transition=going)
