"""What holds for the rescaler's placing, whatever hosts, jobs and neighbours there are."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import Host, JobTopology
from surescale.contracts.rent import prices_of
from surescale.rescaler import placement as library
from surescale.rescaler.control.settings import PLACING_ALGORITHMS, PlacingAlgorithm, PlacingSettings
from surescale.rescaler.control.units import choose_units, plan_job, usable_units
from tests.support.controller_world import job


@dataclass(frozen=True, slots=True)
class Case:
    """A job on a cluster with neighbours, and how wide it is to be."""

    hosts: tuple[Host, ...]
    taken: frozenset[int]
    topology: JobTopology
    width: int

    @property
    def own(self) -> set[int]:
        """Units of the job that it may keep."""
        mine = {unit for spec in self.topology.tasks for unit in spec.units}
        return mine & {unit for units in usable_units(self.hosts, self.taken).values() for unit in units}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Hosts of any size and price, some about to leave; at least one unit is usable."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=6))
    hosts, first = [], 0
    for index, size in enumerate(sizes):
        state = "running" if index == 0 else draw(st.sampled_from(["running", "running", "removed_soon"]))
        price = draw(st.sampled_from([0.0, 1e-3, 2.417e-3, 4.861e-3, 7.778e-3]))
        units = tuple(range(first, first + size))
        hosts.append(Host(host=f"h{index}", units=units, price_per_s=price, state=state))  # type: ignore[arg-type]
        first += size
    everything = list(range(first))
    mine = draw(st.lists(st.sampled_from(everything), min_size=1, max_size=10, unique=True))
    rest = sorted(set(everything) - set(mine) - {0})
    taken = draw(st.sets(st.sampled_from(rest))) if rest else set()
    usable = sum(len(units) for units in usable_units(hosts, taken).values())
    return Case(tuple(hosts), frozenset(taken), job(units=tuple(mine)), draw(st.integers(1, usable)))


def units_of(case: Case, algorithm: PlacingAlgorithm, gain_min: float = 0.05) -> set[int]:
    """The units chosen."""
    chosen = choose_units(case.topology, case.width, case.hosts, taken=case.taken, settings=PlacingSettings(algorithm, gain_min))
    return {unit for units in chosen.units.values() for unit in units}


algorithms = st.sampled_from(PLACING_ALGORITHMS)


@given(cases(), algorithms)
def test_as_many_usable_units_as_asked_for(case: Case, algorithm: PlacingAlgorithm) -> None:
    """Every algorithm answers with exactly that many units of running hosts that nobody else has."""
    usable = {unit for units in usable_units(case.hosts, case.taken).values() for unit in units}
    units = units_of(case, algorithm)
    assert len(units) == case.width
    assert units <= usable


@given(cases(), algorithms)
def test_the_rent_is_that_of_the_hosts_named(case: Case, algorithm: PlacingAlgorithm) -> None:
    """The command's figures equal a recomputation from its own units; round robin equals the library's."""
    wanted = {"map": case.width, "join": 1}
    plan = plan_job(case.topology, wanted, case.hosts, taken=case.taken, mappings={}, placing=PlacingSettings(algorithm))
    held = {unit for change in plan.changes for unit in change.units} or set(case.topology.tasks[1].units)
    named = {host.host for host in case.hosts if held & set(host.units)}
    assert named <= set(plan.placement.hosts)
    prices = prices_of(case.hosts)
    assert plan.placement.rent_per_s == pytest.approx(sum(prices[host] for host in plan.placement.hosts))
    assert plan.placement.rent_round_robin_per_s == pytest.approx(round_robin_rent(case))


@given(cases(), st.sampled_from(["cetsa", "lba-ce"]))
def test_growing_and_shrinking_moves_nothing(case: Case, algorithm: PlacingAlgorithm) -> None:
    """Where no gain is large enough, a wider job keeps every unit it may keep, and a narrower one takes no other."""
    units = units_of(case, algorithm, gain_min=2.0)
    assert case.own <= units if case.width >= len(case.own) else units <= case.own


@given(cases())
def test_moving_never_costs_more_than_staying(case: Case) -> None:
    """A placement that moves subtasks is cheaper than the one that moves none."""
    moving, staying = (
        choose_units(case.topology, case.width, case.hosts, taken=case.taken, settings=PlacingSettings("cetsa", gain)).placement
        for gain in (0.0, 2.0)
    )
    assert moving.rent_per_s <= staying.rent_per_s


def round_robin_rent(case: Case) -> float:
    """Rent of the library's round robin from scratch."""
    usable = usable_units(case.hosts, case.taken)
    hosts = [
        library.Host(host, float(len(units)), float(len(units)), len(units), prices_of(case.hosts)[host])
        for host, units in usable.items()
        if units
    ]
    task = library.Task("slots", case.width, 1.0, 1.0)
    return library.place(library.PlaceRequest("rr", tuple(hosts), (task,))).cost.resource_per_s
