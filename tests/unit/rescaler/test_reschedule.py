"""Planning a reschedule, and every code that refuses one, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from surescale.rescaler.refusals import Place, Refused
from surescale.rescaler.reschedule import (
    Change,
    Cluster,
    Distribution,
    Fragment,
    RescheduleRefusal,
    Worker,
    WorkerState,
    applied,
    plan_desired,
    plan_request,
)

HASH, SINGLE = Distribution.HASH, Distribution.SINGLE

#: Workers 1 (units 1, 2), 2 (units 3, 4) and 3 (units 5, 6, about to go); fragment 10 on 1, 2 and 12 single on 2.
CLUSTER = Cluster(
    generation=7,
    workers=(
        Worker(1, "w1", (1, 2)),
        Worker(2, "w2", (3, 4)),
        Worker(3, "w3", (5, 6), WorkerState.REMOVED_SOON),
    ),
    fragments=(Fragment(10, HASH, (1, 2)), Fragment(12, SINGLE, (2,))),
    vnodes=8,
)


def with_fragment(fragment: Fragment) -> Cluster:
    """The cluster with this fragment alone."""
    return replace(CLUSTER, fragments=(fragment,))


def code_of(function, *args, **kwargs) -> str:  # type: ignore[no-untyped-def]
    """The code with which the call is refused."""
    with pytest.raises(Refused) as refused:
        function(*args, **kwargs)
    return refused.value.code


class TestPlanning:
    """From wanted parallelism to units."""

    def test_adds_on_the_worker_with_fewest_units_of_the_fragment(self) -> None:
        """A new unit spreads the fragment instead of filling its worker."""
        assert plan_desired(CLUSTER, {10: 3}).changes == {10: Change(added=(3,))}

    def test_a_tie_goes_to_the_least_occupied_unit(self) -> None:
        """Among equals the unit that fewer fragments use is taken."""
        cluster = replace(CLUSTER, fragments=(*CLUSTER.fragments, Fragment(13, SINGLE, (3,))))
        assert plan_desired(cluster, {10: 3}).changes == {10: Change(added=(4,))}

    def test_removes_from_the_worker_with_most_units(self) -> None:
        """Scaling in takes from the fullest worker, there the most occupied unit."""
        cluster = with_fragment(Fragment(10, HASH, (1, 2, 3)))
        assert plan_desired(cluster, {10: 2}).changes == {10: Change(removed=(2,))}

    def test_units_that_go_soon_are_replaced(self) -> None:
        """Units on a worker that goes are always given up, even at the same parallelism."""
        cluster = with_fragment(Fragment(10, HASH, (1, 5)))
        assert plan_desired(cluster, {10: 2}).changes == {10: Change(added=(3,), removed=(5,))}

    def test_scaling_in_first_gives_up_what_goes_soon(self) -> None:
        """No running unit is removed where a leaving one covers the difference."""
        cluster = with_fragment(Fragment(10, HASH, (1, 3, 5)))
        assert plan_desired(cluster, {10: 2}).changes == {10: Change(removed=(5,))}

    def test_no_change_is_a_noop_and_keeps_the_generation(self) -> None:
        """Fragments without a change are left out of the request."""
        plan = plan_desired(CLUSTER, {10: 2, 12: 1})
        assert (plan.is_noop, plan.generation, applied(CLUSTER, plan)) == (True, 7, CLUSTER)

    def test_an_uneven_mapping_alone_is_no_change(self) -> None:
        """Vnodes move only where units change."""
        cluster = with_fragment(Fragment(10, HASH, (1, 2), (1,) * 7 + (2,)))
        assert plan_desired(cluster, {10: 2}).is_noop

    def test_an_explicit_request_without_units_is_a_noop(self) -> None:
        """A fragment with two empty lists has no change either."""
        assert plan_request(CLUSTER, {10: Change()}).is_noop

    def test_later_fragments_see_what_earlier_ones_took(self) -> None:
        """The occupation that breaks ties includes the fragments planned before."""
        cluster = replace(CLUSTER, fragments=(Fragment(1, HASH, (1,)), Fragment(2, HASH, (1,))))
        changes = plan_desired(cluster, {2: 2, 1: 2}).changes
        assert changes == {1: Change(added=(3,)), 2: Change(added=(4,))}

    def test_a_single_fragment_migrates_without_vnodes(self) -> None:
        """A single fragment on a worker that goes moves as a whole."""
        cluster = with_fragment(Fragment(12, SINGLE, (5,)))
        plan = plan_desired(cluster, {12: 1})
        assert (plan.changes, plan.mappings, plan.moved) == ({12: Change((1,), (5,))}, {12: None}, {12: 0})

    def test_an_explicit_request_may_mix(self) -> None:
        """Added and removed units may come in any numbers."""
        plan = plan_request(CLUSTER, {10: Change(added=(4, 3), removed=(1,))})
        assert (plan.changes, plan.units) == ({10: Change((3, 4), (1,))}, {10: (2, 3, 4)})

    def test_applying_raises_the_generation_once(self) -> None:
        """All changes of one plan are one generation."""
        after = applied(CLUSTER, plan_request(CLUSTER, {10: Change(added=(3,)), 12: Change((1,), (2,))}))
        assert after.generation == 8
        assert after.fragments == (Fragment(10, HASH, (1, 2, 3), (1, 1, 1, 3, 2, 2, 2, 3)), Fragment(12, SINGLE, (1,)))

    def test_a_plan_fits_only_the_generation_it_was_made_for(self) -> None:
        """A plan that comes late is refused."""
        plan = plan_desired(CLUSTER, {10: 3})
        assert code_of(applied, applied(CLUSTER, plan), plan) == "STALE_GENERATION"


class TestRefusals:
    """Each code on its own."""

    @pytest.mark.parametrize(
        "cluster",
        [
            replace(CLUSTER, workers=(*CLUSTER.workers, Worker(1, "again", (9,)))),
            replace(CLUSTER, workers=(*CLUSTER.workers, Worker(4, "w4", (1,)))),
            replace(CLUSTER, workers=(*CLUSTER.workers, Worker(4, "w4", (9, 9)))),
            replace(CLUSTER, fragments=(*CLUSTER.fragments, Fragment(10, HASH, (1,)))),
            with_fragment(Fragment(10, HASH, ())),
            with_fragment(Fragment(10, HASH, (1, 1))),
            with_fragment(Fragment(10, HASH, (1, 99))),
            replace(with_fragment(Fragment(10, HASH, (1, 2, 3))), vnodes=2),
            with_fragment(Fragment(10, SINGLE, (1, 2))),
            with_fragment(Fragment(10, SINGLE, (1,), (1,) * 8)),
            with_fragment(Fragment(10, HASH, (1,), (1,) * 7)),
            with_fragment(Fragment(10, HASH, (1,), ())),
            with_fragment(Fragment(10, HASH, (1, 2), (1,) * 8)),
            with_fragment(Fragment(10, HASH, (1,), (1,) * 7 + (2,))),
        ],
    )
    def test_cluster_inconsistent(self, cluster: Cluster) -> None:
        """Whatever no cluster can look like is refused before anything else is looked at."""
        assert code_of(plan_desired, cluster, {404: 0}) == "CLUSTER_INCONSISTENT"

    def test_stale_generation(self) -> None:
        """An expected generation that is not the current one is refused even before the cluster is checked."""
        broken = with_fragment(Fragment(10, HASH, ()))
        for plan in (plan_desired, plan_request):
            assert code_of(plan, broken, {}, expected_generation=6) == "STALE_GENERATION"
            assert code_of(plan, broken, {}, expected_generation=7) == "CLUSTER_INCONSISTENT"

    def test_the_most_that_is_possible_is_possible(self) -> None:
        """Every unit of running workers; a unit for each vnode; with one fewer of either it is refused."""
        assert plan_desired(CLUSTER, {10: 4}).units[10] == (1, 2, 3, 4)
        assert plan_desired(replace(CLUSTER, vnodes=4), {10: 4}).units[10] == (1, 2, 3, 4)
        assert code_of(plan_desired, replace(CLUSTER, vnodes=3), {10: 4}) == "INVALID_PARALLELISM"
        smaller = replace(CLUSTER, workers=(Worker(1, "w1", (1, 2)), Worker(2, "w2", (3,))))
        assert code_of(plan_desired, smaller, {10: 4}) == "NOT_ENOUGH_PARALLEL_UNITS"

    @pytest.mark.parametrize(
        ("desired", "code"),
        [
            ({404: 1}, "FRAGMENT_NOT_FOUND"),
            ({10: 0}, "INVALID_PARALLELISM"),
            ({10: "3"}, "INVALID_PARALLELISM"),
            ({10: True}, "INVALID_PARALLELISM"),
            ({10: 9}, "INVALID_PARALLELISM"),
            ({12: 0}, "INVALID_PARALLELISM"),
            ({12: 2}, "SINGLETON_SCALE"),
            ({10: 5}, "NOT_ENOUGH_PARALLEL_UNITS"),
            ({12: 2, 10: 5}, "NOT_ENOUGH_PARALLEL_UNITS"),
            ({9: 1, 10: 0}, "FRAGMENT_NOT_FOUND"),
        ],
    )
    def test_desired(self, desired: dict[int, object], code: str) -> None:
        """Fragments are checked in ascending order, each against all codes."""
        assert code_of(plan_desired, CLUSTER, desired) == code

    @pytest.mark.parametrize(
        ("fragment", "change", "code"),
        [
            (404, Change(), "FRAGMENT_NOT_FOUND"),
            (10, Change(added=(99, 99)), "DUPLICATE_PARALLEL_UNIT"),
            (10, Change(removed=(1, 1)), "DUPLICATE_PARALLEL_UNIT"),
            (10, Change(added=(99,), removed=(99,)), "CONFLICTING_PARALLEL_UNIT"),
            (10, Change(added=(99,), removed=(3,)), "UNKNOWN_PARALLEL_UNIT"),
            (10, Change(added=(1,), removed=(3,)), "NOT_OCCUPIED"),
            (10, Change(added=(1, 5)), "ALREADY_OCCUPIED"),
            (12, Change(added=(5,)), "WORKER_REMOVED_SOON"),
            (12, Change(added=(1,)), "SINGLETON_SCALE"),
            (12, Change(removed=(2,)), "SINGLETON_SCALE"),
            (10, Change(removed=(1, 2)), "FRAGMENT_WOULD_BE_EMPTY"),
        ],
    )
    def test_request(self, fragment: int, change: Change, code: str) -> None:
        """Each request breaks this rule and, where it can, the next one too: the first one is named."""
        with pytest.raises(Refused) as refused:
            plan_request(CLUSTER, {fragment: change})
        assert (refused.value.code, refused.value.place) == (code, {"fragment": fragment})
        assert str(fragment) in str(refused.value)

    def test_more_units_than_vnodes(self) -> None:
        """Every unit needs a vnode."""
        cluster = replace(CLUSTER, vnodes=3)
        assert code_of(plan_request, cluster, {10: Change(added=(3, 4))}) == "INVALID_PARALLELISM"

    @pytest.mark.parametrize(
        ("cluster", "sentence", "place"),
        [
            (
                replace(CLUSTER, workers=(*CLUSTER.workers, Worker(2, "w4", (7,)))),
                "worker 2 is listed more than once", {},
            ),
            (
                replace(CLUSTER, workers=(*CLUSTER.workers, Worker(4, "w4", (3, 1)))),
                "parallel unit 1 is listed more than once", {},
            ),
            (
                replace(CLUSTER, fragments=(Fragment(12, SINGLE, (2,)), Fragment(12, SINGLE, (2,)))),
                "fragment 12 is listed more than once", {"fragment": 12},
            ),
            (with_fragment(Fragment(10, HASH, ())), "fragment 10 has no parallel units", {"fragment": 10}),
            (with_fragment(Fragment(10, HASH, (1, 1))), "fragment 10 names a parallel unit twice", {"fragment": 10}),
            (with_fragment(Fragment(10, HASH, (99, 98))), "fragment 10 runs on unknown parallel unit 98", {"fragment": 10}),
            (
                replace(with_fragment(Fragment(10, HASH, (1, 2, 3))), vnodes=2),
                "fragment 10 has 3 parallel units for 2 vnodes", {"fragment": 10},
            ),
            (with_fragment(Fragment(10, SINGLE, (1, 2))), "fragment 10 is single and has 2 parallel units", {"fragment": 10}),
            (with_fragment(Fragment(10, SINGLE, (1,), (1,) * 8)), "fragment 10 is single and has a mapping", {"fragment": 10}),
            (with_fragment(Fragment(10, HASH, (1,), (1,) * 7)), "fragment 10 maps 7 vnodes instead of 8", {"fragment": 10}),
            (
                with_fragment(Fragment(10, HASH, (1,), (1,) * 7 + (2,))),
                "fragment 10 maps vnodes to parallel units that are not its own", {"fragment": 10},
            ),
            (
                replace(CLUSTER, fragments=(Fragment(12, SINGLE, ()), Fragment(10, HASH, ()))),
                "fragment 10 has no parallel units", {"fragment": 10},
            ),
        ],
    )  # fmt: skip
    def test_an_impossible_cluster_is_told_by_its_first_fault(self, cluster: Cluster, sentence: str, place: Place) -> None:
        """Where there are several of a kind, the one with the lowest number is named."""
        with pytest.raises(Refused) as refused:
            cluster.check()
        assert refused.value.as_error() == {"code": "CLUSTER_INCONSISTENT", "message": sentence, **place}

    @pytest.mark.parametrize(
        ("plan", "wanted", "sentence"),
        [
            (plan_desired, {404: 1}, "fragment 404 does not exist"),
            (plan_desired, {10: "3"}, "fragment 10 needs an integer of at least 1, not '3'"),
            (plan_desired, {10: 9}, "fragment 10 cannot have 9 parallel units for 8 vnodes"),
            (plan_desired, {12: 2}, "fragment 12 is single and cannot have 2 parallel units"),
            (plan_desired, {10: 5}, "fragment 10 wants 5 parallel units, running workers have 4"),
            (plan_request, {404: Change()}, "fragment 404 does not exist"),
            (plan_request, {10: Change(added=(4, 4, 3, 3))}, "fragment 10 lists parallel unit 3 twice"),
            (plan_request, {10: Change(added=(4, 3), removed=(3, 4))}, "fragment 10 both adds and removes parallel unit 3"),
            (plan_request, {10: Change(added=(99,), removed=(98,))}, "fragment 10 names parallel unit 98, which no worker has"),
            (plan_request, {10: Change(removed=(4, 3))}, "fragment 10 does not occupy parallel unit 3"),
            (plan_request, {10: Change(added=(2, 1))}, "fragment 10 already occupies parallel unit 1"),
            (plan_request, {10: Change(added=(6, 5))}, "fragment 10 cannot use parallel unit 5: its worker is removed soon"),
            (plan_request, {12: Change(removed=(2,))}, "fragment 12 is single: it can move, not grow or shrink"),
            (plan_request, {10: Change(removed=(1, 2))}, "fragment 10 would have no parallel units left"),
        ],
    )
    def test_a_refusal_says_what_is_wrong(self, plan: Callable[..., object], wanted: dict[int, object], sentence: str) -> None:
        """With the numbers, and the place for programs."""
        with pytest.raises(Refused) as refused:
            plan(CLUSTER, wanted)
        assert (refused.value.message, refused.value.place) == (sentence, {"fragment": next(iter(wanted))})

    def test_a_stale_request_names_both_generations(self) -> None:
        """So that its sender sees how far behind it is; no fragment is to blame."""
        with pytest.raises(Refused) as refused:
            plan_desired(CLUSTER, {}, expected_generation=6)
        assert refused.value.message == "made for generation 6, but the cluster is at 7; read it again"
        assert refused.value.place == {}
        crowded = replace(CLUSTER, vnodes=3)
        with pytest.raises(Refused) as refused:
            plan_request(crowded, {10: Change(added=(3, 4))})
        assert refused.value.message == "fragment 10 would have 4 parallel units for 3 vnodes"

    def test_every_code_is_in_the_closed_set(self) -> None:
        """Nothing is refused with a word that callers do not know."""
        assert code_of(plan_desired, CLUSTER, {404: 1}) in set(RescheduleRefusal)
