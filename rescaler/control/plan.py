"""From a wanted parallelism per task to units that come and go, for one job on a shared cluster.

A unit holds at most one subtask of each task of the job and nothing of other jobs, so a job needs as many units as its
widest task. `rescaler.control.placing` chooses them; within them each task is planned by `rescaler.reschedule`. Tasks of fixed
parallelism follow their job: where they run is the engine's affair.
What it does not do: decide how many (the gate does), or compare hosts by price.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from contracts.commands import Placement, TaskChange
from contracts.messages import Host, JobTopology, TaskSpec
from rescaler import vnodes
from rescaler.control.placing import ByHost, PlacingSettings, choose_units, priced, usable_units
from rescaler.reschedule import Plan, plan_desired
from rescaler.reschedule_cluster import Cluster, Distribution, Fragment, Worker, WorkerState

Mappings = dict[str, tuple[int, ...]]
"""Unit per vnode, for each stateful task."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a command does to one job's tasks, and where its vnodes lie afterwards."""

    changes: tuple[TaskChange, ...]
    mappings: Mappings
    """Of the stateful tasks that change."""
    placement: Placement
    state_moves: bool = False
    """Whether state moves between hosts: learners can restore it beforehand."""


def plan_job(
    topology: JobTopology,
    wanted: Mapping[str, int],
    hosts: Sequence[Host],
    *,
    taken: Collection[int],
    mappings: Mapping[str, tuple[int, ...]],
    placing: PlacingSettings,
) -> JobPlan:
    """Plan one job's change; tasks that keep their units are left out.

    Args:
        topology: the job as it runs now; a task without units gets all of them anew.
        wanted: parallelism of every task of the job that can be scaled.
        hosts: every host that is alive.
        taken: units of other jobs.
        mappings: unit per vnode where known; otherwise, and where it does not fit the units, uniform blocks are assumed.
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
    """Plan that some units of a job are replaced by others, each with all that is on it; nothing else changes.

    Args:
        topology: the job as it runs now.
        moves: the new unit for each unit that is left.
        hosts: every host that is alive.
        taken: units of other jobs.
        mappings: unit per vnode where known.
        algorithm: who chose.
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
        # A unit of a host that died is gone already: no engine would know it.
        removed_units=tuple(sorted((before - set(after)) & host_of.keys())),
        units=after,
        vnodes_moved=moved,
    )


# Which of them each task shall have


def _planned_units(tasks: Sequence[TaskSpec], wanted: Mapping[str, int], chosen: ByHost) -> dict[str, tuple[int, ...]]:
    """Units per task in order of subtask index: those that stay as they were, then the new ones."""
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
    # Units that the job gives up stand on a worker of their own that nothing new may go to.
    workers.append(Worker(len(hosts), "", tuple(given_up), WorkerState.REMOVED_SOON))
    fragments = [Fragment(index, Distribution.HASH, spec.units) for index, spec in placed]
    # Mappings are made by the caller: here vnodes only bound how wide a task may be, and a task without state has no such bound.
    widest = max((max(len(spec.units), wanted[spec.task]) for _, spec in placed if not spec.stateful), default=1)
    most_vnodes = max((spec.vnodes for _, spec in placed), default=vnodes.DEFAULT_VNODES)
    cluster = Cluster(0, tuple(workers), tuple(fragments), max(most_vnodes, widest))
    return plan_desired(cluster, {index: wanted[spec.task] for index, spec in placed})


def _first_units(chosen: ByHost, count: int) -> tuple[int, ...]:
    """Units taken from the hosts in turn, for a task that has none yet."""
    turns = sorted((turn, host, unit) for host, units in chosen.items() for turn, unit in enumerate(sorted(units)))
    return tuple(sorted(unit for _, _, unit in turns[:count]))


# Vnodes


def _mapping(spec: TaskSpec, known: tuple[int, ...] | None) -> tuple[int, ...]:
    """Unit per vnode before the change; empty for a task without units."""
    fits = known is not None and len(known) == spec.vnodes and set(known) == set(spec.units)
    return known if fits and known else _uniform(spec, spec.units)


def _uniform(spec: TaskSpec, units: tuple[int, ...]) -> tuple[int, ...]:
    return vnodes.uniform_mapping(units, spec.vnodes) if units else ()
