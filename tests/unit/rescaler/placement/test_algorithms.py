"""The seven algorithms on cases small enough to follow by hand."""

from dataclasses import replace
from itertools import islice

import pytest

from surescale.rescaler.placement import ALGORITHMS, Edge, History, Host, Params, PlaceRequest, Task, place
from surescale.rescaler.placement.greedy import split_mix_64


def per_host(answer):
    """Subtasks per host id, only hosts in use."""
    return {host.id: use.subtasks for host, use in zip(answer.request.hosts, answer.hosts, strict=True) if use.subtasks}


def where(answer):
    """Host ids in the order of task and index."""
    return list(answer.assignment.values())


def test_cetsa_fills_the_most_cost_efficient_host_first(hosts, request_of):
    """Price per subtask decides, not price."""
    big = Host("big", 16, 32, 16, 2.0)
    assert per_host(place(request_of("cetsa", (*hosts(1.0), big), 18))) == {"a": 2, "big": 16}


def test_cetsa_skips_hosts_without_resources(hosts, request_of):
    """A host with slots but too little memory is passed over, and no subtask is lost."""
    small, large = hosts(0.1, 5.0)
    answer = place(request_of("cetsa", (replace(small, memory=0.5), large), 3))
    assert per_host(answer) == {"b": 3}


def test_cetsa_prefers_observed_efficiency(hosts, request_of):
    """A dear host that processed many records comes before a cheap one that processed few."""
    cheap, dear = hosts(1.0, 2.0)
    seen = (replace(cheap, history=History(1.0, 10.0)), replace(dear, history=History(2.0, 100.0)))
    assert per_host(place(request_of("cetsa", seen, 4))) == {"b": 4}


@pytest.mark.parametrize("algorithm", ["cetsa", "lba-ce"])
def test_cold_start_rr_places_round_robin(hosts, request_of, algorithm):
    """Without any history the paper's fall-back may be asked for."""
    answer = place(request_of(algorithm, hosts(3, 2, 1), 4, params=Params(cold_start="rr")))
    assert where(answer) == ["a", "b", "c", "a"]


def test_repair_swaps_the_last_host_for_a_cheaper_one(hosts, request_of):
    """The last host opened holds one subtask; a small cheap host takes it."""
    cluster = (*hosts(1.0, 1.0), Host("tiny", 1, 1, 1, 0.6))
    request = request_of("cetsa", cluster, 5)
    assert per_host(place(request)) == {"a": 4, "b": 1}
    assert per_host(place(request, repair=True)) == {"a": 4, "tiny": 1}


def test_lba_ce_stops_at_the_threshold(hosts, request_of):
    """Three cores of four are within 0.8, four are not."""
    assert per_host(place(request_of("lba-ce", hosts(1, 1), 5))) == {"a": 3, "b": 2}


def test_lba_ce_opens_the_second_list_only_when_the_first_is_spent(hosts, request_of):
    """Hosts of average worth or more fill first, even where a later one is emptier."""
    assert per_host(place(request_of("lba-ce", hosts(1, 1, 9, 9), 8))) == {"a": 3, "b": 3, "c": 2}


def test_lba_ce_prefers_the_idle_of_two_equal_hosts(hosts, request_of):
    """Busyness lowers a host's worth."""
    first, second = hosts(1, 1)
    assert per_host(place(request_of("lba-ce", (replace(first, history=History(busy=(0.9,))), second), 2))) == {"b": 2}


def test_lba_ce_last_resort_returns_to_hosts_a_large_subtask_passed_over(hosts):
    """A large subtask retires every host; the small ones after it still find room."""
    tasks = (Task("large", 1, 3.9, 1.0), Task("small", 2, 1.0, 1.0))
    answer = place(PlaceRequest("lba-ce", hosts(1, 1), tasks))
    assert [str(sub) for sub in answer.unplaced] == ["large/0"]
    assert per_host(answer) == {"a": 2}


def test_spread_evens_the_chosen_hosts_at_the_same_rent(hosts, request_of):
    """The set of hosts stays, the load is shared."""
    request = request_of("lba-ce", hosts(1, 1), 4)
    spread = place(replace(request, params=Params(lba_pick="spread")))
    assert per_host(place(request)) == {"a": 3, "b": 1}
    assert per_host(spread) == {"a": 2, "b": 2}


def test_spread_keeps_the_first_pass_where_nothing_falls(hosts, request_of):
    """One host cannot be evened; the answer says so."""
    answer = place(request_of("lba-ce", hosts(1, 1), 3, params=Params(lba_pick="spread")))
    assert answer.notes[-1] == "lba_pick spread: kept the first pass"


def test_threshold_scope_all_binds_every_algorithm(hosts, request_of):
    """With scope `all` no algorithm fills a host above the threshold."""
    for algorithm in ALGORITHMS:
        answer = place(request_of(algorithm, hosts(1, 1, 1), 7, params=Params(threshold_scope="all")))
        assert max(use.u_cpu for use in answer.hosts) <= 0.8


def test_round_robin_goes_on_from_its_pointer(hosts, request_of):
    """The pointer stands behind the host just used and skips full ones."""
    first, second, third = hosts(1, 1, 1)
    answer = place(request_of("rr", (first, replace(second, slots=1), third), 6))
    assert where(answer) == ["a", "b", "c", "a", "c", "a"]


def test_first_fit_takes_the_list_order(hosts, request_of):
    """Price means nothing to first fit."""
    assert per_host(place(request_of("ff", hosts(9, 1), 5))) == {"a": 4, "b": 1}


def test_split_mix_starts_as_published():
    """Seed 0 starts with e220a8397b1dcdaf."""
    assert [f"{each:016x}" for each in islice(split_mix_64(0), 2)] == ["e220a8397b1dcdaf", "6e789e6aa1b965f4"]


def test_default_draws_slots_not_hosts(hosts, request_of):
    """The k-th free slot in list order is taken: draw modulo the free slots."""
    answer = place(request_of("default", hosts(1, 1, 1), 2, seed=7))
    draws = list(islice(split_mix_64(7), 2))
    first = draws[0] % 12 // 4
    free = [4, 4, 4]
    free[first] -= 1
    second = next(host for host in range(3) if draws[1] % 11 < sum(free[: host + 1]))
    assert where(answer) == ["abc"[first], "abc"[second]]


def test_default_draws_nothing_for_a_subtask_that_fits_nowhere(hosts):
    """One draw per placed subtask: an impossible one in between does not shift the draws."""
    plain = place(PlaceRequest("default", hosts(1, 1, 1), (Task("t", 3, 1, 1),), seed=5))
    tasks = (Task("huge", 1, 99, 1), Task("t", 3, 1, 1))
    assert where(place(PlaceRequest("default", hosts(1, 1, 1), tasks, seed=5))) == where(plain)


def test_gs_bfd_places_large_subtasks_first_and_best_fit_next(hosts):
    """The large ones open hosts, the cheap one first; the small one joins one of them, by a tie the earlier."""
    tasks = (Task("small", 1, 0.5, 0.5), Task("large", 2, 3.0, 1.0))
    answer = place(PlaceRequest("gs-bfd", hosts(2, 1), tasks))
    assert where(answer) == ["a", "b", "a"]


def test_gs_bfd_opens_the_cheapest_host(hosts, request_of):
    """No used host fits: lowest price first."""
    assert per_host(place(request_of("gs-bfd", hosts(3, 1, 2), 5))) == {"b": 4, "c": 1}


def test_gio_empties_a_host_into_another_used_one():
    """The large subtask had to open the big host; it has room for what the small host holds."""
    tasks = (Task("one", 1, 2.0, 1.0), Task("two", 1, 3.0, 1.0))
    cluster = (Host("small", 2.5, 8, 4, 1.0), Host("big", 8, 8, 4, 2.5))
    assert per_host(place(PlaceRequest("gio", cluster, tasks))) == {"big": 2}


def test_gio_swaps_a_host_for_a_cheaper_unused_one():
    """Emptying the cheap host makes it free for what had to go to the dear one."""
    tasks = (Task("s", 1, 0.5, 1.0), Task("b", 1, 1.0, 1.0), Task("a", 1, 4.0, 1.0))
    cluster = (Host("cheap", 4.0, 8, 1, 1.0), Host("mid", 2.0, 8, 2, 2.5), Host("dear", 4.0, 8, 1, 3.0))
    assert where(place(PlaceRequest("gio", cluster, tasks))) == ["mid", "mid", "cheap"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_extra_host_without_slots_changes_nothing(hosts, request_of, algorithm):
    """A drained host of an existing size is as good as none."""
    cluster = hosts(2, 1, 3)
    more = (*cluster, replace(cluster[0], id="drained", slots=0))
    plain = place(request_of(algorithm, cluster, 7, params=Params(threshold=1.0)))
    assert place(request_of(algorithm, more, 7, params=Params(threshold=1.0))).assignment == plain.assignment


@pytest.mark.parametrize("algorithm", [each for each in ALGORITHMS if each not in ("default", "rr")])
def test_identical_hosts_fill_in_list_order(hosts, request_of, algorithm):
    """Ties go to the earlier host."""
    assert per_host(place(request_of(algorithm, hosts(1, 1, 1), 2))) == {"a": 2}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_eightfold_prices_scale_costs_and_leave_the_assignment(hosts, request_of, algorithm):
    """Only ratios of prices decide."""
    cluster = hosts(2.417, 4.861, 7.778)
    dear = tuple(replace(host, price=host.price * 8) for host in cluster)
    plain, scaled = (place(request_of(algorithm, each, 7)) for each in (cluster, dear))
    assert scaled.assignment == plain.assignment
    assert scaled.cost.resource_per_s == pytest.approx(8 * plain.cost.resource_per_s)


def test_interleaving_keeps_forward_neighbours_together(hosts):
    """A chain of forward edges in interleaved order sends nothing where topological order sends much."""
    tasks = tuple(Task(name, 4, 1.0, 1.0) for name in "pq")
    request = PlaceRequest("cetsa", hosts(1, 1), tasks, (Edge("p", "q", 1e6, 1e3, "forward"),))
    sent = [
        place(replace(request, network=replace(request.network, price_per_gb=1.0), params=Params(order=order)))
        for order in ("interleaved", "topological")
    ]
    assert [answer.cost.communication_per_s for answer in sent] == [0.0, 1.0]


def test_infeasible_answers_keep_what_fits_and_name_the_rest(hosts, request_of):
    """The first four of six subtasks are placed; the others are listed in order."""
    answer = place(request_of("ff", hosts(1), 6))
    assert len(answer.assignment) == 4
    assert [str(sub) for sub in answer.unplaced] == ["t/4", "t/5"]


@pytest.mark.parametrize(
    ("count", "cpu", "memory", "proof"),
    [(9, 0.1, 0.1, "slots"), (8, 1.1, 0.1, "cpu"), (8, 0.1, 2.1, "memory"), (1, 4.5, 1.0, "instance"), (3, 2.1, 1, None)],
)
def test_infeasible_answers_prove_what_can_be_proved(hosts, request_of, count, cpu, memory, proof):
    """Total slots, cores and GB, then a subtask no empty host takes; else no proof."""
    answer = place(request_of("ff", hosts(1, 1), count, cpu=cpu, memory=memory))
    assert (answer.feasible, answer.infeasible_proof) == (False, proof)


def test_no_hosts_is_infeasible_for_want_of_slots(request_of):
    """An empty cluster answers, without an error."""
    for algorithm in ALGORITHMS:
        assert place(request_of(algorithm, (), 1)).infeasible_proof == "slots"


def test_a_job_without_subtasks_costs_nothing(hosts, request_of):
    """Parallelism 0 everywhere is a valid job."""
    for algorithm in ALGORITHMS:
        assert place(request_of(algorithm, hosts(1, 1), 0)).cost.total_per_s == 0
