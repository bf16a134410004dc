"""Plans the parallelism that an engine is asked for, where the engine chooses the places itself. Pure.

Beside the plan by units (`rescaler.control.units`). Three rules hold: tasks that are connected forward keep one parallelism,
as half of the wider side would get no records otherwise; no more is asked for than there are slots, unless the engine adds hosts;
and whatever a decision does not change stays as it was required, as does what it wants to grow to fewer than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import TaskChange
from surescale.contracts.job_limits import has_members
from surescale.contracts.messages import Host, JobTopology, TaskSpec
from surescale.contracts.topology import required_of, running_of, size_to_ask, sized_tasks, slots_needed
from surescale.rescaler.control.job.memory import TaskTarget
from surescale.rescaler.control.units import JobPlan
from surescale.rescaler.gate import Target

WHOLE_JOB = "the whole job"
"""The name that ties all tasks of a job which an engine scales only as a whole."""


# Tasks that keep one parallelism


def tied_tasks(topology: JobTopology, engine: Capabilities) -> list[list[TaskSpec]]:
    """Return the groups of tasks that must keep one parallelism, each with at least two tasks."""
    groups: dict[str, list[TaskSpec]] = {}
    for spec in sized_tasks(topology):
        name = WHOLE_JOB if engine.scope == "job" else spec.tied
        if name:
            groups.setdefault(name, []).append(spec)
    return [group for group in groups.values() if len(group) > 1]


def together(wanted: Mapping[str, TaskTarget], topology: JobTopology, engine: Capabilities) -> dict[str, TaskTarget]:
    """Return what is wanted with tied tasks at one parallelism: that of the one which needs most, as far as all may have it.

    A task that is not named needs what it has.
    """
    found = dict(wanted)
    for group in tied_tasks(topology, engine):
        wishes = [wanted.get(spec.task, TaskTarget(desired=spec.parallelism, floor=0)) for spec in group]
        most = min(spec.max_parallelism for spec in group)
        one = TaskTarget(
            desired=min(most, max(wish.desired for wish in wishes)),
            floor=min(most, max(wish.floor for wish in wishes)),
            overloaded=any(wish.overloaded for wish in wishes),
        )
        found |= dict.fromkeys((spec.task for spec in group), one)
    return found


# Slots


def slots_for(topology: JobTopology, hosts: Iterable[Host], engine: Capabilities) -> int | None:
    """Return how many slots a job may take: those that it has and those that are free; None: unknown, or as many as it needs."""
    free = [host.free_slots for host in hosts if host.state == "running"]
    if engine.grows_hosts or None in free or not free:
        return None
    return slots_needed(topology.tasks) + sum(count for count in free if count is not None)


def fitting(
    topology: JobTopology, targets: Mapping[str, Target], hosts: Sequence[Host], engine: Capabilities
) -> tuple[dict[str, Target], int]:
    """Return targets that fit the slots, and the slots that the gate may count on: 0 if not even the least fits.

    The widest sharing group is cut first, tied tasks together, and no task below its lower target.
    """
    most = slots_for(topology, hosts, engine)
    upper = {task: target.upper for task, target in targets.items()}
    group_of = {spec.task: spec.sharing_group for spec in topology.tasks}
    lower = {task: target.lower for task, target in targets.items()}
    tied = [[spec.task for spec in group] for group in tied_tasks(topology, engine)]
    for tasks in tied:
        lower |= dict.fromkeys(tasks, max(lower[task] for task in tasks))
    caps, least = _widest(upper, group_of), _widest(lower, group_of)
    while most is not None and slots_needed(topology.tasks, upper) > most:
        cuttable = sorted(group for group in caps if caps[group] > least[group])
        if not cuttable:
            return dict(targets), 0
        caps[max(cuttable, key=caps.__getitem__)] -= 1
        upper = {task: min(count, caps[group_of[task]]) for task, count in upper.items()}
        for tasks in tied:
            upper |= dict.fromkeys(tasks, min(upper[task] for task in tasks))
    return {task: Target(target.lower, upper[task]) for task, target in targets.items()}, max(upper.values(), default=1)


def _widest(counts: Mapping[str, int], group_of: Mapping[str, str]) -> dict[str, int]:
    widest: dict[str, int] = {}
    for task, count in counts.items():
        widest[group_of[task]] = max(count, widest.get(group_of[task], 0))
    return widest


# The plan


def plan_counts(topology: JobTopology, wanted: Mapping[str, int], *, whole: bool = False) -> JobPlan:
    """Return the plan of one job's change: the tasks whose requirement changes.

    Args:
        topology: the job as it runs now.
        wanted: parallelism by task.
        whole: all of it is meant. Otherwise a task that is wanted as it runs keeps what is required of it, though slots for that
            may be missing.
    """
    required, running, changes = required_of(topology), running_of(topology), []
    are_members = has_members(topology.engine)
    for spec in sized_tasks(topology):
        before, asked = running[spec.task], required[spec.task]
        after = wanted.get(spec.task, asked)
        if after == asked or (not whole and after == spec.parallelism):
            continue
        if not (whole or spec.tied):
            shrinks, after = after < before, size_to_ask(spec, after, before, are_members=are_members)
            if after == asked:
                continue
            before = max(before, asked) if shrinks and are_members else before  # so many of those asked for go
        changes.append(TaskChange(task=spec.task, before=before, after=after))
    return JobPlan(tuple(changes), {}, None)
