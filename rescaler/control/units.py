"""Chooses the hosts and units of a job, and plans which units each of its tasks gives up and gets for a wanted parallelism.

A unit holds at most one subtask of each task of the job and nothing of other jobs, so a job needs as many units as its
widest task. `rescaler.placement` chooses them; within them `rescaler.reschedule` plans each task. Tasks of fixed
parallelism follow their job: the engine decides where they run.

To the placement library a job is one task as wide as the job's widest task, since its tasks share units. A slot is its host's
capacity divided by the host's units, so capacity is counted in slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from surescale.contracts.commands import Placement, TaskChange
from surescale.contracts.messages import Host, JobTopology, TaskSpec
from surescale.contracts.rent import hosts_of, prices_of, rent_per_s
from surescale.contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from surescale.rescaler import placement as library
from surescale.rescaler import vnodes
from surescale.rescaler.control.settings import PlacingSettings
from surescale.rescaler.placement.model import Algorithm, History, Params
from surescale.rescaler.refusals import Refused
from surescale.rescaler.reschedule import (
    Cluster,
    Distribution,
    Fragment,
    Plan,
    RescheduleRefusal,
    Worker,
    WorkerState,
    plan_desired,
)

SLOTS = "slots"  # the pseudo-task

ByHost = dict[str, list[int]]
"""Units of a job per usable host."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A job's units and what they cost."""

    units: ByHost
    placement: Placement


def usable_units(hosts: Sequence[Host], taken: Collection[int]) -> dict[str, tuple[int, ...]]:
    """Return the units per running host that no other job has, hosts and units sorted."""
    usable = {}
    for host in sorted(hosts, key=lambda host: host.host):
        if host.state == "running":
            usable[host.host] = tuple(sorted(unit for unit in host.units if unit not in taken))
    return usable


def choose_units(
    topology: JobTopology, width: int, hosts: Sequence[Host], *, taken: Collection[int], settings: PlacingSettings
) -> Placed:
    """Return ``width`` units for a job.

    Args:
        topology: the job as it runs now.
        width: parallelism of its widest task.
        hosts: every live host; those that will be removed get nothing.
        taken: units of other jobs.
        settings: the algorithm, and what a move must gain.

    Raises:
        Refused: ``NOT_ENOUGH_PARALLEL_UNITS``.
    """
    usable = usable_units(hosts, taken)
    count = sum(len(units) for units in usable.values())
    if count < width:
        message = f"the widest task wants {width} parallel units, {count} are usable"
        raise Refused(RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS, message)
    tasks = tuple(spec for spec in topology.tasks if spec.scalable)
    subtasks = Counter(unit for spec in tasks for unit in spec.units)
    if settings.algorithm == "spread":
        chosen = _spread(usable, subtasks, width)
    else:
        chosen = _by_cost(_Market(hosts, usable, subtasks, width, settings.algorithm), tasks, settings)
    return Placed(chosen, priced(topology, chosen, hosts, usable, settings.algorithm, width))


# By cost


@dataclass(frozen=True, slots=True)
class _Market:
    """The question to the library: usable units per host, units that the job has, and how many it is to have."""

    hosts: Sequence[Host]
    usable: Mapping[str, tuple[int, ...]]
    subtasks: Counter[int]
    """Subtasks on each unit that the job has."""
    width: int
    algorithm: Algorithm

    def own(self, host: str) -> int:
        """Return how many units the job has on a host."""
        return sum(unit in self.subtasks for unit in self.usable[host])

    def ask(self, *, fresh: bool) -> ByHost:
        """Return the units that the library chooses; ``fresh``: as if nothing ran yet. Otherwise what runs stays where it can."""
        # LBA-CE prefers to leave part of every host free. That part is used before an act is refused.
        for threshold in (Params().threshold, 1.0):
            answer = library.place(self._request(threshold, fresh=fresh), repair=self.algorithm == "cetsa")
            if answer.feasible:
                break
        counts = Counter(answer.assignment.values())
        return {host: self._units(host, counts[host]) for host in self.usable}

    def _request(self, threshold: float, *, fresh: bool) -> library.PlaceRequest:
        by_name = {host.host: host for host in self.hosts}
        # This order breaks ties between equal hosts: those that the job is on come first, so nothing moves between them.
        names = sorted((name for name, units in self.usable.items() if units), key=lambda name: (not self.own(name), name))
        running = [name for name in names for _ in range(self.own(name))]
        return library.PlaceRequest(
            algorithm=self.algorithm,
            hosts=tuple(_in_slots(by_name[name], self.usable[name]) for name in names),
            tasks=(library.Task(SLOTS, self.width, cpu=1.0, memory=1.0),),
            params=Params(threshold=threshold, mode="fresh" if fresh else "incremental"),
            placement={library.Subtask(SLOTS, index): name for index, name in enumerate(running)},
        )

    def _units(self, host: str, count: int) -> list[int]:
        """Return the units with the most subtasks first, then those with the lowest ids."""
        return sorted(self.usable[host], key=lambda unit: (-self.subtasks[unit], unit))[:count]


def _in_slots(host: Host, usable: Sequence[int]) -> library.Host:
    slots, used = len(host.units), len(host.units) - len(usable)
    return library.Host(
        id=host.host,
        cpu=float(slots),
        memory=float(slots),
        slots=slots,
        price=host.price_per_s,
        zone=host.zone,
        used_cpu=float(used),
        used_memory=float(used),
        used_slots=used,
        # Only other jobs make a host busy: a job's own load is no reason to open another host.
        history=History(busy=(used / slots,)),
    )


def _by_cost(market: _Market, tasks: Sequence[TaskSpec], settings: PlacingSettings) -> ByHost:
    """Keep what runs in place, unless a placement from scratch saves enough rent for the state that it moves."""
    stay = market.ask(fresh=False)
    if not any(market.own(host) for host in market.usable):
        return stay
    prices = prices_of(market.hosts)
    fresh = market.ask(fresh=True)
    rent, rent_fresh = (rent_per_s((host for host, units in by.items() if units), prices) for by in (stay, fresh))
    required = settings.gain_min + settings.state_gain_min * _state_share(tasks, _units(stay) - _units(fresh))
    return fresh if rent > 0 and (rent - rent_fresh) / rent >= required else stay


def _units(by_host: ByHost) -> set[int]:
    return {unit for units in by_host.values() for unit in units}


def _state_share(tasks: Sequence[TaskSpec], units: Collection[int]) -> float:
    """Return the share of the job's vnodes on these units, if each stateful task's vnodes are spread evenly."""
    stateful = [spec for spec in tasks if spec.stateful and spec.units]
    whole = sum(spec.vnodes for spec in stateful)
    return fsum(spec.vnodes * sum(unit in units for unit in spec.units) / len(spec.units) for spec in stateful) / (whole or 1)


# By spreading


def _spread(usable: Mapping[str, tuple[int, ...]], subtasks: Counter[int], width: int) -> ByHost:
    """Keep the job's units; drop some where a host has many, add some where it has few."""
    chosen = {host: [unit for unit in units if unit in subtasks] for host, units in usable.items()}
    free = {host: [unit for unit in units if unit not in subtasks] for host, units in usable.items()}
    count = sum(len(units) for units in chosen.values())
    while count > width:
        fullest = min(chosen, key=lambda host: (-len(chosen[host]), host))
        chosen[fullest].remove(min(chosen[fullest], key=lambda unit: (subtasks[unit], -unit)))
        count -= 1
    while count < width:
        emptiest = min((host for host in free if free[host]), key=lambda host: (len(chosen[host]), host))
        chosen[emptiest].append(free[emptiest].pop(0))
        count += 1
    return chosen


# Cost


def priced(
    topology: JobTopology,
    chosen: ByHost,
    hosts: Sequence[Host],
    usable: Mapping[str, tuple[int, ...]],
    algorithm: str,
    width: int,
) -> Placement:
    """Return what a job pays for these units, what it paid before, and what other placements would cost.

    Args:
        topology: the job as it runs now.
        chosen: its units per host after the change.
        hosts: every live host.
        usable: units per host that the job could have.
        algorithm: the algorithm that chose them.
        width: how many units the other placements would use.
    """
    prices = prices_of(hosts)
    before = hosts_of((unit for spec in topology.tasks for unit in spec.units), hosts)
    after = tuple(host for host, units in chosen.items() if units)
    offers = {host: len(units) for host, units in usable.items()}
    return Placement(
        algorithm=algorithm,
        hosts=after,
        rent_per_s=rent_per_s(after, prices),
        rent_before_per_s=rent_per_s(before, prices),
        rent_round_robin_per_s=rent_per_s(_round_robin(offers, width), prices),
        rent_default_per_s=_rent_at_random(offers, width, prices),
    )


def _round_robin(offers: Mapping[str, int], width: int) -> list[str]:
    """Return the hosts in use if slots are dealt out one per host, as far as hosts go."""
    return [host for host, units in offers.items() if units][:width]


def _rent_at_random(offers: Mapping[str, int], width: int, prices: Mapping[str, float]) -> float:
    """Return the expected rent if ``width`` of the free slots are drawn at random."""
    total = sum(offers.values())
    empty = {units: _chance_of_none(total, units, width) for units in set(offers.values())}
    return fsum(prices[host] * (1.0 - empty[units]) for host, units in sorted(offers.items()))


def _chance_of_none(total: int, units: int, drawn: int) -> float:
    """Return the chance that none of ``units`` among ``total`` is drawn, without replacement."""
    chance = 1.0
    for turn in range(min(drawn, total)):
        chance *= max(0, total - units - turn) / (total - turn)
    return chance


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
