"""The rescale that all twins carry out: what becomes of each task, planned as the rescaler plans it. Pure.

*wider*: one subtask more for each task, on the units that `rescaler.control.plan` chooses. *drain*: a host leaves, and each
subtask on it goes where `rescaler.learners` puts its learner, at constant parallelism. What it does not do: carry anything out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contracts.commands import TaskChange
from contracts.messages import Host, JobTopology, TaskSpec
from rescaler.control.balance import learner_hosts
from rescaler.control.placing import PlacingSettings
from rescaler.control.plan import plan_job
from rescaler.learners import assign
from rescaler.learners_model import Limits, MoveKind, Replica, Round, Task, Version

Changes = tuple[TaskChange, ...]
Moves = dict[tuple[str, int], str]
"""Destination host by task and unit that it leaves."""


def wider(topology: JobTopology, hosts: Sequence[Host]) -> Changes:
    """One subtask more for each task that may be scaled."""
    wanted = {spec.task: min(spec.parallelism + 1, spec.max_parallelism) for spec in topology.tasks if spec.scalable}
    return plan_job(topology, wanted, hosts, taken=(), mappings={}, placing=PlacingSettings()).changes


def first_round(topology: JobTopology, hosts: Sequence[Host]) -> Moves:
    """Where the subtasks of hosts that leave shall go: one round of learner assignment, V1, without a limit."""
    begun = _round(topology, hosts, {})
    return {_key(move.task): str(move.destination) for move in begun.moves if move.kind is MoveKind.LEARN}


def may_commit(
    topology: JobTopology, hosts: Sequence[Host], moves: Moves, lags: Mapping[tuple[str, int], int], ready: int
) -> bool:
    """Whether the next round lets every learner take over.

    ``lags``: bytes that the learner of a task's subtask has still to restore, by task and the unit that it leaves; none where no
    state moves.
    """
    learners = {key: Replica(host, lags.get(key, 0)) for key, host in moves.items()}
    taken = _round(topology, hosts, learners, ready)
    return sum(move.kind is MoveKind.PROMOTE for move in taken.moves) == len(moves)


def drained(topology: JobTopology, hosts: Sequence[Host], moves: Moves) -> Changes:
    """The units that the moves lead to: on the destination the lowest that the task has not got."""
    units_of = {host.host: sorted(host.units) for host in hosts}
    changes = []
    for spec in topology.tasks:
        gone = {unit: host for (task, unit), host in moves.items() if task == spec.task}
        if not gone:
            continue
        kept = [unit for unit in spec.units if unit not in gone]
        units = list(spec.units)
        for unit, host in sorted(gone.items()):
            free = [other for other in units_of[host] if other not in kept] or _elsewhere(hosts, kept)
            units[units.index(unit)] = free[0]
            kept.append(free[0])
        changes.append(_change(spec, tuple(units)))
    return tuple(changes)


def _elsewhere(hosts: Sequence[Host], taken: Sequence[int]) -> list[int]:
    """Units for a subtask whose destination is full: a unit holds one subtask of each task, which learners know nothing of."""
    return sorted(unit for host in hosts if host.state == "running" for unit in host.units if unit not in taken)


def _change(spec: TaskSpec, units: tuple[int, ...]) -> TaskChange:
    before, after = set(spec.units), set(units)
    return TaskChange(
        task=spec.task,
        before=spec.parallelism,
        after=len(units),
        added_units=tuple(sorted(after - before)),
        removed_units=tuple(sorted(before - after)),
        units=units,
    )


def _round(
    topology: JobTopology, hosts: Sequence[Host], learners: Mapping[tuple[str, int], Replica], acceptable_lag: int = 0
) -> Round:
    host_of = {unit: host.host for host in hosts for unit in host.units}
    tasks = [
        Task(f"{spec.task}/{unit}", host_of[unit], (learners[spec.task, unit],) if (spec.task, unit) in learners else ())
        for spec in topology.tasks
        if spec.scalable
        for unit in spec.units
    ]
    return assign(learner_hosts(hosts), tasks, version=Version.V1, limits=Limits(acceptable_lag=acceptable_lag))


def _key(task: str) -> tuple[str, int]:
    name, _, unit = task.rpartition("/")
    return name, int(unit)
