"""From one step of a rescale to the next: what follows when learners are ready, and when they are given up. Pure choices.

prepare ──ready──▶ commit ──applied──▶ over
   │ ▲                ▲
   │ └─ elsewhere ──┐ │ cold
   └─ given up ─────┴─┴──▶ abort ──▶ over, nothing has changed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from contracts.commands import RescheduleCommand
from contracts.messages import Host
from rescaler.control.issuing import Action
from rescaler.control.memory import Rescaling
from rescaler.control.plan import JobPlan
from rescaler.control.situation import ControlSettings
from rescaler.gate import Transition
from rescaler.refusals import Refused
from rescaler.reschedule_steps import Step

STEP_OF: dict[Action, Step] = {"prepare": Step.PREPARE, "commit": Step.BARRIER, "abort": Step.UNDO_PREPARE}

WARM_UP_TIMEOUT = "WARM_UP_TIMEOUT"
"""Learners were not ready in time."""
NOT_WARMED = "NOT_WARMED"
"""The engine has no learners: what shall not be moved cold stays."""
LEARNER_LOST = "LEARNER_LOST"
"""A unit that the job was to move to is gone, or on a host that goes."""


@dataclass(frozen=True, slots=True)
class Following:
    """The next step; ``plan`` is set where another one takes the place of the former."""

    action: Action
    plan: JobPlan | None = None
    avoided_units: tuple[int, ...] = ()


def begun(first: RescheduleCommand, transition: Transition, own: str) -> Rescaling:
    """The intent that is written together with the first command of a rescale; ``own``: as of its act."""
    assert first.action != "standby", "standbys are no rescale"
    return Rescaling(
        generation=first.desired_generation,
        decision_id=first.decision_id,
        step=STEP_OF[first.action],
        began_at_ms=first.issued_at_ms,
        wanted=transition.parallelism or {},
        preparations=int(first.action == "prepare"),
        own=own,
    )


def after_failed_preparation(
    rescaling: Rescaling,
    code: str,
    units: Sequence[int],
    hosts: Sequence[Host],
    settings: ControlSettings,
    plan_without: Callable[[Collection[int]], JobPlan],
) -> Following:
    """What follows learners that were given up.

    Args:
        rescaling: the rescale; its ``preparations`` bound how often others are begun.
        code: why they were given up.
        units: those that were lost or too slow.
        hosts: every host that is alive.
        settings: what shall follow a timeout.
        plan_without: plans the rescale anew without some units; raises `Refused`.
    """
    avoided = _with_their_hosts(units, hosts) | set(rescaling.avoided_units)
    may_try = rescaling.preparations < settings.preparations_max
    if code == WARM_UP_TIMEOUT:
        elsewhere = settings.warm_up_then == "elsewhere" and may_try
        return (_elsewhere(avoided, plan_without) if elsewhere else None) or Following("commit")
    if code == LEARNER_LOST and may_try:
        return _elsewhere(avoided, plan_without) or Following("abort")
    return Following("abort")


def _elsewhere(avoided: Collection[int], plan_without: Callable[[Collection[int]], JobPlan]) -> Following | None:
    try:
        plan = plan_without(avoided)
    except Refused:
        return None
    if not plan.changes:
        return None
    return Following("prepare" if plan.state_moves else "commit", plan, tuple(sorted(avoided)))


def _with_their_hosts(units: Sequence[int], hosts: Sequence[Host]) -> set[int]:
    """These units and all others of their hosts."""
    return set(units) | {unit for host in hosts if set(units) & set(host.units) for unit in host.units}
