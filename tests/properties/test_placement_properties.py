"""Placement on random clusters and jobs: validity, determinism, optimum, and what must not change a choice."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from surescale.rescaler.placement import ALGORITHMS, History, Subtask, document, place, to_json
from surescale.rescaler.placement.exact import brute_force, countable
from surescale.rescaler.placement.gap import at_delta
from surescale.rescaler.placement.problem import problem_of
from tests.support.placement_requests import quick, requests
from tests.support.reach import reached, reaches


def is_complete(answer):
    """Every subtask is placed once or listed as unplaced."""
    wanted = {Subtask(task.id, at) for task in answer.request.tasks for at in range(task.parallelism)}
    return set(answer.assignment) | set(answer.unplaced) == wanted and not set(answer.assignment) & set(answer.unplaced)


def is_within_capacity(answer, delta):
    """No host that the job uses is above delta of its capacity, or above its slots."""
    return all(
        not use.subtasks
        or (use.cpu <= delta * host.cpu + 1e-6 and use.memory <= delta * host.memory + 1e-6 and use.slots <= host.slots)
        for host, use in zip(answer.request.hosts, answer.hosts, strict=True)
    )


@quick
@given(requests())
def test_every_answer_is_complete_and_within_capacity(request):
    """Fresh answers respect the threshold, incremental ones the full capacity (the threshold does not evict)."""
    answer = place(request)
    assert is_complete(answer)
    assert is_within_capacity(answer, 1.0 if request.incremental else request.delta)


@quick
@given(requests())
def test_equal_requests_give_equal_bytes(request):
    """The order in which the running placement was given does not matter, nor does asking twice."""
    turned = replace(request, placement=dict(reversed(list(request.placement.items()))))
    assert to_json(document(place(turned))) == to_json(document(place(request)))


@reaches("optimum")
@quick
@given(requests(most_hosts=3, most_tasks=3, most_width=3))
def test_no_answer_beats_the_true_optimum(request):
    """Rent plus communication of a fresh placement is never below the optimum at the same share of the hosts."""
    answer = place(replace(request, placement={}))
    problem = problem_of(at_delta(answer.request, request.delta))
    if answer.feasible and countable(problem):
        reached("optimum")
        assert answer.cost.total_per_s >= brute_force(problem).total_per_s * (1 - 1e-9)


@reaches("proof")
@quick
@given(requests(most_hosts=3, most_tasks=2, most_width=3))
def test_a_proof_of_infeasibility_is_true(request):
    """Where a reason is given, the enumeration finds no placement either."""
    answer = place(replace(request, placement={}))
    problem = problem_of(at_delta(answer.request, request.delta))
    if answer.infeasible_proof is not None and countable(problem):
        reached("proof")
        assert brute_force(problem) is None


@reaches("grows", "shrinks")
@quick
@given(requests(), st.integers(0, 8))
def test_pure_rescaling_of_a_settled_job_moves_nothing(request, width):
    """Place a job, then give its first task any parallelism: nothing moves, what stays keeps its host."""
    settled = place(replace(request, placement={}))
    if not settled.feasible or not settled.assignment:
        return
    tasks = (replace(request.tasks[0], parallelism=width), *request.tasks[1:])
    params = replace(request.params, mode="incremental")
    again = place(replace(request, tasks=tasks, edges=(), params=params, placement=settled.assignment))
    before, after = (Counter((sub.task, host) for sub, host in each.assignment.items()) for each in (settled, again))
    grows = width >= request.tasks[0].parallelism
    reached("grows" if grows else "shrinks")
    assert again.rescale.moves == 0
    assert not (before - after if grows else after - before)


@quick
@given(requests(), st.sampled_from([each for each in ALGORITHMS if each != "lba-ce"]), st.integers(0, 100))
def test_a_host_without_slots_changes_no_assignment(request, algorithm, which):
    """One more host of an existing size on which nothing may run changes no choice (lba-ce averages over all hosts)."""
    plain = replace(request, algorithm=algorithm)
    one = request.hosts[which % len(request.hosts)]
    drained = replace(one, id="drained", slots=0, used_slots=0, history=History())
    assert place(replace(plain, hosts=(*request.hosts, drained))).assignment == place(plain).assignment


@quick
@given(requests(), st.sampled_from(ALGORITHMS))
def test_prices_times_eight_leave_the_assignment(request, algorithm):
    """Costs scale, choices do not (histories hold costs too)."""
    dear = tuple(
        replace(host, price=host.price * 8, history=replace(host.history, cost=host.history.cost and host.history.cost * 8))
        for host in request.hosts
    )
    network = replace(request.network, price_per_gb=request.network.price_per_gb * 8)
    plain = place(replace(request, algorithm=algorithm))
    scaled = place(replace(request, algorithm=algorithm, hosts=dear, network=network))
    assert scaled.assignment == plain.assignment
    assert scaled.cost.total_per_s == plain.cost.total_per_s * 8
