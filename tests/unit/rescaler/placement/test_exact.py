"""The true optimum and the bounds, checked against one another."""

import random
from dataclasses import replace
from math import isfinite

import pytest

from reproductions.placement.sweeps import small_instances
from surescale.rescaler.placement import Edge, Host, Network, PlaceRequest, Task, place
from surescale.rescaler.placement.exact import (
    _Program,
    brute_force,
    candidates,
    countable,
    mixed_integer_optimum,
    programmable,
    total_per_s,
)
from surescale.rescaler.placement.gap import covering_knapsack, covering_lp, gap_document, rent_bound
from surescale.rescaler.placement.problem import problem_of


def test_enumeration_and_program_agree_on_random_instances():
    """Two independent solvers find the same least cost (rent plus communication)."""
    for request, best in small_instances(12, random.Random(11)):
        problem = problem_of(request)
        found = mixed_integer_optimum(problem)
        assert found is not None
        assert total_per_s(problem, found) == pytest.approx(best.total_per_s, rel=1e-9)


def test_the_bound_never_exceeds_the_least_rent():
    """On every small instance the lower bound is one."""
    for request, _ in small_instances(15, random.Random(5)):
        problem = problem_of(request)
        least = min(each.rent_per_s for each in candidates(problem))
        assert rent_bound(problem).per_s <= least * (1 + 1e-9)


def test_the_bound_is_the_least_rent_for_equal_demands(hosts, request_of):
    """Equal subtasks: the knapsack is exact."""
    cluster = (*hosts(1.0, 1.1, 1.3), Host("small", 2, 8, 4, 0.4))
    problem = problem_of(request_of("cetsa", cluster, 6))
    bound = rent_bound(problem)
    assert (bound.exact, bound.per_s) == (True, min(each.rent_per_s for each in candidates(problem)))


def test_demands_next_to_nothing_leave_a_bound(hosts):
    """A host that takes more of them than there are numbers for is a host like any other."""
    tasks = (Task("a", 1, 1.0, 5e-324), Task("b", 1, 0.5, 5e-324))
    bound = rent_bound(problem_of(PlaceRequest("cetsa", (Host("h", 1e18, 1e18, 2, 3.0),), tasks)))
    assert bound is not None
    assert bound.per_s <= 3.0


def test_no_bound_where_nothing_fits(hosts, request_of):
    """The bound itself proves that no placement exists."""
    assert rent_bound(problem_of(request_of("cetsa", hosts(1, 1), 9))) is None


def test_the_program_passes_by_a_host_that_others_overload():
    """It takes nothing there, not even a subtask that needs nothing, and finds what enumeration finds."""
    cluster = (Host("over", 4, 8, 4, 1.0, used_cpu=5), Host("b", 4, 8, 4, 10.0))
    problem = problem_of(PlaceRequest("cetsa", cluster, (Task("t", 2, 1.0, 1.0), Task("light", 1, 0.0, 0.0))))
    found = mixed_integer_optimum(problem)
    assert found is not None
    assert total_per_s(problem, found) == pytest.approx(brute_force(problem).total_per_s)


def test_covering_knapsack_beats_the_best_ratio():
    """Greedy by price per capacity would take the large host first and overshoot."""
    assert covering_knapsack([10.0, 3.0, 3.0], [10, 2, 2], 4) == 6.0


def test_covering_lp_rents_in_part():
    """Half of the second host covers the rest."""
    assert covering_lp([1.0, 4.0], [2.0, 4.0], 4.0) == pytest.approx(3.0)


def test_forward_pairs_are_matched_as_well_as_counts_allow():
    """Two subtasks each, room for one pair per host: nothing needs to cross."""
    hosts = tuple(Host(name, 4, 8, 2, 1.0) for name in "ab")
    tasks = (Task("s", 2, 1, 1), Task("t", 2, 1, 1))
    request = PlaceRequest("cetsa", hosts, tasks, (Edge("s", "t", 1e6, 1e3, "forward"),), Network(1.0))
    assert brute_force(problem_of(request)).total_per_s == 2.0


def test_a_diamond_of_forward_edges_is_left_to_the_program():
    """Pairings around a loop are not independent, so counting does not answer there."""
    tasks = tuple(Task(name, 2, 1, 1) for name in "pqrs")
    ends = ("pq", "pr", "qs", "rs")
    edges = tuple(Edge(left, right, 1e5, 1e3, "forward") for left, right in ends)
    request = PlaceRequest("cetsa", tuple(Host(name, 4, 8, 4, 1.0) for name in "ab"), tasks, edges, Network(1.0))
    problem = problem_of(request)
    assert not countable(problem)
    assert programmable(problem)
    assert total_per_s(problem, mixed_integer_optimum(problem)) == pytest.approx(2.0)


@pytest.mark.parametrize(("hosts_count", "width", "nodes"), [(4, 2, 20_000), (12, 6, 1_071), (30, 6, 171)])
def test_the_program_may_search_the_less_the_more_talk(hosts_count: int, width: int, nodes: int):
    """With 72 pairs on 12 hosts a node takes a tenth of a second: 20,000 of them, and no answer then, took minutes."""
    cluster = tuple(Host(f"h{at}", 4, 8, 4, 1.0 + at) for at in range(hosts_count))
    tasks = (Task("s", width, 1, 1), Task("t", width, 1, 1))
    request = PlaceRequest("cetsa", cluster, tasks, (Edge("s", "t", 1e5, 1e3),), Network(1.0))
    assert _Program(problem_of(request)).nodes_max == nodes


def test_the_program_weighs_traffic_alone_where_hosts_cost_nothing():
    """Hosts of one's own: a small price of traffic does not drown in the solver's tolerances for it."""
    for request, _ in small_instances(3, random.Random(8)):
        hosts = tuple(replace(host, price=0.0) for host in request.hosts)
        problem = problem_of(replace(request, hosts=hosts, network=Network(1e-7)))
        found = mixed_integer_optimum(problem)
        assert found is not None
        assert total_per_s(problem, found) == pytest.approx(brute_force(problem).total_per_s, rel=1e-6, abs=0)


def test_the_programs_costs_are_numbers_in_any_currency(hosts):
    """The smallest price there is, beside traffic or alone."""
    for edges in ((), (Edge("s", "t", 1e6, 1e3),)):
        request = PlaceRequest("cetsa", hosts(5e-324), (Task("s", 1, 1, 1), Task("t", 1, 1, 1)), edges, Network(1.0))
        assert all(map(isfinite, _Program(problem_of(request)).objective()))


def test_the_program_says_none_where_nothing_fits(hosts, request_of):
    """An infeasible instance has no optimum."""
    assert mixed_integer_optimum(problem_of(request_of("cetsa", hosts(1), 5))) is None


def test_gap_names_optimum_and_distance(hosts, request_of):
    """Round robin uses three hosts where one is enough."""
    gap = gap_document(place(request_of("rr", hosts(1, 1, 1), 4)))
    assert gap["rent"] == {"bound_per_s": 1.0, "exact": True, "gap": 2.0}
    assert gap["total"] == {"optimum_per_s": 1.0, "method": "enumeration", "gap": 2.0}


def test_gap_of_a_large_instance_has_only_the_bound(hosts, request_of):
    """Too large to solve exactly: the total stays open."""
    cluster = tuple(Host(f"h{at}", 4, 8, 4, 1 + at / 100) for at in range(100))
    gap = gap_document(place(request_of("cetsa", cluster, 300)))
    assert gap["total"] is None
    assert gap["rent"]["gap"] == pytest.approx(0.0, abs=1e-9)


def test_a_gap_beyond_all_numbers_is_left_open(hosts, request_of):
    """A host for next to nothing beside a dear one: the answer stays valid JSON."""
    gap = gap_document(place(request_of("ff", hosts(1e18, 5e-324), 1)))
    assert (gap["rent"]["bound_per_s"], gap["rent"]["gap"], gap["total"]["gap"]) == (5e-324, None, None)


def test_an_infeasible_answer_has_no_gap(hosts, request_of):
    """There is nothing to compare."""
    assert gap_document(place(request_of("cetsa", hosts(1), 5))) is None


def test_gap_is_judged_at_full_capacity_where_kept_subtasks_exceed_the_threshold(hosts, request_of):
    """What stays above the threshold is compared with what full hosts could do."""
    from surescale.rescaler.placement import Subtask

    kept = {Subtask("t", at): "a" for at in range(4)}
    assert gap_document(place(request_of("lba-ce", hosts(1, 1), 4, placement=kept)))["threshold"] == 1.0


@pytest.mark.parametrize(
    ("hosts_count", "tasks"),
    [
        pytest.param(1_500, (Task("t", 1, 1, 1),), id="hosts deeper than a call stack"),
        pytest.param(1, tuple(Task(f"t{at}", 1, 0, 0) for at in range(2_000)), id="tasks deeper than a call stack"),
        pytest.param(300, (Task("t", 2, 1, 1),), id="few vectors over many hosts"),
        pytest.param(5_000, (Task("t", 1_000_000, 0, 0),), id="a count of thousands of digits"),
    ],
)
def test_what_is_small_in_subtasks_alone_is_not_enumerated(hosts_count: int, tasks: tuple[Task, ...]):
    """Many hosts or tasks make each vector long: such an instance took minutes, or ended in a trace."""
    cluster = tuple(Host(f"h{at}", 4, 8, 2_000, 1.0) for at in range(hosts_count))
    assert not countable(problem_of(PlaceRequest("cetsa", cluster, tasks)))


def test_what_is_enumerated_at_the_limit_of_depth_is_answered(hosts, request_of):
    """As many hosts as enumeration takes do not exhaust the call stack."""
    cluster = tuple(Host(f"h{at}", 4, 8, 4, 1 + at) for at in range(199))
    problem = problem_of(request_of("cetsa", cluster, 1))
    assert countable(problem)
    assert brute_force(problem).total_per_s == 1.0
