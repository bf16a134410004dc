"""Plan the rescale to compare: the change of each task, as the rescaler would plan it. Pure.

*wider* adds one subtask to each task, on the units that the rescaler's planner chooses. *drain* empties a host that leaves:
each of its subtasks goes where `rescaler.learners` puts its learner, at constant parallelism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surescale.contracts.commands import TaskChange
from surescale.contracts.messages import Host, JobTopology, TaskSpec
from surescale.rescaler.control.hosts import learner_hosts
from surescale.rescaler.control.settings import PlacingSettings
from surescale.rescaler.control.units import plan_job
from surescale.rescaler.learners import assign
from surescale.rescaler.learners_model import LearnerLimits, LearnerVersion, MoveKind, Replica, Round, StatefulTask

Changes = tuple[TaskChange, ...]
Moves = dict[tuple[str, int], str]
"""Destination host, by task and by the unit the subtask leaves."""


def wider(topology: JobTopology, hosts: Sequence[Host]) -> Changes:
    """Return changes that add one subtask to each scalable task."""
    wanted = {spec.task: min(spec.parallelism + 1, spec.max_parallelism) for spec in topology.tasks if spec.scalable}
    return plan_job(topology, wanted, hosts, taken=(), mappings={}, placing=PlacingSettings()).changes


def first_round(topology: JobTopology, hosts: Sequence[Host]) -> Moves:
    """Return where the subtasks of leaving hosts go: one round of learner assignment, V1, without a limit."""
    begun = _round(topology, hosts, {})
    return {_key(move.task): str(move.destination) for move in begun.moves if move.kind is MoveKind.LEARN}


def may_commit(
    topology: JobTopology, hosts: Sequence[Host], moves: Moves, lags: Mapping[tuple[str, int], int], ready: int
) -> bool:
    """Return whether the next round lets every learner take over.

    ``lags`` are the bytes each learner still has to restore, by task and by the unit the subtask leaves. Where no state moves
    there is no entry.
    """
    learners = {key: Replica(host, lags.get(key, 0)) for key, host in moves.items()}
    taken = _round(topology, hosts, learners, ready)
    return sum(move.kind is MoveKind.PROMOTE for move in taken.moves) == len(moves)


def drained(topology: JobTopology, hosts: Sequence[Host], moves: Moves) -> Changes:
    """Return the changes that the moves lead to. Each subtask gets the lowest unit on its destination that its task lacks."""
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
    """Return units for a subtask whose destination is full.

    A unit holds one subtask of each task; learner assignment does not know that limit.
    """
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
        StatefulTask(f"{spec.task}/{unit}", host_of[unit], (learners[spec.task, unit],) if (spec.task, unit) in learners else ())
        for spec in topology.tasks
        if spec.scalable
        for unit in spec.units
    ]
    return assign(learner_hosts(hosts), tasks, version=LearnerVersion.V1, limits=LearnerLimits(acceptable_lag=acceptable_lag))


def _key(task: str) -> tuple[str, int]:
    name, _, unit = task.rpartition("/")
    return name, int(unit)
