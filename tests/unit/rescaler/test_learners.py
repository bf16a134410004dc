"""One round of learner assignment, rule by rule."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest

from surescale.rescaler.learners import assign
from surescale.rescaler.learners_model import (
    Assignment,
    Band,
    HostState,
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    Move,
    MoveKind,
    Replica,
    Round,
    StatefulTask,
    bands,
    exact_factor,
)
from surescale.rescaler.refusals import Refused

READY, LATE = 10, 99_999
LEAVING = HostState.LEAVING


def hosts(*names: str, leaving: str = "", new: str = "") -> list[LearnerHost]:
    """Hosts of capacity 1; the named ones leave or are new."""
    return [LearnerHost(n, 1, LEAVING if n in leaving.split() else HostState.RUNNING, n in new.split()) for n in names]


def owned(host: str, *tasks: str) -> list[StatefulTask]:
    """Tasks on a host, without replicas."""
    return [StatefulTask(task, host) for task in tasks]


def task(active: str | None, learners: dict[str, int] | None = None, standbys: dict[str, int] | None = None) -> StatefulTask:
    """Return task ``t`` with replicas by host and lag."""
    return StatefulTask(
        "t",
        active,
        tuple(Replica(host, lag) for host, lag in (learners or {}).items()),
        tuple(Replica(host, lag) for host, lag in (standbys or {}).items()),
    )


def decide(
    names: list[LearnerHost],
    tasks: list[StatefulTask],
    version: LearnerVersion = LearnerVersion.V2,
    factor: object = 1,
    **limits: int,
) -> Round:
    """One round."""
    return assign(names, tasks, version=version, balancing_factor=factor, limits=LearnerLimits(**limits))  # type: ignore[arg-type]


def seen_again(decided: Round, lag: int = READY) -> list[StatefulTask]:
    """The outcome of a round as the next one sees it, where what was there is ready and what was added has this lag."""
    added = {(move.task, move.destination) for move in decided.moves if move.kind is MoveKind.ADD_STANDBY}
    return [
        StatefulTask(
            found.id,
            found.active,
            tuple(Replica(name, READY) for name in found.learners),
            tuple(Replica(name, lag if (found.id, name) in added else READY) for name in found.standbys),
        )
        for found in decided.tasks
    ]


def moves(decided: Round) -> set[tuple[str, str, str | None, str | None]]:
    """The moves as plain tuples."""
    return {(move.kind.value, move.task, move.source, move.destination) for move in decided.moves}


class TestActive:
    """Who owns a task after the round."""

    def test_a_ready_learner_takes_over_from_a_live_owner(self) -> None:
        """The learner's host becomes active in this round."""
        decided = decide(hosts("a", "b"), [task("a", {"b": READY})])
        assert moves(decided) == {("promote", "t", "a", "b")}

    def test_the_ready_learner_with_least_lag_wins(self) -> None:
        """Of several the least lag, then the id; the others are dropped."""
        decided = decide(hosts("a", "b", "c", "d"), [task("a", {"d": 1, "b": 2, "c": 1})])
        assert moves(decided) == {("promote", "t", "a", "c"), ("drop_learner", "t", "b", None), ("drop_learner", "t", "d", None)}

    def test_lag_at_the_limit_is_ready(self) -> None:
        """Acceptable lag is acceptable."""
        assert decide(hosts("a", "b"), [task("a", {"b": 5})], acceptable_lag=5).tasks[0].active == "b"
        assert decide(hosts("a", "b"), [task("a", {"b": 6})], acceptable_lag=5).tasks[0].active == "a"

    def test_a_ready_learner_on_a_leaving_host_does_not_take_over(self) -> None:
        """Only running hosts become owners; the learner is dropped."""
        decided = decide(hosts("a", "b", leaving="b"), [task("a", {"b": READY})])
        assert moves(decided) == {("drop_learner", "t", "b", None)}

    def test_an_owner_that_leaves_stays_until_a_learner_is_ready(self) -> None:
        """An active never moves off a live host before its learner is ready."""
        assert decide(hosts("a", "b", leaving="a"), [task("a", {"b": LATE})]).tasks[0].active == "a"

    def test_all_ready_learners_take_over_in_one_round(self) -> None:
        """Takeovers are not limited."""
        tasks = [StatefulTask(name, "a", (Replica("b", READY),)) for name in "stuv"]
        assert len(decide(hosts("a", "b"), tasks, max_learners=1, factor=9).moves) == 4

    @pytest.mark.parametrize(
        ("learners", "standbys", "winner"),
        [
            ({"b": READY}, {"c": 0}, "b"),
            ({"b": LATE}, {"c": READY}, "c"),
            ({"b": LATE}, {"c": LATE - 1}, "b"),
            ({}, {"b": LATE, "c": LATE - 1}, "c"),
            ({}, {"b": 3, "c": 3}, "b"),
            ({}, {}, "b"),
        ],
    )
    def test_an_orphan_goes_to_its_best_replica(self, learners: dict[str, int], standbys: dict[str, int], winner: str) -> None:
        """Ready learner, ready standby, unready learner, any standby, then the host with least active load."""
        decided = decide([*hosts("b", "c"), LearnerHost("d", 1, LEAVING)], [task("dead", learners, standbys)])
        assert decided.tasks[0].active == winner
        assert ("recover", "t", "dead", winner) in moves(decided)

    def test_orphans_without_replicas_go_where_the_active_load_per_capacity_is_lowest(self) -> None:
        """Load is counted per capacity, and each orphan counts for the next one."""
        names = [LearnerHost("a", 1), LearnerHost("b", 3)]
        decided = decide(names, [*owned("a", "t1"), *owned("b", "t2"), *owned("dead", "t3", "t4", "t5")], factor=9)
        assert [found.active for found in decided.tasks] == ["a", "b", "b", "b", "a"]

    def test_a_task_without_any_owner_is_an_orphan(self) -> None:
        """Null as owner is placed like a task of a dead host."""
        assert moves(decide(hosts("a"), [task(None)])) == {("recover", "t", None, "a")}

    def test_a_recovered_standby_keeps_the_unready_learner(self) -> None:
        """A learner survives unless the task was taken over by one of its learners."""
        decided = decide(hosts("b", "c"), [task("dead", {"b": LATE}, {"c": READY})])
        assert decided.tasks == (Assignment("t", "c", ("b",), ()),)

    def test_tasks_placed_on_lagging_replicas_are_reported(self) -> None:
        """Owners that must restore first are named."""
        decided = decide(hosts("a", "b"), [task("dead", {}, {"b": LATE}), *owned("dead", "u")])
        assert decided.lagging_actives == ("t", "u")


class TestLearners:
    """Which learners run after the round."""

    def test_an_unready_learner_is_kept_whatever_the_balance_says(self) -> None:
        """Learners are not dropped for balance."""
        decided = decide(hosts("a", "b"), [task("a", {"b": LATE})], factor=0)
        assert decided.moves == ()

    @pytest.mark.parametrize("fate", ["leaving", "dead"])
    def test_a_learner_on_a_host_that_goes_is_dropped(self, fate: str) -> None:
        """The task stays where it is."""
        names = hosts("a", "b", leaving="b") if fate == "leaving" else hosts("a")
        assert moves(decide(names, [task("a", {"b": LATE})])) == {("drop_learner", "t", "b", None)}

    def test_of_several_unready_learners_the_least_lag_is_kept(self) -> None:
        """A task has at most one learner."""
        decided = decide(hosts("a", "b", "c"), [task("a", {"b": LATE, "c": LATE - 1})])
        assert decided.tasks[0].learners == ("c",)

    @pytest.mark.parametrize("version", list(LearnerVersion))
    def test_a_leaving_host_is_drained(self, version: LearnerVersion) -> None:
        """Every task on it gets a learner elsewhere."""
        decided = decide(hosts("a", "b", "c", leaving="a"), owned("a", "t", "u"), version)
        assert {(m.kind, m.source) for m in decided.moves} == {(MoveKind.LEARN, "a")}
        assert decided.learners_in_flight == 2

    def test_drained_tasks_go_to_hosts_below_low_first(self) -> None:
        """A drain fills shortages before it fills anything else."""
        decided = decide(hosts("a", "b", "c", leaving="a"), [*owned("a", "t", "u"), *owned("b", "v", "w")], factor=0)
        assert {move.destination for move in decided.moves} == {"c"}

    def test_v1_drains_to_new_hosts_first(self) -> None:
        """A new host below its share comes before an emptier old one."""
        names = [LearnerHost("a", 1, LEAVING), LearnerHost("b", 1), LearnerHost("n", 2, new=True)]
        tasks = [*owned("a", "t", "u"), *owned("n", "v")]
        decided = decide(names, tasks, LearnerVersion.V1, factor=9, max_learners=1)
        assert [move.destination for move in decided.moves] == ["n"]

    def test_v1_fills_a_new_host_up_to_its_share(self) -> None:
        """floor(e) learners start towards the new host, none elsewhere."""
        tasks = [*owned("a", *"stuvw"), *owned("b", "x")]
        decided = decide(hosts("a", "b", "n", new="n"), tasks, LearnerVersion.V1)
        assert {(move.source, move.destination) for move in decided.moves} == {("a", "n")}
        assert decided.load["n"].projected == 2

    def test_v1_moves_nothing_between_old_hosts(self) -> None:
        """An imbalance of old hosts is not V1's business."""
        assert decide(hosts("a", "b"), owned("a", *"stuv"), LearnerVersion.V1).moves == ()

    def test_v2_fills_shortages_from_overloaded_hosts(self) -> None:
        """A host above its band gives before one inside it."""
        tasks = [*owned("a", *"mnopqr"), *owned("b", *"st")]
        decided = decide(hosts("a", "b", "c"), tasks, factor=Fraction(1, 2))
        assert {(move.source, move.destination) for move in decided.moves} == {("a", "c")}

    def test_v2_prefers_an_overloaded_giver_to_a_warm_standby(self) -> None:
        """A standby on the destination does not make a host inside its band give while another is above it."""
        tasks = [*owned("a", *"mnopq"), *owned("b", "s", "t"), StatefulTask("u", "b", (), (Replica("c", 0),))]
        decided = decide(hosts("a", "b", "c"), tasks, factor=Fraction(1, 2), num_standbys=1)
        assert [move.source for move in decided.moves if move.kind is MoveKind.LEARN] == ["a"]

    def test_v2_takes_from_hosts_above_low_when_none_is_overloaded(self) -> None:
        """A shortage is filled even if nobody is above the band."""
        decided = decide(hosts("a", "b", "c"), [*owned("a", *"mnop"), *owned("b", *"stuv")], factor=1)
        assert (len(decided.moves), decided.balanced) == (1, True)

    def test_v2_empties_overloads_when_nobody_is_short(self) -> None:
        """An excess moves to hosts below their upper limit."""
        tasks = [*owned("a", *"klmnopq"), *owned("b", *"st"), *owned("c", *"uv")]
        decided = decide(hosts("a", "b", "c"), tasks, factor=Fraction(1, 4))
        assert (decided.balanced, len(decided.moves)) == (True, 2)

    def test_inside_the_bands_nothing_moves(self) -> None:
        """A band exists so that small differences move nothing."""
        assert decide(hosts("a", "b"), [*owned("a", *"stuv"), *owned("b", *"xy")]).moves == ()

    def test_a_standby_on_the_destination_goes_first(self) -> None:
        """It becomes the learner at once, and the least lag is preferred."""
        tasks = [
            StatefulTask("t", "a"),
            StatefulTask("u", "a", (), (Replica("b", 70_000),)),
            StatefulTask("v", "a", (), (Replica("b", 60_000),)),
            StatefulTask("w", "a", (), (Replica("b", 65_000),)),
        ]
        decided = decide(hosts("a", "b"), tasks, num_standbys=1)
        assert ("learn", "v", "a", "b") in moves(decided)
        assert len([move for move in decided.moves if move.kind is MoveKind.LEARN]) == 1
        assert not [move for move in decided.moves if move.kind is MoveKind.DROP_STANDBY]

    def test_kept_learners_count_towards_the_limit(self) -> None:
        """Above the limit nothing new starts."""
        tasks = [task("a", {"b": LATE}), *owned("a", *"uvwxyz")]
        assert decide(hosts("a", "b"), tasks, factor=0, max_learners=1).learners_in_flight == 1
        assert decide(hosts("a", "b"), tasks, factor=0, max_learners=2).learners_in_flight == 2

    def test_capacities_weigh(self) -> None:
        """A host of three times the capacity gets three times the tasks."""
        decided = decide([LearnerHost("a", 1), LearnerHost("b", 3)], owned("a", *"stuv"), factor=0)
        assert decided.load["b"].projected == 3


class TestStandbys:
    """Which standbys are kept."""

    def test_the_previous_owner_becomes_the_standby(self) -> None:
        """Its state is the freshest there is."""
        decided = decide(hosts("a", "b", "c"), [task("a", {"b": READY})], num_standbys=1)
        assert Move(MoveKind.ADD_STANDBY, "t", "a", "a") in decided.moves

    def test_a_leaving_previous_owner_does_not(self) -> None:
        """Standbys are on running hosts only."""
        decided = decide(hosts("a", "b", "c", leaving="a"), [task("a", {"b": READY})], num_standbys=1)
        assert decided.tasks[0].standbys == ("c",)

    def test_missing_standbys_go_where_replicas_per_capacity_are_fewest(self) -> None:
        """Actives, learners and standbys all count."""
        names = [LearnerHost("a"), LearnerHost("b", 1), LearnerHost("c", 4)]
        tasks = [StatefulTask("t", "a"), StatefulTask("u", "b"), StatefulTask("v", "c")]
        decided = decide(names, tasks, num_standbys=1, factor=9)
        assert [found.standbys for found in decided.tasks] == [("c",), ("c",), ("a",)]

    def test_added_standbys_count_for_the_next_task(self) -> None:
        """Standbys spread instead of piling up on one host."""
        decided = decide(hosts("a", "b", "c"), owned("a", *"stuv"), num_standbys=1, factor=99)
        assert [found.standbys for found in decided.tasks] == [("b",), ("c",), ("b",), ("c",)]

    def test_the_least_lag_is_kept_when_there_are_too_many(self) -> None:
        """The surplus is dropped."""
        decided = decide(hosts("a", "b", "c"), [task("a", {}, {"b": 5, "c": 4})], num_standbys=1)
        assert moves(decided) == {("drop_standby", "t", "b", None)}

    @pytest.mark.parametrize("fate", ["leaving", "dead"])
    def test_standbys_on_hosts_that_go_are_dropped(self, fate: str) -> None:
        """They are replaced where there is a host."""
        names = hosts("a", "b", "c", leaving="b") if fate == "leaving" else hosts("a", "c")
        decided = decide(names, [task("a", {}, {"b": READY})], num_standbys=1)
        assert moves(decided) == {("drop_standby", "t", "b", None), ("add_standby", "t", None, "c")}

    def test_the_first_standbys_are_even(self) -> None:
        """Three tasks on three hosts: one each, though the first choice of the last task is taken."""
        decided = decide(hosts("a", "b", "c"), [StatefulTask(name, None) for name in "stu"], num_standbys=1)
        assert sorted(name for found in decided.tasks for name in found.standbys) == ["a", "b", "c"]

    @pytest.mark.parametrize(("copies", "most"), [(1, 4), (1, None), (2, 7)])
    def test_a_new_host_gets_its_share_of_standbys(self, copies: int, most: int | None) -> None:
        """Ten hosts, a hundred tasks, one host joins: added before another is dropped, within the limit, until all are even."""
        names = [f"h{number:02}" for number in range(10)]
        tasks = [StatefulTask(f"t{number:03}", None) for number in range(100)]
        limits = LearnerLimits(num_standbys=copies, max_learners=most)
        decided = assign(hosts(*names), tasks, limits=limits)
        assert decided.converged
        for _ in range(30):
            decided = assign(hosts(*names, "new"), seen_again(decided), limits=limits)
            extra = sum(len(found.standbys) - copies for found in decided.tasks)
            assert 0 <= extra <= (most or 100 * copies)
        assert (decided.moves, decided.converged) == ((), True)
        held = Counter(name for found in decided.tasks for name in (found.active, *found.standbys))
        assert len(held) == 11
        assert max(held.values()) - min(held.values()) <= 1
        assert decided.balanced

    def test_standbys_on_their_way_are_not_balanced(self) -> None:
        """Though every active is where it should be."""
        tasks = [StatefulTask(f"t{number}", "ab"[number % 2], (), (Replica("ba"[number % 2], READY),)) for number in range(6)]
        decided = decide(hosts("a", "b", "c"), tasks, factor=9, num_standbys=1)
        assert (decided.balanced, decided.standbys_settled, decided.converged) == (False, False, False)
        assert {move.kind.value for move in decided.moves} == {"add_standby"}
        waiting = decide(hosts("a", "b", "c"), seen_again(decided, lag=LATE), factor=9, num_standbys=1)
        assert (waiting.moves, waiting.balanced) == ((), False)
        after = decide(hosts("a", "b", "c"), seen_again(decided), factor=9, num_standbys=1)
        assert {move.kind.value for move in after.moves} == {"drop_standby"}
        assert (after.balanced, after.converged) == (True, True)

    def test_a_learner_counts_as_a_standby_when_adding(self) -> None:
        """While a learner runs no standby is added, but none is dropped either."""
        assert decide(hosts("a", "b", "c"), [task("a", {"b": LATE})], num_standbys=1).moves == ()
        assert decide(hosts("a", "b", "c"), [task("a", {"b": LATE}, {"c": READY})], num_standbys=1).moves == ()

    def test_want_of_a_host_is_counted(self) -> None:
        """A task short of standbys is no error."""
        decided = decide(hosts("a", "b"), [task("a")], num_standbys=2)
        assert (decided.under_replicated, decided.tasks[0].standbys, decided.converged) == (1, ("b",), True)


class TestResult:
    """Bands, load and convergence."""

    @pytest.mark.parametrize(("factor", "low", "high"), [(0, 3, 4), (1, 1, 7), ("0.1", 3, 4), ("0.2", 2, 4), ("0.25", 2, 5)])
    def test_bands_are_exact(self, factor: object, low: int, high: int) -> None:
        """Ten tasks on three hosts; the factor is read as a decimal."""
        three = {name: LearnerHost(name) for name in "abc"}
        assert bands(three, 10, exact_factor(factor))["a"] == Band(low, 3, high)

    def test_a_float_factor_is_read_as_the_decimal_it_shows(self) -> None:
        """0.1 is one tenth: eleven tasks over one host stay exactly at the edge of the band."""
        assert exact_factor(0.1) == exact_factor(Decimal("0.1")) == Fraction(1, 10)
        assert bands({"a": LearnerHost("a")}, 10, exact_factor(0.1))["a"].high == 11

    def test_leaving_hosts_have_no_share(self) -> None:
        """Their band is 0 to 0, so a task there is out of balance."""
        decided = decide(hosts("a", "b", leaving="a"), owned("a", "t", "u"), max_learners=1)
        assert (decided.load["a"].high, decided.balanced, decided.undrained) == (0, False, ("a",))

    def test_converged_means_nothing_is_left(self) -> None:
        """A round with learners in flight has not converged; after their takeover it has."""
        first = decide(hosts("a", "b"), owned("a", "t", "u"), factor=0)
        assert (first.balanced, first.converged) == (True, False)
        second = decide(hosts("a", "b"), [StatefulTask("t", "a", (Replica("b", 0),)), StatefulTask("u", "a")], factor=0)
        assert second.converged

    def test_v1_converges_out_of_balance(self) -> None:
        """V1 asks only for new hosts to have their share."""
        decided = decide(hosts("a", "b"), owned("a", *"stuv"), LearnerVersion.V1)
        assert (decided.converged, decided.balanced) == (True, False)

    def test_no_tasks_are_balanced(self) -> None:
        """An empty job needs nothing."""
        decided = decide(hosts("a"), [])
        assert (decided.converged, decided.balanced, decided.moves) == (True, True, ())


class TestRefusals:
    """Each code."""

    @pytest.mark.parametrize(
        ("names", "tasks", "code", "place"),
        [
            (hosts("a", "a"), [], "DUPLICATE_HOST", {"host": "a"}),
            ([LearnerHost("a", 0)], [], "INVALID_CAPACITY", {"host": "a"}),
            (hosts("a"), owned("a", "t", "t"), "DUPLICATE_TASK", {"task": "t"}),
            (hosts("a"), [task("a", {"b": -1})], "INVALID_LAG", {"task": "t", "host": "b"}),
            (hosts("a"), [task("a", {"a": 1})], "REPLICA_CONFLICT", {"task": "t", "host": "a"}),
            (hosts("a"), [task("a", {"b": 1}, {"b": 1})], "REPLICA_CONFLICT", {"task": "t", "host": "b"}),
            (hosts("a", leaving="a"), owned("a", "t"), "NO_ELIGIBLE_HOST", {}),
            ([], [], "NO_ELIGIBLE_HOST", {}),
        ],
    )
    def test_clusters(self, names: list[LearnerHost], tasks: list[StatefulTask], code: str, place: dict[str, str]) -> None:
        """What no cluster can look like is refused, with the place."""
        with pytest.raises(Refused) as refused:
            decide(names, tasks)
        assert (refused.value.code, refused.value.place) == (code, place)

    @pytest.mark.parametrize("limits", [{"acceptable_lag": -1}, {"num_standbys": -1}, {"max_learners": 0}])
    def test_limits(self, limits: dict[str, int]) -> None:
        """Limits out of range are refused by name."""
        with pytest.raises(Refused) as refused:
            LearnerLimits(**limits)
        assert (refused.value.code, refused.value.place) == ("INVALID_PARAM", {"field": next(iter(limits))})

    @pytest.mark.parametrize("factor", [-1, "x", None, True, [], float("nan"), float("inf"), Decimal("1e999999999")])
    def test_factors(self, factor: object) -> None:
        """Only finite numbers from 0 on are factors."""
        with pytest.raises(Refused, match="INVALID_FACTOR"):
            exact_factor(factor)
