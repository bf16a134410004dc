"""R1 to R10: what holds for every reschedule of every cluster."""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.reschedule import least_moved
from surescale.rescaler.refusals import Refused
from surescale.rescaler.reschedule import (
    Change,
    Cluster,
    Distribution,
    Fragment,
    Plan,
    Worker,
    WorkerState,
    applied,
    plan_desired,
    plan_request,
)
from tests.reference.rescale_steps import Ledger, Outcome, Step, after, recovered, submit
from tests.support.reach import reached, reaches


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A few workers, some about to go, and a few fragments, hash and single, with and without a mapping."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    numbers = iter(draw(st.permutations(range(1, sum(sizes) + 1))))
    state = st.sampled_from([WorkerState.RUNNING, WorkerState.RUNNING, WorkerState.REMOVED_SOON])
    workers = tuple(
        Worker(index, f"w{index}", tuple(next(numbers) for _ in range(size)), draw(state)) for index, size in enumerate(sizes)
    )
    vnodes = draw(st.integers(sum(sizes), 40))
    units = sorted(unit for worker in workers for unit in worker.parallel_units)
    fragments = tuple(_fragment(draw, number, units, vnodes) for number in range(draw(st.integers(1, 3))))
    return Cluster(draw(st.integers(0, 9)), workers, fragments, vnodes)


def _fragment(draw: st.DrawFn, number: int, units: list[int], vnodes: int) -> Fragment:
    if draw(st.booleans()) and draw(st.booleans()):
        return Fragment(number, Distribution.SINGLE, (draw(st.sampled_from(units)),))
    used = draw(st.lists(st.sampled_from(units), min_size=1, unique=True))
    mapping = None
    if draw(st.booleans()):
        others = draw(st.lists(st.sampled_from(used), min_size=vnodes - len(used), max_size=vnodes - len(used)))
        mapping = tuple(draw(st.permutations([*used, *others])))
    return Fragment(number, Distribution.HASH, tuple(used), mapping)


def running_units(cluster: Cluster) -> set[int]:
    """Units on which something new may be placed."""
    return {unit for w in cluster.workers if w.state is WorkerState.RUNNING for unit in w.parallel_units}


@st.composite
def planned(draw: st.DrawFn) -> tuple[Cluster, dict[int, int], Plan]:
    """A cluster, a wish that it can fulfil, and the plan."""
    cluster = draw(clusters())
    eligible = len(running_units(cluster))
    assume(eligible)
    desired = {
        fragment.id: draw(st.integers(1, eligible)) if fragment.distribution is Distribution.HASH else 1
        for fragment in cluster.fragments
    }
    return cluster, desired, plan_desired(cluster, desired)


@reaches("mapping")
@given(planned())
def test_r1_r2_every_vnode_has_one_unit_of_the_new_set_evenly(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R1 and R2: the mapping covers all vnodes, uses exactly the new units, and differs by at most one."""
    cluster, _, plan = case
    for fragment_id, mapping in plan.mappings.items():
        if mapping is not None:
            reached("mapping")
            counts = Counter(mapping)
            assert len(mapping) == cluster.vnodes
            assert set(counts) == set(plan.units[fragment_id])
            assert max(counts.values()) - min(counts.values()) <= 1


@reaches("moves", "no mapping")
@given(planned())
def test_r3_as_few_vnodes_move_as_can(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R3: the number that moves is exactly the minimum of the formula, and what the mapping shows."""
    cluster, _, plan = case
    for fragment_id, mapping in plan.mappings.items():
        (fragment,) = (each for each in cluster.fragments if each.id == fragment_id)
        before = cluster.mapping_of(fragment)
        if before is not None and mapping is not None:
            reached("moves")
            moved = sum(old != new for old, new in zip(before, mapping, strict=True))
            assert plan.moved[fragment_id] == moved == least_moved(before, plan.units[fragment_id])
        else:
            reached("no mapping")
            assert plan.moved[fragment_id] == 0


@given(planned())
def test_r4_only_the_necessary_units_change(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R4: units on leaving workers go, the difference to the wish is added or removed, and nothing else."""
    cluster, desired, plan = case
    running = running_units(cluster)
    for fragment in cluster.fragments:
        change = plan.changes.get(fragment.id, Change())
        stay = set(fragment.parallel_units) & running
        wanted = desired[fragment.id]
        assert len(change.added) == max(0, wanted - len(stay))
        assert len(set(change.removed) & running) == max(0, len(stay) - wanted)
        assert set(change.removed) - running == set(fragment.parallel_units) - running
        assert set(change.added) <= running - set(fragment.parallel_units)


@reaches("added", "removed")
@given(planned())
def test_r5_units_are_spread_over_workers(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R5: no added unit could sit on a worker with two fewer units of the fragment, nor a removed one on a fuller one."""
    cluster, _, plan = case
    running = [worker for worker in cluster.workers if worker.state is WorkerState.RUNNING]
    for fragment_id, change in plan.changes.items():
        after_units = set(plan.units[fragment_id])
        held = {worker.id: len(after_units & set(worker.parallel_units)) for worker in running}
        free = [worker for worker in running if set(worker.parallel_units) - after_units]
        for worker in running:
            if set(worker.parallel_units) & set(change.added):
                reached("added")
                assert all(held[worker.id] - held[other.id] < 2 for other in free)
            if set(worker.parallel_units) & set(change.removed):
                reached("removed")
                assert all(held[other.id] - held[worker.id] < 2 for other in running)


@given(clusters(), st.dictionaries(st.integers(0, 4), st.integers(-1, 30), max_size=3))
def test_r6_errors_leave_everything_as_it_was(cluster: Cluster, desired: dict[int, int]) -> None:
    """R6: a refused wish changes nothing; an accepted one leads to a consistent cluster."""
    before = copy.deepcopy(cluster)
    with contextlib.suppress(Refused):
        applied(cluster, plan_desired(cluster, desired)).check()
    assert cluster == before


@given(planned())
def test_r7_the_plan_as_an_explicit_request_is_the_same_plan(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R7: naming the units of a plan gives equal counts and equal movement."""
    cluster, _, plan = case
    assert plan_request(cluster, plan.changes) == plan


def finished(ledger: Ledger) -> Ledger:
    """Let every step succeed."""
    while ledger.intent is not None:
        ledger = after(ledger, Outcome.DONE).ledger
    return ledger


@given(planned())
def test_r8_one_request_id_counts_once(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R8: applying twice with one request id equals once."""
    cluster, _, plan = case
    once = finished(submit(Ledger(cluster), "r", plan))
    assert finished(submit(once, "r", plan)) == once


@given(planned(), st.lists(st.sampled_from(["done", "failed", "crash"]), max_size=12))
def test_r9_crashes_and_failures_leave_old_or_new_but_never_a_mix(
    case: tuple[Cluster, dict[int, int], Plan], fates: list[str]
) -> None:
    """R9: the only commit point decides, whatever happens in between."""
    cluster, _, plan = case
    ledger, committed = submit(Ledger(cluster), "r", plan), plan.is_noop
    for fate in fates:
        if fate == "crash":
            ledger = recovered(ledger)
        else:
            committed |= ledger.intent is not None and (ledger.intent.step, fate) == (Step.COMMIT, "done")
            ledger = after(ledger, Outcome(fate)).ledger
        assert ledger.cluster == (applied(cluster, plan) if committed else cluster)
    ledger = finished(recovered(ledger))
    assert ledger.cluster == (applied(cluster, plan) if committed else cluster)
    assert ("r" in ledger.results) == committed


@given(planned())
def test_r10_planning_on_the_result_is_a_noop(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """R10: the wish is fulfilled by its own plan."""
    cluster, desired, plan = case
    again = plan_desired(applied(cluster, plan), desired)
    assert (again.is_noop, again.generation) == (True, plan.generation)


@given(planned())
def test_the_order_of_the_input_does_not_matter(case: tuple[Cluster, dict[int, int], Plan]) -> None:
    """The same cluster listed the other way round gives the same plan."""
    cluster, desired, plan = case
    turned = replace(
        cluster,
        workers=tuple(replace(w, parallel_units=w.parallel_units[::-1]) for w in cluster.workers[::-1]),
        fragments=cluster.fragments[::-1],
    )
    assert plan_desired(turned, dict(reversed(desired.items()))) == plan
