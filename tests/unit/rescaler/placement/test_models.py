"""Cost, load and efficiency figures worked by hand."""

from dataclasses import replace
from math import inf

import pytest

from surescale.rescaler.placement import Edge, History, Host, Network, Params, PlaceRequest, Subtask, Task, place
from surescale.rescaler.placement.greedy import busyness, worths
from surescale.rescaler.placement.problem import cost_efficiency, estimate, median, problem_of


def spread_over_two_zones(pattern):
    """Two tasks of two subtasks; s/0 t/0 on a, s/1 on b (a's zone), t/1 on c (another zone)."""
    hosts = (Host("a", 4, 8, 2, 1.0, zone="x"), Host("b", 4, 8, 1, 2.0, zone="x"), Host("c", 4, 8, 1, 4.0, zone="y"))
    where = {Subtask("s", 0): "a", Subtask("t", 0): "a", Subtask("s", 1): "b", Subtask("t", 1): "c"}
    tasks = (Task("s", 2, 1.0, 1.0), Task("t", 2, 1.0, 1.0))
    edges = (Edge("s", "t", 1e6, 4000.0, pattern),)  # 4 GB/s
    return place(PlaceRequest("ff", hosts, tasks, edges, Network(0.5, 1.0, 3.0), placement=where))


def test_all_edges_pay_every_pair_by_distance():
    """Each of the four pairs carries 1 GB/s: one stays, one in the zone, two cross zones."""
    assert spread_over_two_zones("all").cost.communication_per_s == pytest.approx(0.5 * (1 * 1.0 + 2 * 3.0))


def test_forward_edges_pay_only_equal_indices():
    """Pair 0 stays on its host, pair 1 carries 2 GB/s across zones."""
    assert spread_over_two_zones("forward").cost.communication_per_s == pytest.approx(0.5 * 2 * 3.0)


def test_rent_counts_each_used_host_once():
    """Rent is the sum of the prices of the hosts in use."""
    assert spread_over_two_zones("all").cost.resource_per_s == 7.0


def test_weighted_cost_and_job_cost_follow_their_weights(hosts, request_of):
    """WEC = a1 RC + a2 CC + a3 SC, with the run's and the scheduling's seconds."""
    params = Params(wec_weights=(0.5, 0.25, 0.25), exec_time_s=100.0, sched_time_s=2.0)
    cost = place(request_of("ff", hosts(3.0), 2, params=params)).cost
    assert (cost.wec_per_s, cost.job.rent, cost.job.scheduling, cost.job.weighted) == (1.5, 300.0, 6.0, 151.5)


def test_load_weighs_cpu_and_memory_with_background():
    """Load = 0.8 CPU share + 0.2 memory share, others' use included, and is not clipped."""
    host = Host("a", 4, 8, 4, 1.0, used_cpu=4.0, used_memory=4.0)
    answer = place(PlaceRequest("ff", (host,), (Task("t", 0, 1, 1),)))
    assert answer.hosts[0].load == pytest.approx(0.8 * 1.0 + 0.2 * 0.5)


def test_std_used_looks_only_at_the_jobs_hosts(hosts, request_of):
    """Two equally filled hosts of three are even among themselves, uneven over all."""
    load = place(request_of("ff", hosts(1, 1, 1), 8)).load
    assert load.std_used == 0
    assert load.std > 0.3


def test_estimated_efficiency_counts_whole_subtasks():
    """A host that takes 3.9 mean subtasks takes three."""
    assert estimate(Host("a", 3.9, 100, 9, 6.0), 1.0, 1.0, 1.0) == 2.0


def test_estimated_efficiency_keeps_a_fraction_below_one():
    """A host with room for half a subtask is dear, not worthless."""
    assert estimate(Host("a", 0.5, 100, 9, 6.0), 1.0, 1.0, 1.0) == 12.0


def test_a_host_without_room_has_infinite_cost_per_record():
    """No free slot: last in every order."""
    assert estimate(Host("a", 4, 8, 2, 1.0, used_slots=2), 1.0, 1.0, 1.0) == inf


def test_estimates_are_scaled_by_the_median_of_observed_over_estimated():
    """Hosts without history compare with those that have one; an even count takes the middle two."""
    seen = [Host(f"h{at}", 4, 8, 4, 4.0, history=History(cost, 1.0)) for at, cost in enumerate((2.0, 6.0))]
    request = PlaceRequest("cetsa", (*seen, Host("new", 4, 8, 4, 4.0)), (Task("t", 4, 1, 1),))
    assert cost_efficiency(request) == (2.0, 6.0, 4.0)


def test_median_of_an_odd_count_is_the_middle():
    """Odd: the middle value."""
    assert median([9.0, 1.0, 2.0]) == 2.0


def test_busyness_prefers_history_then_present_use_then_the_floor(hosts):
    """B is the mean of EP; without it CPU in use, the job's own included; never below the floor."""
    first, second, third = hosts(1, 1, 1)
    first = replace(first, history=History(busy=(0.2, 0.4)), used_cpu=4.0)
    request = PlaceRequest("lba-ce", (first, second, third), (Task("t", 2, 1, 1),), placement={Subtask("t", 0): "b"})
    assert busyness(problem_of(request)) == [pytest.approx(0.3), 0.25, 0.01]


def test_a_free_host_is_worth_everything_and_a_full_one_nothing(hosts):
    """F is infinite at price 0 and 0 where no subtask fits."""
    free, full = hosts(0.0, 1.0)
    request = PlaceRequest("lba-ce", (free, replace(full, used_slots=4)), (Task("t", 2, 1, 1),))
    assert worths(problem_of(request)) == [inf, 0.0]
