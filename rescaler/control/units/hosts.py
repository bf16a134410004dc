"""Chooses the hosts and units of a job through `rescaler.placement`, and says what they cost.

To the placement library a job is one task as wide as the job's widest task, since its tasks share units. A slot is its host's
capacity divided by the host's units, so capacity is counted in slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from contracts.commands import Placement
from contracts.messages import Host, JobTopology, TaskSpec
from contracts.rent import hosts_of, prices_of, rent_per_s
from rescaler import placement as library
from rescaler.control.settings import PlacingSettings
from rescaler.placement.model import Algorithm, History, Params
from rescaler.refusals import Refused
from rescaler.reschedule import RescheduleRefusal

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
