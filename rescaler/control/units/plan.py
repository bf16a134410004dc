"""Plans which units each task of a job gives up and gets, for a wanted parallelism per task.

A unit holds at most one subtask of each task of the job and nothing of other jobs, so a job needs as many units as its
widest task. `rescaler.control.units.hosts` chooses them; within them `rescaler.reschedule` plans each task. Tasks of fixed
parallelism follow their job: the engine decides where they run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from contracts.commands import Placement, TaskChange
from contracts.messages import Host, JobTopology, TaskSpec
from contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from rescaler import vnodes
from rescaler.control.settings import PlacingSettings
from rescaler.control.units.hosts import ByHost, choose_units, priced, usable_units
from rescaler.reschedule import Plan, plan_desired
from rescaler.reschedule_cluster import Cluster, Distribution, Fragment, Worker, WorkerState

Mappings = dict[str, tuple[int, ...]]
"""Unit per vnode, for each stateful task."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a command changes in one job's tasks, and where its vnodes are afterwards."""

    changes: tuple[TaskChange, ...]
    mappings: Mappings
    """Of the stateful tasks that change."""
    placement: Placement | None
    """None where the engine chooses the hosts."""
    state_moves: bool = False
    """Whether state moves between hosts, so that learners can restore it beforehand."""


def plan_job(
    topology: JobTopology,
    wanted: Mapping[str, int],
    hosts: Sequence[Host],
    *,
    taken: Collection[int],
    mappings: Mapping[str, tuple[int, ...]],
    placing: PlacingSettings,
) -> JobPlan:
    """Return the plan of one job's change; tasks that keep their units are left out.

    Args:
        topology: the job as it runs now; a task without units gets new ones.
        wanted: parallelism of every task of the job that can be scaled.
        hosts: every live host.
        taken: units of other jobs.
        mappings: unit per vnode where known. Where it is unknown or does not fit the units, uniform blocks are assumed.
        placing: how hosts are chosen.

    Raises:
        Refused: ``NOT_ENOUGH_PARALLEL_UNITS``, ``CLUSTER_INCONSISTENT`` or ``INVALID_PARALLELISM``.
    """
    tasks = [spec for spec in topology.tasks if spec.scalable]
    width = max((wanted[spec.task] for spec in tasks), default=0)
    chosen = choose_units(topology, width, hosts, taken=taken, settings=placing)
    planned = _planned_units(tasks, wanted, chosen.units)
    host_of = {unit: host.host for host in hosts for unit in host.units}
    changes, after_mappings, between_hosts = [], {}, 0
    for spec in tasks:
        after = planned.get(spec.task, spec.units)
        if set(after) == set(spec.units):
            continue
        moved = 0
        if spec.stateful:
            before = _mapping(spec, mappings.get(spec.task))
            mapping = after_mappings[spec.task] = vnodes.remapped(before, after, host_of) if before else _uniform(spec, after)
            moved = vnodes.moved_count(before, mapping) if before else 0
            between_hosts += vnodes.moved_between_hosts(before, mapping, host_of) if before else 0
        changes.append(_change(spec, after, host_of, moved))
    return JobPlan(tuple(changes), after_mappings, chosen.placement, between_hosts > 0)


def plan_moves(
    topology: JobTopology,
    moves: Mapping[int, int],
    hosts: Sequence[Host],
    *,
    taken: Collection[int],
    mappings: Mapping[str, tuple[int, ...]],
    algorithm: str,
) -> JobPlan:
    """Return a plan that replaces some units of a job by others, each with everything on it; nothing else changes.

    Args:
        topology: the job as it runs now.
        moves: the new unit for each unit that is left.
        hosts: every live host.
        taken: units of other jobs.
        mappings: unit per vnode where known.
        algorithm: the algorithm that chose them.
    """
    host_of = {unit: host.host for host in hosts for unit in host.units}
    changes, after_mappings, between_hosts = [], {}, 0
    for spec in (spec for spec in topology.tasks if spec.scalable and set(spec.units) & moves.keys()):
        moved = 0
        if spec.stateful:
            before = _mapping(spec, mappings.get(spec.task))
            mapping = after_mappings[spec.task] = tuple(moves.get(unit, unit) for unit in before)
            moved = vnodes.moved_count(before, mapping)
            between_hosts += vnodes.moved_between_hosts(before, mapping, host_of)
        changes.append(_change(spec, tuple(moves.get(unit, unit) for unit in spec.units), host_of, moved))
    after = {moves.get(unit, unit) for spec in topology.tasks if spec.scalable for unit in spec.units}
    by_host = {host.host: sorted(after & set(host.units)) for host in sorted(hosts, key=lambda host: host.host)}
    placement = priced(topology, by_host, hosts, usable_units(hosts, taken), algorithm, len(after))
    return JobPlan(tuple(changes), after_mappings, placement, between_hosts > 0)


def _change(spec: TaskSpec, after: tuple[int, ...], host_of: Mapping[int, str], moved: int) -> TaskChange:
    before = set(spec.units)
    return TaskChange(
        task=spec.task,
        before=spec.parallelism,
        after=len(after),
        added_units=tuple(sorted(set(after) - before)),
        # A unit of a host that died is gone: the engine no longer knows it.
        removed_units=tuple(sorted((before - set(after)) & host_of.keys())),
        units=after,
        vnodes_moved=moved,
    )


# Units of each task


def _planned_units(tasks: Sequence[TaskSpec], wanted: Mapping[str, int], chosen: ByHost) -> dict[str, tuple[int, ...]]:
    """Return units per task in order of subtask index: those that stay in their order, then the new ones."""
    placed = [(index, spec) for index, spec in enumerate(tasks) if spec.units]
    plan = _reschedule(placed, wanted, chosen)
    planned = {}
    for index, spec in enumerate(tasks):
        if not spec.units:
            planned[spec.task] = _first_units(chosen, wanted[spec.task])
        elif index in plan.units:
            change = plan.changes[index]
            planned[spec.task] = tuple(unit for unit in spec.units if unit not in change.removed) + change.added
    return planned


def _reschedule(placed: Sequence[tuple[int, TaskSpec]], wanted: Mapping[str, int], chosen: ByHost) -> Plan:
    offered = {unit for units in chosen.values() for unit in units}
    given_up = sorted({unit for _, spec in placed for unit in spec.units} - offered)
    hosts = sorted(chosen)
    workers = [Worker(index, host, tuple(chosen[host])) for index, host in enumerate(hosts)]
    # Units that the job gives up are on a worker of their own, which gets nothing new.
    workers.append(Worker(len(hosts), "", tuple(given_up), WorkerState.REMOVED_SOON))
    fragments = [Fragment(index, Distribution.HASH, spec.units) for index, spec in placed]
    # The caller makes the mappings: here vnodes only limit how wide a stateful task may be.
    widest = max((max(len(spec.units), wanted[spec.task]) for _, spec in placed if not spec.stateful), default=1)
    most_vnodes = max((spec.vnodes for _, spec in placed), default=DEFAULT_VNODES)
    cluster = Cluster(0, tuple(workers), tuple(fragments), max(most_vnodes, widest))
    return plan_desired(cluster, {index: wanted[spec.task] for index, spec in placed})


def _first_units(chosen: ByHost, count: int) -> tuple[int, ...]:
    """Return units from each host in turn, for a task that has none yet."""
    turns = sorted((turn, host, unit) for host, units in chosen.items() for turn, unit in enumerate(sorted(units)))
    return tuple(sorted(unit for _, _, unit in turns[:count]))


# Vnodes


def _mapping(spec: TaskSpec, known: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the unit of each vnode before the change; empty for a task without units."""
    fits = known is not None and len(known) == spec.vnodes and set(known) == set(spec.units)
    return known if fits and known else _uniform(spec, spec.units)


def _uniform(spec: TaskSpec, units: tuple[int, ...]) -> tuple[int, ...]:
    return uniform_mapping(units, spec.vnodes) if units else ()
