"""Brings a job whose figures stay away to the size that its owner calls safe. It only grows: nobody knows what the job needs.

KEDA calls this ``fallback`` (with ``behavior: currentReplicasIfHigher``). The act passes the checks, limits, pauses, excluded
periods and the gate of any other. What is held back is said, and asked for again after as long as the figures had to be away.
"""

from __future__ import annotations

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_limits import all_bounds, at_time
from surescale.contracts.job_settings import JobSettings, effective
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.topology import sized_tasks
from surescale.policies import stateful_limits as limits
from surescale.rescaler.control.counts import tied_tasks
from surescale.rescaler.control.job import checks
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import JobMemory, PendingAct, TaskTarget
from surescale.rescaler.control.job.own_acts import Asked
from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.control.world import parallelism_of


def note_figures(memory: JobMemory, decision: Decision) -> None:
    """Note until when a decision knew figures."""
    memory.figures_until_ms = max(memory.figures_until_ms, decision.figures_until_ms or 0)


def due_ms(context: JobContext) -> int | None:
    """Return when figures will have been away for too long; None: never, or the job would not grow then, or not now."""
    memory, world, topology = context.memory, context.world, context.topology
    if world.allowed.safe_size is None or not memory.figures_until_ms or memory.unreadable or world.mode.mode != "act":
        return None
    if memory.pending or memory.underway:
        return None
    if topology is None or topology.state != "running" or not _wanted(context, topology, world.allowed):
        return None
    if not _wanted(context, topology, _allowed_now(context, topology)):
        return (context.now_ms // MINUTE_MS + 1) * MINUTE_MS  # a period's maximum ends, and nothing may be heard of it
    after_ms = effective(world.allowed, "safe_after_minutes") * MINUTE_MS
    return max(memory.figures_until_ms, memory.safe_asked_ms) + int(after_ms)


def ask(context: JobContext) -> None:
    """Ask for the safe size if it is time, as an act that waits for the gate, or say why it cannot be had."""
    memory, world, topology = context.memory, context.world, context.topology
    at_ms = due_ms(context)
    if topology is None or at_ms is None or context.now_ms < at_ms:
        return
    memory.safe_asked_ms = context.now_ms
    minutes = (context.now_ms - memory.figures_until_ms) // MINUTE_MS
    act = PendingAct(
        decision_id=decision_id(memory.job, context.now_ms, OwnAct.SAFE.value),
        span_end_ms=memory.figures_until_ms,
        accepted_at_ms=context.now_ms,
        wanted=_wanted(context, topology, _allowed_now(context, topology)),
        own=OwnAct.SAFE,
        note=f"no figures for {minutes} minutes: to the safe size of {world.allowed.safe_size}",
    )
    asked = Asked.of(act.wanted, parallelism_of(topology), context.now_ms)
    if objection := checks.objection_to(asked, topology, world.allowed, world.mode):
        context.add_outcome(act, "refused", objection.reason, detail=f"{act.note}: {objection.detail}")
        return
    kept = limits.apply_limits(memory.limits, asked, topology, world.allowed, engine=world.engine.engine, hosts=world.hosts)
    if kept.refusal is not None:
        context.add_outcome(act, "refused", OutcomeReason(kept.refusal), detail=f"{act.note}: {kept.words}")
        return
    memory.pending = act


def outgrown(act: PendingAct, topology: JobTopology) -> checks.PauseEffect:
    """Return what is left of a waiting act that only grows: nothing for tasks that have its size by now, or more."""
    if act.own is not OwnAct.SAFE:
        return checks.PauseEffect()
    sizes = {spec.task: _size(spec) for spec in topology.tasks}
    kept = frozenset(task for task, want in act.wanted.items() if want.desired <= sizes.get(task, 0))
    words = f"{', '.join(sorted(kept))}: as large by now" if kept else ""
    return checks.PauseEffect(kept, words, is_nothing=kept == act.wanted.keys())


def _allowed_now(context: JobContext, topology: JobTopology) -> JobSettings:
    return at_time(context.world.allowed, topology.engine, context.now_ms)


def _wanted(context: JobContext, topology: JobTopology, allowed: JobSettings) -> dict[str, TaskTarget]:
    """Return the tasks that are smaller than the safe size and may grow. Tied ones grow together, as far as all of them may."""
    world, wanted = context.world, dict[str, TaskTarget]()
    groups = tied_tasks(topology, world.engine) if world.by_counts else []
    tied = {spec.task for group in groups for spec in group}
    for group in (*groups, *([spec] for spec in sized_tasks(topology) if spec.task not in tied)):
        bounds = all_bounds(allowed, group, topology.engine)
        desired = min(allowed.safe_size or 0, *(each.most for each in bounds))
        if desired > max(map(_size, group)) and not any(each.pinned for each in bounds):
            wanted |= {spec.task: TaskTarget(desired=desired, floor=0) for spec in group}
    return wanted


def _size(spec: TaskSpec) -> int:
    """Return how many subtasks a task has, or is to have once there are slots."""
    return max(spec.parallelism, spec.required or 0)
