"""The user's limits that need a memory or the hosts: rescales a day, lower needs that last, growth that did not help, the quotas.

The other limits are guardrails, which remember nothing. Everything here is a function of `LimitsMemory`, of the decision and of
the world; the rescaler calls ``apply_limits`` before it takes an act on, ``with_needs`` for every decision, and ``after_begin``
and ``after_end`` around a rescale. Closed loops that judge policies do the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, TaskDecision
from surescale.contracts.job_limits import all_bounds, blocks_ineffective, scale_down_after_minutes, total_limit
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Host, JobTopology
from surescale.contracts.plurals import counted
from surescale.contracts.topology import dealt_to, slots_needed
from surescale.policies.dealt import Deal, Dealt, carried, deal_of

UNPROVEN = "unproven"
"""The guardrail that keeps a task as wide as it is while its figures do not prove that it needs less."""
DAY_MS = 24 * 60 * MINUTE_MS
EFFECT_MIN = 0.1
"""Least part of the expected growth in throughput; Flink's ``job.autoscaler.scaling.effectiveness.threshold``."""
SETTLED_MS = 5 * MINUTE_MS
"""How long after a rescale its effect can be judged: a decision reports the mean throughput of five minutes."""
BLOCKED_MS = DAY_MS
"""How long growth is not repeated after one that brought nothing. It ends at once when more is got through: then what was in the
way has gone, and the present subtasks show it."""
TAKEN_BACK_MS = 120 * MINUTE_MS
"""A task that has to grow again so soon after it shrank, at no higher load, shrank in vain."""
TOO_FEW_MS = 12 * 60 * MINUTE_MS
"""How long a task does not shrink to that size again while the load is as high."""
SOON_MS = 30 * MINUTE_MS
"""A shrink that more load takes back so soon saved less than the restart and what waits at its end cost. A need of so few must
last twice as long before the next one."""
LONGER_MAX = 4
LONGER_MS = 240 * MINUTE_MS
"""How long that is so: then it is tried again."""
LOAD_NOISE = 0.1
"""Loads that differ by so much are as high as each other."""


LimitReason = Literal["scale_down_waits", "ineffective", "too_many_a_day", "above_cpu_limit", "above_memory_limit"]


class SizeRequest(Protocol):
    """A decision, or something else that asks for sizes of tasks."""

    @property
    def span_end_ms(self) -> int:
        """The end of the span that it is about."""

    @property
    def tasks(self) -> Sequence[TaskDecision]:
        """What is wanted of each task."""


class Need(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Since ``since_ms`` a task has needed at most ``size`` subtasks."""

    since_ms: int
    size: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The last time an overloaded task was given more subtasks, what it processed before, and the load of its job then."""

    before: int
    after: int
    records_per_minute: float
    ended_ms: int | None = None  # None: under way
    load: float | None = None  # None: unknown


class Shrink(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a task was given fewer subtasks: how many, at which load of its job, and when that was taken back."""

    size: int
    load: float
    at_ms: int
    undone_ms: int | None = None
    before: int = 0  # subtasks that it had
    former: tuple[Shrink, ...] = ()  # those shortly before it, sizes falling: together they may be one way down


class Longer(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A need of less than ``below`` must last so many times as long as usual: such a shrink was taken back soon at ``at_ms``."""

    times: int
    at_ms: int
    below: int = 1


class LimitsMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the limits need to know of a job's past."""

    rescaled_ms: tuple[int, ...] = ()  # when rescales for decisions began, within the last day
    needs: dict[str, tuple[Need, ...]] = {}  # by task, sizes falling; only while lower needs must last
    growths: dict[str, Growth] = {}  # by task
    load: float | None = None  # records a minute that came to the job, by the last decision
    shrinks: dict[str, Shrink] = {}  # by task, the last one; only while it may yet be taken back
    too_few: dict[str, Shrink] = {}  # by task, the last ones that were
    longer: dict[str, Longer] = {}  # by task


@dataclass(frozen=True, slots=True)
class LimitedAct:
    """What is left of a decision: the parallelism wanted by task, and why it is less of a change than decided.

    ``refusal``: nothing is left to be done.
    """

    wanted: dict[str, int]
    words: str = ""
    refusal: LimitReason | None = None


def with_needs(memory: LimitsMemory, decision: Decision, settings: JobSettings, engine: str, *, before_ms: int) -> LimitsMemory:
    """Return the memory with what a decision says each task needs.

    Where a task stays as it is because too little is known, the decision says nothing of what it needs: earlier needs stand, and
    have lasted no longer than before. Nor have they in a pause of which the decision's window knows fewer minutes.

    Args:
        memory: as it was.
        decision: the newest.
        settings: the job's.
        engine: the kind that runs the job.
        before_ms: the end of the span that was decided on before.
    """
    memory = msgspec.structs.replace(memory, load=decision.load_records_per_minute)
    minutes = scale_down_after_minutes(settings, engine)
    if not minutes:
        return msgspec.structs.replace(memory, needs={})
    passed_ms = decision.span_end_ms - before_ms
    needs = {}
    for task in decision.tasks:
        longer = _longer_of(memory, task.task, decision.span_end_ms)
        oldest_ms = decision.span_end_ms - minutes * (longer.times if longer else 1) * MINUTE_MS
        is_unknown = _is_unknown(decision, task)
        unknown_ms = passed_ms if is_unknown else max(0, passed_ms - decision.minutes_known * MINUTE_MS)
        known = _later(memory.needs.get(task.task, ()), unknown_ms)
        if not is_unknown:
            known = _after(known, decision.span_end_ms, task.desired, oldest_ms)
        if known:
            needs[task.task] = known
    return msgspec.structs.replace(memory, needs=needs)


def _is_unknown(decision: Decision, task: TaskDecision) -> bool:
    """Say whether nobody knows what a task that stays needs: it may be less than it has."""
    doubted = decision.undecided is True or any(amendment.rule == UNPROVEN for amendment in task.amendments)
    return doubted and task.desired == task.current


def _later(needs: tuple[Need, ...], by_ms: int) -> tuple[Need, ...]:
    """Return needs that have lasted for so much less."""
    return tuple(msgspec.structs.replace(need, since_ms=need.since_ms + by_ms) for need in needs) if by_ms else needs


def _after(needs: tuple[Need, ...], at_ms: int, size: int, oldest_ms: int) -> tuple[Need, ...]:
    higher = tuple(need for need in needs if need.size > size)
    since_ms = min((need.since_ms for need in needs if need.size <= size), default=at_ms)
    falling = (*higher, Need(since_ms=since_ms, size=size))
    settled = sum(need.since_ms <= oldest_ms for need in falling)
    return falling[max(0, settled - 1) :]  # those before the last settled one bind nobody any more


def apply_limits(
    memory: LimitsMemory,
    decision: SizeRequest,
    topology: JobTopology,
    settings: JobSettings,
    *,
    engine: str,
    hosts: Iterable[Host],
) -> LimitedAct:
    """Return what the limits leave of an act that passed the checks.

    A lower need that has not lasted waits; growth that brought nothing is not repeated. Then the whole act must fit the job's
    rescales of a day and its CPU. ``engine``: the kind that runs the job.
    """
    current = {spec.task: spec.parallelism for spec in topology.tasks}
    decided = {task.task: task.desired for task in decision.tasks}
    dealt = {
        spec.task: deal_of(np.array([things]), (spec.carries,))
        for spec, things in zip(topology.tasks, dealt_to(topology.tasks), strict=True)
    }
    wanted, words = dict(decided), []
    reasons: list[LimitReason] = []
    minutes, total = scale_down_after_minutes(settings, engine), total_limit(settings, engine)
    # What the owner bounds is not kept.
    may_keep = blocks_ineffective(settings, engine) and (total is None or _total(current, topology) <= total)
    most = {spec.task: each.most for spec, each in zip(topology.tasks, all_bounds(settings, topology.tasks, engine), strict=True)}
    for task in decision.tasks:
        running = current[task.task]
        if task.desired < running:
            needs, longer = memory.needs.get(task.task, ()), _longer_of(memory, task.task, decision.span_end_ms)
            lasting, wait, why = _lasting(needs, decision.span_end_ms, minutes, running), minutes, ""
            if longer is not None and task.desired < longer.below:
                wait, why = longer.times * minutes, ", since such a shrink was soon taken back"
                lasting = max(lasting, min(_lasting(needs, decision.span_end_ms, wait, running), longer.below))
            if lasting > task.desired:
                wanted[task.task] = lasting
                words.append(f"{task.task}: {_waits(task, lasting, wait)}{why}")
                reasons.append("scale_down_waits")
            shrink = memory.too_few.get(task.task) if may_keep and running <= most[task.task] else None
            if shrink and wanted[task.task] <= shrink.size and _was_too_few(shrink, memory.load, decision.span_end_ms):
                wanted[task.task] = running
                words.append(f"{task.task}: {shrink.size} were too few at this load, so it keeps {running}")
                reasons.append("scale_down_waits")
    for members in _by_tie(decision.tasks, topology) if blocks_ineffective(settings, engine) else ():
        overloaded = [task for task in members if _is_behind(task) and task.desired > current[task.task]]
        vain = {
            task.task: why
            for task in overloaded
            if (growth := memory.growths.get(task.task)) is not None
            and growth.after == current[task.task]
            and (why := _why_no_more(growth, task, dealt[task.task], memory.load, decision.span_end_ms))
        }
        if vain and len(vain) == len(overloaded):  # the others grow along with these
            wanted |= {task.task: min(wanted[task.task], current[task.task]) for task in members}
            words += [f"{task}: {why}" for task, why in vain.items()]
            reasons.append("ineffective")
    wanted = _tied(wanted, topology)
    if total is not None and _total(wanted, topology) > max(total, _total(current, topology)):
        wanted, words = decided, []  # what was to shrink makes room for what grows: the total is worth more than the wait
    if all(wanted[task] == current[task] for task in wanted):
        return LimitedAct(wanted, _sentence(words), reasons[0] if reasons else None)
    return within_budget(memory, LimitedAct(wanted, _sentence(words)), decision, topology, settings, hosts)


class Change(msgspec.Struct, frozen=True):
    """How many subtasks a task has ``before`` and ``after``; ``overloaded_at``: what it gets through, if it is overloaded."""

    before: int
    after: int
    overloaded_at: float | None = None


def after_begin(memory: LimitsMemory, changes: Mapping[str, Change], at_ms: int) -> LimitsMemory:
    """Return the memory once a rescale for a decision has begun that changes these tasks."""
    recent = tuple(time for time in memory.rescaled_ms if time > at_ms - DAY_MS)
    growths = {task: growth for task, growth in memory.growths.items() if task not in changes}
    shrinks = {task: each for task, each in memory.shrinks.items() if at_ms <= each.at_ms + TAKEN_BACK_MS}
    too_few = {task: each for task, each in memory.too_few.items() if at_ms < (each.undone_ms or 0) + TOO_FEW_MS}
    longer = {task: each for task, each in memory.longer.items() if at_ms < each.at_ms + LONGER_MS}
    for task, change in changes.items():
        if change.after > change.before:
            if change.overloaded_at is not None:
                growths[task] = Growth(
                    before=change.before, after=change.after, records_per_minute=change.overloaded_at, load=memory.load
                )
            shrink = shrinks.get(task)
            if shrink is not None and change.before <= shrink.size and _is_taken_back(shrink, memory.load):
                too_few[task] = msgspec.structs.replace(shrinks.pop(task), undone_ms=at_ms)
            elif shrink is not None and (undone := _undone(shrink, change, at_ms)):
                longer[task] = _longer(longer.get(task), undone, change.after, at_ms)
                left = tuple(each for each in _recent(shrink, at_ms) if each not in undone)
                del shrinks[task]
                if left:
                    shrinks[task] = msgspec.structs.replace(left[-1], former=left[:-1])
        elif memory.load is not None:
            former = _recent(shrinks[task], at_ms) if task in shrinks else ()
            shrinks[task] = Shrink(size=change.after, load=memory.load, at_ms=at_ms, before=change.before, former=former)
    return msgspec.structs.replace(
        memory, rescaled_ms=(*recent, at_ms), growths=growths, shrinks=shrinks, too_few=too_few, longer=longer
    )


def after_end(memory: LimitsMemory, *, ok: bool, at_ms: int) -> LimitsMemory:
    """Return the memory once a rescale has ended. Growth that failed was none, and old growth is forgotten."""
    growths = {
        task: growth if growth.ended_ms is not None else msgspec.structs.replace(growth, ended_ms=at_ms)
        for task, growth in memory.growths.items()
        if (ok or growth.ended_ms is not None) and (growth.ended_ms or at_ms) > at_ms - BLOCKED_MS
    }
    return msgspec.structs.replace(memory, growths=growths)


def _recent(shrink: Shrink, at_ms: int) -> tuple[Shrink, ...]:
    """Return a task's shrinks of the last half hour that no growth has taken back, the last one last."""
    every = (*shrink.former, msgspec.structs.replace(shrink, former=()))
    return tuple(each for each in every if at_ms <= each.at_ms + SOON_MS)


def _undone(shrink: Shrink, change: Change, at_ms: int) -> list[Shrink]:
    """Return the shrinks that a growth takes back soon."""
    return [each for each in _recent(shrink, at_ms) if change.before <= each.size < change.after]


def _longer(known: Longer | None, undone: Sequence[Shrink], grown_to: int, at_ms: int) -> Longer:
    """Return which needs must last longer once growth has taken these shrinks back: the larger sizes stayed for long enough.

    Twice as long; where the first of them had waited for longer already, twice as long as that.
    """
    below = min(undone[0].before, grown_to)
    had_waited = known is not None and undone[0].size < known.below
    times = min(2 * known.times, LONGER_MAX) if known is not None and had_waited else 2
    return Longer(times=times, at_ms=at_ms, below=max(below, known.below) if known is not None else below)


def _longer_of(memory: LimitsMemory, task: str, at_ms: int) -> Longer | None:
    """Return which needs of a task must last longer now."""
    longer = memory.longer.get(task)
    return longer if longer is not None and at_ms < longer.at_ms + LONGER_MS else None


def _lasting(needs: tuple[Need, ...], at_ms: int, minutes: int, running: int) -> int:
    """Return the most that a task has needed within the minutes that a lower need must last, at most what runs."""
    if not minutes:
        return 0
    oldest_ms = at_ms - minutes * MINUTE_MS
    settled = [need.size for need in needs if need.since_ms <= oldest_ms]
    return min(settled[-1], running) if settled else running


def _is_behind(task: TaskDecision) -> bool:
    """Say whether a task is overloaded; one that gets nothing through while records wait for it is, whatever a record costs."""
    return bool(task.overloaded) or (task.records_per_minute == 0.0 and bool(task.waiting_records))


def _why_no_more(growth: Growth, task: TaskDecision, dealt: Dealt, load: float | None, at_ms: int) -> str:
    """Say why an overloaded task gets no more subtasks after its last growth; empty if it may. ``dealt``: to it alone.

    That growth brought next to nothing; or it was for the load that still comes and has had no time to show what it brings. Where
    all subtasks wait for one thing outside, more of them make each seem slower, and so ask for even more. Ask only while the task
    runs at the size that growth brought: from a size that somebody has set since, growing has not been tried. Where partitions
    are unequal, one that left the hot ones together says nothing of one that parts them, and so promises more.
    """
    if growth.ended_ms is None or task.records_per_minute is None or at_ms >= growth.ended_ms + BLOCKED_MS:
        return ""
    expected = _gain_expected(growth.before, growth.after, dealt)
    if expected <= 0.0 or (isinstance(dealt, Deal) and _gain_expected(growth.after, task.desired, dealt) > expected):
        return ""
    if at_ms < growth.ended_ms + SETTLED_MS:
        is_for_more = load is not None and growth.load is not None and load > (1.0 + LOAD_NOISE) * growth.load
        wait = math.ceil((growth.ended_ms + SETTLED_MS - at_ms) / MINUTE_MS)
        grew = f"it grew from {growth.before} to {growth.after} for this load, and what that does shows"
        return "" if is_for_more else f"{grew} within {counted(wait, 'minute')}"
    if task.records_per_minute > (1.0 + EFFECT_MIN * expected) * growth.records_per_minute:
        return ""
    changed = task.records_per_minute / growth.records_per_minute - 1.0 if growth.records_per_minute else 0.0
    return f"growing from {growth.before} to {growth.after} changed its throughput by {changed:.0%}, not {expected:.0%}"


def _is_taken_back(shrink: Shrink, load: float | None) -> bool:
    """Say whether growth soon after a task shrank shows that this was in vain: no more comes than then."""
    return load is not None and load <= (1.0 + LOAD_NOISE) * shrink.load


def _was_too_few(shrink: Shrink, load: float | None, at_ms: int) -> bool:
    """Say whether a size that was too few would be so again; where the load is unknown it would."""
    is_as_high = load is None or load >= (1.0 - LOAD_NOISE) * shrink.load
    return shrink.undone_ms is not None and is_as_high and at_ms < shrink.undone_ms + TOO_FEW_MS


def _gain_expected(before: int, after: int, dealt: Dealt) -> float:
    carried_before, carried_after = carried(np.array([[before], [after]]), dealt)[:, 0]
    return float(carried_after / carried_before - 1.0)


def _waits(task: TaskDecision, lasting: int, minutes: int) -> str:
    return f"{task.desired} must be enough for {counted(minutes, 'minute')}, until then {lasting}"


def _by_tie(tasks: Iterable[TaskDecision], topology: JobTopology) -> list[list[TaskDecision]]:
    """Return tasks in groups that keep one parallelism; a task that is tied to none is a group of its own."""
    tied = {spec.task: spec.tied for spec in topology.tasks}
    groups: dict[tuple[str, str], list[TaskDecision]] = {}
    for task in tasks:
        tie = tied.get(task.task, "")
        groups.setdefault((tie, "" if tie else task.task), []).append(task)
    return list(groups.values())


def _sentence(words: list[str]) -> str:
    shown = "; ".join(words[:3])
    return f"{shown}; and {counted(len(words) - 3, 'more task')}" if len(words) > 3 else shown


def _tied(wanted: Mapping[str, int], topology: JobTopology) -> dict[str, int]:
    """Give tied tasks the largest parallelism among them."""
    widest: dict[str, int] = {}
    for spec in topology.tasks:
        if spec.tied and spec.task in wanted:
            widest[spec.tied] = max(widest.get(spec.tied, 0), wanted[spec.task])
    tied = {spec.task: spec.tied for spec in topology.tasks}
    return {task: widest.get(tied[task], size) for task, size in wanted.items()}


def _total(wanted: Mapping[str, int], topology: JobTopology) -> int:
    return sum(wanted.get(spec.task, spec.parallelism) for spec in topology.tasks if spec.scalable)


def within_budget(
    memory: LimitsMemory,
    kept: LimitedAct,
    decision: SizeRequest,
    topology: JobTopology,
    settings: JobSettings,
    hosts: Iterable[Host],
) -> LimitedAct:
    """Return what is left of an act if the job's rescales of a day, its CPU and its memory bear it, else the refusal."""
    today = [time for time in memory.rescaled_ms if time > decision.span_end_ms - DAY_MS]
    most = settings.rescales_a_day_max
    if most is not None and len(today) >= most:
        words = f"rescales_a_day_max: {counted(len(today), 'rescale')} in the last 24 hours, allowed {most}"
        return LimitedAct({}, words, "too_many_a_day")
    before, after = (slots_needed(topology.tasks, sizes) for sizes in (None, kept.wanted))
    slot = slot_of(hosts)
    for quota in _quotas(settings, slot) if slot is not None else ():
        if quota.per_slot * after > max(quota.most, quota.per_slot * before):
            words = f"{quota.name}: {quota.per_slot * after:g} {quota.unit} for {counted(after, 'slot')}, allowed {quota.most:g}"
            return LimitedAct({}, words, quota.reason)
    return kept


@dataclass(frozen=True, slots=True)
class Slot:
    """What one slot has of a host, of the host that has most for each slot."""

    cores: float
    memory_gib: float


def slot_of(hosts: Iterable[Host]) -> Slot | None:
    """Return what a slot counts as; None where no host says how many slots it has."""
    each = [(host, slots) for host in hosts if (slots := host.slots or len(host.units))]
    if not each:
        return None
    return Slot(max(host.cpu_cores / slots for host, slots in each), max(host.memory_gb / slots for host, slots in each))


@dataclass(frozen=True, slots=True)
class _Quota:
    name: str
    unit: str
    per_slot: float
    most: float
    reason: LimitReason


def _quotas(settings: JobSettings, slot: Slot) -> Iterator[_Quota]:
    if settings.cpu_limit is not None:
        yield _Quota("cpu_limit", "cores", slot.cores, settings.cpu_limit, "above_cpu_limit")
    if settings.memory_limit is not None:
        yield _Quota("memory_limit", "GiB", slot.memory_gib, settings.memory_limit, "above_memory_limit")
