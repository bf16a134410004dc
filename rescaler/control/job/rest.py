"""Takes a job that has nothing to do to no subtask at all, and starts it again when records arrive: off unless its owner asks.

Only where the engine can (``Capabilities.can_rest``) and the source knows by offsets that nothing is left to do
(``contracts.messages.Quiet``). All tasks of a job rest together, or none (decision 31).

To rest is never urgent: it waits for an idle gate, and everything that keeps a job from shrinking keeps it from resting. To start
is: it waits for no decision and no cooldown. What forbids any growth forbids it too, and is said.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_limits import (
    InPeriods,
    all_bounds,
    at_time,
    freeze_at,
    keeps_at_work,
    minimum_within,
    restart_ahead_ms,
    total_limit,
)
from surescale.contracts.job_settings import PeriodBounds, effective
from surescale.contracts.limits_in_words import in_periods_in_words
from surescale.contracts.messages import JobTopology
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.plurals import counted
from surescale.contracts.topology import RESTING, has_ended, required_of, running_of, sized_tasks
from surescale.policies.stateful_limits import DAY_MS
from surescale.rescaler.control.counts import plan_counts
from surescale.rescaler.control.job import own_acts
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import JobMemory, PendingAct, Rest, TaskTarget, WorkedSize
from surescale.rescaler.gate import Phase

FRESH_MS = 3 * MINUTE_MS
"""An older look at the job says nothing of now."""
WORKED_MS = 60 * MINUTE_MS
"""The largest size of this long before the last records is the one to start with."""
UNKNOWN_MS = 5 * MINUTE_MS
"""A job at rest of which it is not known for this long whether records wait is started."""
KEPT_MS = 3 * 24 * 60 * MINUTE_MS
"""Kafka forgets what a group without members has committed, after seven days unless it is set otherwise; so none rests longer."""


def note_size(memory: JobMemory, decision: Decision) -> None:
    """Remember the sizes that a decision wants while records come."""
    if not decision.load_records_per_minute:
        return
    sizes = {task.task: task.desired for task in decision.tasks}
    at_ms = decision.span_end_ms
    earlier = (each for each in memory.worked if at_ms - WORKED_MS < each.at_ms < at_ms)
    kept = (each for each in earlier if any(size > sizes.get(task, 0) for task, size in each.sizes.items()))
    memory.worked = (*kept, WorkedSize(at_ms=at_ms, sizes=sizes))


def look(context: JobContext) -> None:
    """Take the job to rest, or start it again, if it is time."""
    memory, topology = context.memory, context.topology
    if topology is None or memory.pending or memory.underway or not context.world.engine.can_rest:
        return
    if has_ended(topology):
        return  # by `surescale job forget`, maybe: if its monitor tells of it again, nobody else would start it
    if topology.state != RESTING:
        memory.rest = None
        if _may_rest(context, topology):
            _rest(context, topology)
        return
    memory.rest = rest = _noted(memory.rest, topology, context.now_ms)
    if rest is None:
        return
    why, held = _why_start(context, topology, rest), _held(context)
    if why and not held:
        _start(context, topology, why)
    else:
        memory.rest = msgspec.structs.replace(rest, held=f"{held}, though {why}" if held and why else held)


# To rest


def _may_rest(context: JobContext, topology: JobTopology) -> bool:
    """Say whether nothing is left to do, nothing is wrong with the job, and nobody has forbidden it to shrink."""
    memory, world, quiet = context.memory, context.world, topology.quiet
    minutes = effective(world.allowed, "idle_to_zero_minutes")
    if not minutes or world.mode.mode != "act" or topology.state != "running":
        return False
    if quiet is None or quiet.since_ms is None or quiet.waiting or quiet.why or context.now_ms - topology.at_ms > FRESH_MS:
        return False
    if context.now_ms - max(quiet.since_ms, memory.woke_ms) < minutes * MINUTE_MS:
        return False
    if memory.owned is not None and memory.owned.foreign:
        return False
    # Members that nobody asked for, or that are missing: somebody else runs one, or one fails.
    if any(spec.required != spec.parallelism or spec.hindrance or spec.backlog_partly_unknown for spec in topology.tasks):
        return False
    if any(each.pinned for each in all_bounds(world.allowed, topology.tasks, topology.engine)) or _at_work(context) is not None:
        return False
    if world.pauses.stops("down") or freeze_at(world.allowed.excluded or (), context.now_ms) != "none":
        return False
    most, today = world.allowed.rescales_a_day_max, memory.limits.rescaled_ms
    return most is None or sum(time > context.now_ms - DAY_MS for time in today) < most


def _rest(context: JobContext, topology: JobTopology) -> None:
    memory, quiet, running = context.memory, topology.quiet, running_of(topology)
    assert quiet is not None, "a job of which nothing is known does not rest"
    assert quiet.since_ms is not None, "nor one that has something to do"
    gate = context.gate(topology)
    if gate.phase is not Phase.IDLING:
        memory.gate = gate.state  # when its cooldown is over
        return
    minutes = counted((context.now_ms - quiet.since_ms) // MINUTE_MS, "minute")
    act = _act(context, OwnAct.REST, running, since_ms=quiet.since_ms)
    plan = plan_counts(topology, dict.fromkeys(running, 0), whole=True)
    memory.rest = Rest(since_ms=context.now_ms)
    own_acts.go(context, gate, act, plan, f"no record for {minutes}: {_members(running, dict.fromkeys(running, 0))}")


# To start


def _noted(rest: Rest | None, topology: JobTopology, now_ms: int) -> Rest | None:
    """Return what is to be remembered of a job that rests, by now; None: somebody else has stopped it, so it stays like that."""
    asked = topology.requirement_id
    if rest is None or (asked and rest.requirement_id and asked != rest.requirement_id):
        return None
    unknown_ms = (rest.unknown_ms or now_ms) if _why_unknown(topology, now_ms) else 0
    return msgspec.structs.replace(rest, requirement_id=rest.requirement_id or asked, unknown_ms=unknown_ms)


def _why_unknown(topology: JobTopology, now_ms: int) -> str:
    """Return why it is not known whether records wait; empty: it is known, or the source is one that never says."""
    if topology.quiet is None:
        return ""
    is_old = now_ms - topology.at_ms > FRESH_MS
    return topology.quiet.why or ("the monitor has not looked for minutes" if is_old else "")


def due_ms(context: JobContext) -> int | None:
    """Return when a job at rest is to be looked at again though no news of it has come; None: never."""
    rest, topology = context.memory.rest, context.topology
    if rest is None or topology is None or topology.state != RESTING:
        return None
    at_ms = rest.unknown_ms + UNKNOWN_MS if rest.unknown_ms else topology.at_ms + FRESH_MS + 1
    # What holds it back may be over by the next minute. That does not move on with every input that comes meanwhile.
    return at_ms if at_ms > context.now_ms else (context.now_ms // MINUTE_MS + 1) * MINUTE_MS


def _why_start(context: JobContext, topology: JobTopology, rest: Rest) -> str:
    """Return why a job at rest is to be started; empty: it is not."""
    allowed, quiet, now_ms = context.world.allowed, topology.quiet, context.now_ms
    if quiet is not None and quiet.waiting > effective(allowed, "activation_lag"):
        return "1 record waits" if quiet.waiting == 1 else f"{quiet.waiting} records wait"
    if not effective(allowed, "idle_to_zero_minutes"):
        return "it may rest no longer"
    if (period := _at_work(context)) is not None:
        return in_periods_in_words(InPeriods(least=period), now_ms)
    if rest.unknown_ms and now_ms - rest.unknown_ms >= UNKNOWN_MS:
        return f"it is not known whether records wait ({_why_unknown(topology, now_ms)})"
    if now_ms - rest.since_ms >= KEPT_MS:
        return "it has rested for three days, and Kafka forgets the offsets of a group that has no members for longer"
    return ""


def _held(context: JobContext) -> str:
    """Return what forbids a job to start; empty: nothing does."""
    memory, world = context.memory, context.world
    if world.mode.mode != "act":
        return f"its mode is {world.mode.mode}"
    if world.pauses.stops("up"):
        return str(world.pauses)
    if freeze_at(world.allowed.excluded or (), context.now_ms) == "all":
        return "this is a strict excluded period"
    topology = context.topology
    if memory.failures and topology is not None and (gate := context.gate(topology)).phase is not Phase.IDLING:
        memory.gate = gate.state
        return "its last start failed, and the next try waits"
    return ""


def _start(context: JobContext, topology: JobTopology, why: str) -> None:
    memory, sizes = context.memory, _sizes(context, topology)
    act = _act(context, OwnAct.WAKE, sizes, since_ms=context.now_ms)
    plan, gate = plan_counts(topology, sizes, whole=True), context.gate(topology)
    memory.woke_ms = memory.safe_asked_ms = context.now_ms  # no figure was to be had until now
    own_acts.go(context, gate, act, plan, f"{why}: {_members(required_of(topology), sizes)}", wanted=sizes)


def _sizes(context: JobContext, topology: JobTopology) -> dict[str, int]:
    """Return the largest sizes that the job last worked with, or else those it last ran with, within its bounds."""
    memory, now_ms = context.memory, context.now_ms
    allowed = at_time(context.world.allowed, topology.engine, now_ms)
    specs = sized_tasks(topology)
    bounds = dict(
        zip((spec.task for spec in specs), all_bounds(allowed, specs, topology.engine, _period_minimum(context)), strict=True)
    )
    sizes = {}
    for spec in specs:
        worked = max((each.sizes.get(spec.task, 0) for each in memory.worked), default=0) or spec.parallelism
        sizes[spec.task] = max(1, min(bounds[spec.task].most, max(bounds[spec.task].least, worked)))
    total = total_limit(allowed, topology.engine)
    if total is not None and sum(sizes.values()) > total:
        return {task: max(1, min(each.least, each.most)) for task, each in bounds.items()}
    return sizes


# Both


def _period_minimum(context: JobContext) -> int:
    """Return the minimum of the periods that cover now, or begin before the job could run; 0: none."""
    return minimum_within(context.world.allowed, context.now_ms, _ahead_ms(context))


def _at_work(context: JobContext) -> PeriodBounds | None:
    """Return the period, of those that cover now or begin before the job could run, that lets it not rest."""
    return keeps_at_work(context.world.allowed, context.now_ms, _ahead_ms(context))


def _ahead_ms(context: JobContext) -> int:
    topology = context.topology
    return restart_ahead_ms(context.world.allowed, topology.restart_ms if topology else None)


def _act(context: JobContext, own: OwnAct, sizes: Mapping[str, int], *, since_ms: int) -> PendingAct:
    return PendingAct(
        decision_id=decision_id(context.memory.job, context.now_ms, own.value),
        span_end_ms=since_ms,
        accepted_at_ms=context.now_ms,
        wanted={task: TaskTarget(desired=size, floor=0) for task, size in sizes.items()},
        own=own,
    )


def _members(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return ``2 -> 0 members``, of several tasks ``parse 2 -> 0, count 1 -> 0 members``."""
    if len(after) == 1:
        ((task, size),) = after.items()
        return f"{before[task]} -> {counted(size, 'member')}"
    return f"{', '.join(f'{task} {before[task]} -> {size}' for task, size in after.items())} members"
