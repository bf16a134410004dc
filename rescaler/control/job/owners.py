"""Who has set a job's parallelism: we, its author, or somebody else whom we do not fight. Pure.

Only for engines that remember what they were asked for. The rescaler keeps the requirement that it last wrote, and each topology
brings the one in force. Where they differ and nothing of ours is on its way, somebody else has changed it: drift. That fewer
subtasks run than required is none: slots are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from surescale.contracts.commands import Drift, Progress, RescheduleCommand
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.topology import has_ended, required_of, running_of
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import OwnedRequirement

RETURN_MS = 600_000
"""A requirement that goes back to what it was this soon after ours was put back by somebody."""
RETURNS_MAX = 2
"""How often somebody may put our requirement back before we stop."""
PEACE_MS = 3_600_000
"""After this long undisturbed, what was put back before no longer counts."""

REQUIREMENT_CHANGED, PARTLY = "REQUIREMENT_CHANGED", "PARTLY"
_PERHAPS_PENDING = ("DEADLINE", PARTLY, "SUPERSEDED", "ACTUATOR_ERROR")
"""Codes of failures after which the engine may want what the command asked for, also if nobody heard that it took it on."""


# What is seen


def look(context: JobContext) -> None:
    """Compare what the engine is asked for with what we last wrote, and remember the difference."""
    topology, memory = context.world.topology, context.memory
    if not context.world.by_counts or topology is None or has_ended(topology):
        return
    owned = memory.owned or OwnedRequirement(epoch=topology.epoch)
    if topology.epoch and owned.epoch and topology.epoch != owned.epoch:
        owned = _submitted_again(owned, topology, context.now_ms)
    elif memory.underway is None and not owned.is_before(topology):
        owned = _compared(owned, topology, context.world.allowed, context.now_ms)
    if owned != memory.owned:
        drift = _drift(context, memory.owned or OwnedRequirement(), owned, topology)
        if drift is not None:
            context.effects.drifts.append(drift)
        memory.owned = owned


def _drift(context: JobContext, before: OwnedRequirement, now: OwnedRequirement, topology: JobTopology) -> Drift | None:
    """Return the record of a foreign change that was found or settled between two looks; None: there was none."""
    status: Literal["changed", "adopted", "returned"]
    theirs = required_of(topology)
    if (before.epoch and before.epoch != now.epoch) or theirs.keys() != before.required.keys():
        return None
    if now.foreign and now.foreign != before.foreign:
        status = "changed"
    elif now.required != before.required and now.required == theirs and before.abandoned != theirs:
        status = "adopted"
    elif before.foreign and not now.foreign:
        status, theirs = "returned", before.foreign
    else:
        return None
    return Drift(
        cluster=context.world.cluster,
        job=context.memory.job,
        status=status,
        at_ms=context.world.now_ms,
        epoch=now.epoch,
        ours=before.required,
        theirs=theirs,
        returned=now.returned,
    )


def _submitted_again(owned: OwnedRequirement, topology: JobTopology, now_ms: int) -> OwnedRequirement:
    """Begin with what the job's author wants; what was required before can be asked for again."""
    required, last = required_of(topology), owned.required
    offer = last if last and last != required and last.keys() == required.keys() else {}
    return OwnedRequirement(epoch=topology.epoch, epoch_at_ms=now_ms, offer=offer)


def _compared(owned: OwnedRequirement, topology: JobTopology, allowed: JobSettings, now_ms: int) -> OwnedRequirement:
    required = required_of(topology)
    if not owned.epoch:
        owned = msgspec.structs.replace(owned, epoch=topology.epoch)
    if owned.abandoned == required:  # late, but ours
        owned = msgspec.structs.replace(owned, foreign={})
        return _took_over(owned, required) if running_of(topology) == required else owned
    if not owned.required or owned.required.keys() != required.keys():  # nothing of ours, or the job has other tasks now
        return msgspec.structs.replace(owned, required={}, foreign={})
    if owned.required == required:
        at_peace = owned.returned and now_ms - owned.since_ms > PEACE_MS
        return msgspec.structs.replace(owned, foreign={}, returned=0 if at_peace else owned.returned)
    if owned.foreign != required:
        is_return = required == owned.before and now_ms - owned.since_ms <= RETURN_MS
        returned = owned.returned + is_return
        owned = msgspec.structs.replace(owned, foreign=required, foreign_at_ms=now_ms, returned=returned)
    if allowed.adopted_at_ms >= owned.foreign_at_ms:
        return msgspec.structs.replace(_took_over(owned, required), returned=0)
    return _took_over(owned, required) if allowed.on_drift == "adopt" and not is_contested(owned) else owned


def _took_over(owned: OwnedRequirement, required: Mapping[str, int]) -> OwnedRequirement:
    taken = dict(required)
    past = {"before": {}, "before_id": "", "earlier": (), "abandoned": {}, "foreign": {}}
    return msgspec.structs.replace(owned, required=taken, runs={}, **past)


def is_contested(owned: OwnedRequirement) -> bool:
    """Say whether somebody keeps putting back what we ask for."""
    return bool(owned.foreign) and owned.returned >= RETURNS_MAX


# What is written


def written(
    context: JobContext, command: RescheduleCommand, progress: Progress | None, *, ok: bool, accepted: bool, at_ms: int
) -> None:
    """Remember what the engine is asked for after a command's end.

    Args:
        context: of the job.
        command: that has ended.
        progress: its last report; None: nobody reported its end.
        ok: it was carried out.
        accepted: the engine had taken it on.
        at_ms: when it ended.
    """
    owned, expected = context.memory.owned, command.expected
    if owned is None or expected is None or (expected.epoch and expected.epoch != owned.epoch):
        return
    target = {**expected.required, **command.targets}
    code, reached = ("", {}) if progress is None else (progress.code, progress.reached)
    if ok or reached:
        now = target if ok else {**target, **reached}
        context.memory.owned = msgspec.structs.replace(
            _took_over(owned, now),
            before=expected.required if now != expected.required else {},
            before_id=expected.requirement_id,
            earlier=tuple(each for each in (expected.required, target) if each != now),
            since_ms=at_ms,
            runs={change.task: now[change.task] for change in command.changes} if ok or code == PARTLY else {},
            offer={},
        )
    elif code == REQUIREMENT_CHANGED and accepted:  # theirs may be older than our report of it
        ours = {
            "required": target,
            "before": expected.required,
            "earlier": (expected.required,),
            "since_ms": command.issued_at_ms,
        }
        context.memory.owned = msgspec.structs.replace(owned, **ours, before_id="", abandoned={})
        context.memory.rest = None  # one that was being started and is asked for nothing again was stopped by them
    elif progress is None or accepted or code in _PERHAPS_PENDING:
        context.memory.owned = msgspec.structs.replace(owned, abandoned=target)


# What follows


def to_take_back(context: JobContext, topology: JobTopology) -> dict[str, int] | None:
    """Return what to ask for instead of a command that was given up and that the engine may still carry out; None: nothing.

    That is what runs if it is a part of the way, as at the end of any command.
    """
    owned, required, running = context.memory.owned, required_of(topology), running_of(topology)
    if owned is None or not owned.abandoned or owned.abandoned != required or running == required:
        return None
    ours = owned.required
    if ours.keys() != running.keys() or not any(ours.values()):  # nobody is put to rest by this
        return running
    is_part = all(min(ours[task], required[task]) <= count <= max(ours[task], required[task]) for task, count in running.items())
    return running if is_part else ours


def to_insist_on(context: JobContext) -> dict[str, int] | None:
    """Return our requirement, if it was changed and the user wants it kept; None: leave it."""
    owned = context.memory.owned
    insists = context.world.allowed.on_drift == "insist"
    return owned.required if owned is not None and insists and owned.foreign and not is_contested(owned) else None


def to_apply_again(context: JobContext) -> dict[str, int] | None:
    """Return the requirement from before the job was submitted again, if the user wants it back; None: leave it."""
    owned = context.memory.owned
    if owned is None or not owned.offer or context.world.allowed.reapplied_at_ms < owned.epoch_at_ms:
        return None
    return owned.offer


def loses_state(context: JobContext, topology: JobTopology) -> bool:
    """Say whether a rescale would lose the job's state: it is restored from checkpoints, and there are none."""
    taken = topology.checkpointing
    return context.world.engine.takes_effect == "checkpoint" and taken is not None and taken.interval_ms is None


def named(parallelism: Mapping[str, int], topology: JobTopology | None = None) -> str:
    """Return a parallelism for people: tasks by their labels."""
    labels = {spec.task: spec.label for spec in topology.tasks} if topology is not None else {}
    return ", ".join(f"{labels.get(task) or task} {count}" for task, count in sorted(parallelism.items()))
