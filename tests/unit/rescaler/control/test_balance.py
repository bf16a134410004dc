"""Hosts that come and go: looks, moves to hosts that join, learners that are given up."""

import pytest

from surescale.rescaler.control.hosts import LOOKS_MAX, MovableJob, look
from surescale.rescaler.control.settings import Balancing, PlacingSettings
from surescale.rescaler.gate_settings import GateSettings
from tests.support.balance_pipeline import COPIED, SPREAD, T0, Pipeline, hosts, spread
from tests.support.controller_world import JOB, MINUTE_MS, OTHER_JOB, job, only

# Looks


def test_hosts_that_do_not_change_are_never_looked_at() -> None:
    """The first decision takes them for balanced; nothing is said of it."""
    pipeline = spread()
    pipeline.pass_minute(5)
    assert pipeline.looks == []


def test_hosts_that_change_are_looked_at_a_minute_later() -> None:
    """When the jobs on them are known too; not before."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0 + MINUTE_MS)
    assert pipeline.pass_minute().balances == ()
    (look,) = pipeline.pass_minute().balances
    assert (look.at_ms, look.generation, look.sequence, look.hosts_version) == (T0 + 2 * MINUTE_MS, 2, 0, pipeline.hosts.version)


def test_several_hosts_that_join_one_after_the_other_are_one_generation() -> None:
    """The minute starts over with each."""
    pipeline = spread((0, 1, 2, 3))
    pipeline.hosts = hosts(2, T0 + MINUTE_MS)
    pipeline.pass_minute()
    pipeline.hosts = hosts(3, T0 + 2 * MINUTE_MS)
    assert pipeline.pass_minute().balances == ()
    assert [move.to_host for move in pipeline.pass_minute().balances[0].moves] == ["h1", "h2"]


def test_a_look_waits_while_a_job_is_still_shown_on_a_dead_host() -> None:
    """Its topology comes with the next minute."""
    pipeline = spread((0, 4), count=3)
    pipeline.hosts = hosts(3, T0, without="h1")
    (look,) = pipeline.pass_minute().balances
    assert (look.status, look.reason, look.until_ms) == ("moving", "hosts_changed", pipeline.now_ms + MINUTE_MS)


# Moves


def test_a_host_that_joins_gets_its_share_warm() -> None:
    """One of two units goes there: learners first, then the commit; parallelism stays."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0)
    pipeline.settle()
    assert [(command.action, command.decision_id) for command in pipeline.commands] == [
        ("prepare", f"{JOB}@{T0 + MINUTE_MS}/balance"),
        ("commit", f"{JOB}@{T0 + MINUTE_MS}/balance"),
    ]
    assert (pipeline.on_hosts(), pipeline.jobs[JOB].generation) == ({"h0": 1, "h1": 1}, 1)


def test_a_unit_moves_with_all_that_is_on_it() -> None:
    """Every task on it, and exactly its vnodes."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0)
    (command,) = pipeline.pass_minute().commands
    assert [(change.task, change.before, change.after, change.units) for change in command.changes] == [
        ("map", 2, 2, (4, 1)),
        ("join", 2, 2, (4, 1)),
    ]
    assert [change.vnodes_moved for change in command.changes] == [0, 128]


def test_the_reason_of_a_move_is_told() -> None:
    """In the look, in the outcome, and in the command's placement."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0)
    effects = pipeline.pass_minute()
    (look,), (command,) = effects.balances, effects.commands
    assert (look.status, look.reason) == ("moving", "out_of_band")
    assert [(move.job, move.unit, move.host, move.to_unit, move.to_host) for move in look.moves] == [(JOB, 0, "h0", 4, "h1")]
    assert (only(effects).status, only(effects).detail) == ("commanded", "hosts changed: 1 unit goes to h1")
    assert command.placement is not None
    assert (command.placement.algorithm, command.placement.hosts) == ("spread", ("h0", "h1"))


def test_only_so_many_units_are_on_their_way_at_one_time() -> None:
    """Two of three; the third goes when these have arrived."""
    pipeline = spread((0, 1, 2, 3), balancing=Balancing(factor="0", units_max=1))
    pipeline.hosts = hosts(2, T0)
    pipeline.settle()
    assert pipeline.on_hosts() == {"h0": 2, "h1": 2}
    assert [len(look.moves) for look in pipeline.looks if look.moves] == [1, 1]


def test_a_job_that_rests_is_moved_after_its_rest() -> None:
    """The gate's cooldown holds for moves too; until it is over hosts are looked at each minute."""
    pipeline = spread(gate=GateSettings(cooldown_ms=150_000))
    pipeline.now_ms += MINUTE_MS
    (command,) = pipeline.decide({"map": 3}).commands
    pipeline.end(command)
    pipeline.hosts = hosts(2, pipeline.now_ms)
    assert [pipeline.pass_minute().balances[0].reason for _ in range(3)] == ["job_busy", "job_busy", "out_of_band"]


def test_version_1_moves_units_to_new_hosts_only() -> None:
    """A host that was empty before stays empty; the new one gets its share, rounded down."""
    pipeline = spread((0, 1, 2, 3), count=2, balancing=Balancing(version="V1", factor="0"))
    pipeline.hosts = hosts(3, T0)
    pipeline.settle()
    assert pipeline.on_hosts() == {"h0": 3, "h1": 0, "h2": 1}


def test_nothing_moves_when_balancing_is_off() -> None:
    """The look says that there is nothing to do."""
    pipeline = spread(balancing=Balancing(version="off"))
    pipeline.hosts = hosts(2, T0)
    (look,) = pipeline.pass_minute().balances
    assert (look.status, look.moves) == ("settled", ())


def test_a_wide_band_leaves_small_differences_alone() -> None:
    """By the default factor a host may have between half and twice its share."""
    pipeline = spread(balancing=Balancing())
    pipeline.hosts = hosts(2, T0)
    (look,) = pipeline.pass_minute().balances
    assert (look.status, look.reason) == ("settled", "balanced")


def test_where_placement_is_by_cost_units_go_where_it_pays() -> None:
    """A cheaper host takes the whole job; an equal one nothing."""
    for price, after in ((0.1, {"h0": 0, "h1": 2}), (1.0, {"h0": 2, "h1": 0})):
        pipeline = Pipeline(job(units=(0, 1)), prices=(1.0,))
        pipeline.hosts = hosts(2, T0, prices=(1.0, price))
        pipeline.settle()
        assert pipeline.on_hosts() == after


def test_a_second_job_moves_in_the_same_looks() -> None:
    """Load is that of all jobs; no unit is given twice."""
    pipeline = Pipeline(job(units=(0, 1)), job(OTHER_JOB, (2, 3)), **SPREAD)
    pipeline.hosts = hosts(2, T0)
    pipeline.settle()
    both = [pipeline.on_hosts(name) for name in (JOB, OTHER_JOB)]
    assert sum(each["h1"] for each in both) == 2


def test_a_job_that_is_only_watched_stays() -> None:
    """Its user has not allowed it to be moved."""
    pipeline = spread()
    pipeline.hosts, pipeline.mode = hosts(2, T0), "observe"
    effects = pipeline.pass_minute()
    assert (effects.commands, effects.balances[0].status) == ((), "settled")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_that_was_only_watched_is_moved_once_it_may_be(restarts: bool) -> None:
    """The hosts need not change again for it; another process knows of it too."""
    pipeline = spread()
    pipeline.hosts, pipeline.mode = hosts(2, T0), "observe"
    pipeline.settle()
    if restarts:
        pipeline.restart()
    pipeline.mode = "act"
    pipeline.settle()
    assert pipeline.on_hosts() == {"h0": 1, "h1": 1}


# Learners that are given up


def test_what_does_not_get_warm_is_not_moved_and_tried_elsewhere() -> None:
    """Dropped, never committed cold; the slow host is avoided, and another one takes the unit."""
    pipeline = spread()
    pipeline.hosts = hosts(3, T0)
    (prepare,) = pipeline.pass_minute().commands
    (abort,) = pipeline.end(prepare, "accepted").commands + pipeline.end(prepare, "failed", "WARM_UP_TIMEOUT").commands
    assert abort.action == "abort"
    pipeline.end(abort)
    pipeline.settle()
    assert [command.action for command in pipeline.commands] == ["prepare", "abort", "prepare", "commit"]
    assert pipeline.on_hosts() == {"h0": 1, "h1": 0, "h2": 1}


def test_an_engine_without_learners_is_never_asked_to_move_anything() -> None:
    """Its preparation is done at once and has warmed nothing: it is undone, and the hosts stay as they are."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0)
    (prepare,) = pipeline.pass_minute().commands
    pipeline.end(prepare, "accepted")
    (abort,) = pipeline.end(prepare, learners=0).commands
    pipeline.end(abort)
    pipeline.settle()
    assert (abort.action, pipeline.on_hosts()) == ("abort", {"h0": 2, "h1": 0})
    assert pipeline.control.memory[JOB].failures == 0


def test_a_destination_that_dies_as_its_learners_become_ready_is_given_up() -> None:
    """The commit would name a unit that is gone."""
    pipeline = spread()
    pipeline.hosts = hosts(2, T0)
    (prepare,) = pipeline.pass_minute().commands
    pipeline.end(prepare, "accepted")
    pipeline.hosts = hosts(2, pipeline.now_ms, without="h1")
    (abort,) = pipeline.end(prepare).commands
    assert abort.action == "abort"


def test_looks_without_end_are_given_up() -> None:
    """A job that is never free holds the hosts' generation open for four hours at most."""
    pipeline = spread()
    pipeline.decide({"map": 3})
    pipeline.hosts = hosts(2, T0)
    for _ in range(LOOKS_MAX + 5):
        memory = pipeline.control.memory[JOB]
        if memory.outstanding is None:
            pipeline.decide({"map": 3 if memory.desired_generation % 2 else 2})
        pipeline.pass_minute()
    assert pipeline.looks[-1].status == "settled"


# Stopped anywhere


@pytest.mark.parametrize("settings", [SPREAD, COPIED], ids=["spread", "standbys"])
def test_an_heir_goes_on_with_the_looks(settings: dict[str, object]) -> None:
    """Stopped after every minute, the same commands follow as without."""
    straight, stopped = (Pipeline(job(units=(0, 1, 2)), count=2, **settings) for _ in range(2))
    for pipeline in (straight, stopped):
        pipeline.hosts = hosts(3, T0)
        for _ in range(8):
            for memory in pipeline.control.memory.values():
                if memory.outstanding:
                    pipeline.end(memory.outstanding)
            pipeline.pass_minute()
            if pipeline is stopped:
                pipeline.restart()
    assert straight.commands == stopped.commands
    assert straight.looks == stopped.looks
    assert straight.looks[-1].status == "settled"


@pytest.mark.parametrize(("units_max", "moved"), [(1, 0), (0, 1)])
def test_units_on_their_way_to_an_avoided_host_count(units_max: int, moved: int) -> None:
    """One at a time over all jobs, wherever it goes; and the host that it leaves has one less."""
    pipeline = Pipeline(job(OTHER_JOB, (0, 1)), **SPREAD)
    pipeline.hosts = hosts(2, T0)
    (command,) = pipeline.pass_minute().commands
    busy = MovableJob(pipeline.jobs[OTHER_JOB], command, is_pending=False, is_free=False, standbys={}, units_of_others=frozenset)
    free = MovableJob(job(units=(2, 3)), None, is_pending=False, is_free=True, standbys={}, units_of_others=frozenset)
    settings = Balancing(factor="0", units_max=units_max)
    wanted = look([free, busy], hosts(3, T0).hosts, settings, PlacingSettings("spread"), avoided=("h1",))
    assert sum(map(len, wanted.moves.values())) == moved
