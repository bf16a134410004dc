"""What jobs cost over time, and what all hosts in use cost together."""

import pytest

from surescale.contracts.commands import Placement
from surescale.contracts.messages import Host, JobTopology, TaskSpec
from surescale.contracts.rent import Occupancy, cluster_dollars, hosts_of, occupancy_of, rent_cost, rent_costs

HOSTS = (Host(host="m1", units=(0, 1), price_per_s=0.5), Host(host="l1", units=(2, 3), price_per_s=2.0))
PRICES = {"m1": 0.5, "l1": 2.0}


def topology(
    units: tuple[int, ...], at_ms: int = 0, generation: int = 0, job: str = "sim/a", state: str = "running"
) -> JobTopology:
    """A job of one task on these units."""
    task = TaskSpec(task="map", parallelism=max(1, len(units)), units=units)
    return JobTopology(job=job, version=generation, at_ms=at_ms, tasks=(task,), generation=generation, state=state)  # type: ignore[arg-type]


def test_a_host_counts_from_its_first_unit_on() -> None:
    """One unit or all of them: a job pays for the whole host, and for no other."""
    assert hosts_of([1], HOSTS) == hosts_of([0, 1], HOSTS) == ("m1",)
    assert occupancy_of(topology((1, 2)), HOSTS, None).hosts == ("l1", "m1")


def test_a_job_that_has_ended_pays_nothing() -> None:
    """Its units are no longer its own."""
    assert occupancy_of(topology((1, 2), state="finished"), HOSTS, None).hosts == ()


def test_a_bill_adds_up_stretches() -> None:
    """Ten seconds on one host, then twenty on both; what lies beyond the end is cut off."""
    stays = [Occupancy(0, ("m1",)), Occupancy(10_000, ("l1", "m1")), Occupancy(99_000, ())]
    assert rent_cost(stays, PRICES, 30_000).dollars == pytest.approx(10 * 0.5 + 20 * 2.5)
    assert rent_cost(stays, PRICES, 30_000).per_s == 2.5


def test_savings_count_only_where_a_placement_says_so() -> None:
    """What was before the first command saves nothing and loses nothing."""
    stays = [Occupancy(0, ("l1",)), Occupancy(10_000, ("m1",), round_robin_per_s=2.5, default_per_s=1.0)]
    assert rent_cost(stays, PRICES, 20_000).saved_round_robin == pytest.approx(10 * 2.0)
    assert rent_cost(stays, PRICES, 20_000).saved_default == pytest.approx(10 * 0.5)


def test_a_shared_host_is_paid_once() -> None:
    """The cluster's rent counts a host once, however many jobs stand on it, and only while one does."""
    stays = [[Occupancy(0, ("m1",)), Occupancy(10_000, ("l1",))], [Occupancy(5_000, ("m1",))]]
    assert cluster_dollars(stays, PRICES, 20_000) == pytest.approx(20 * 0.5 + 10 * 2.0)


def test_a_run_is_made_of_topologies_and_the_placements_that_led_to_them() -> None:
    """Topologies may come in any order; a generation's placement belongs to its job."""
    placement = Placement(algorithm="cetsa", hosts=("m1",), rent_per_s=0.5, rent_round_robin_per_s=2.5)
    seen = [topology((0,), 10_000, 1), topology((2,)), topology((0,), 0, 0, "sim/b")]
    found = rent_costs(seen, HOSTS, {("sim/a", 1): placement}, 20_000)
    assert found.jobs["sim/a"].dollars == pytest.approx(10 * 2.0 + 10 * 0.5)
    assert found.jobs["sim/a"].saved_round_robin == pytest.approx(10 * 2.0)
    assert found.dollars == pytest.approx(20 * 0.5 + 10 * 2.0)
    assert found.jobs["sim/b"].document()["per_day"] == 43_200
