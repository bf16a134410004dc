"""Moves at constant parallelism, off hosts that will be removed or between hosts: no policy asks for them. Pure."""

from __future__ import annotations

from dataclasses import replace

from contracts.ids import decision_id
from contracts.messages import JobTopology
from rescaler.control.memory import PendingAct, Wanted
from rescaler.control.situation import Situation
from rescaler.control.view import units_of
from rescaler.gate import Cause, GateState, Phase, Reason, Transition

DRAIN = "drain"  # in place of a policy's name in the id of an act that moves a job off hosts that go


def must_drain(topology: JobTopology, now: Situation) -> bool:
    """The job runs, may be moved, and has units on a host that will be removed."""
    leaving = {unit for host in now.hosts if host.state == "removed_soon" for unit in host.units}
    return topology.state == "running" and now.settings.mode == "act" and bool(units_of(topology) & leaving)


def own_act(topology: JobTopology, now_ms: int, name: str) -> PendingAct:
    """An act of the rescaler's own that wants every task as wide as it is; ``name`` stands in its id."""
    return PendingAct(
        decision_id=decision_id(topology.job, now_ms, name),
        span_end_ms=now_ms,
        accepted_at_ms=now_ms,
        wanted={spec.task: Wanted(desired=spec.parallelism, floor=0) for spec in topology.tasks if spec.scalable},
    )


def drained(idle: GateState, now_ms: int) -> GateState:
    """The gate while the job moves: it is told of the end as of any rescale, and rests afterwards."""
    going = Transition(now_ms, Reason.DESIRED, Cause.TRIGGER, dict(idle.current or {}))
    return replace(idle, phase=Phase.TRANSITIONING, entered_at_ms=now_ms, now_ms=now_ms, transition=going)
