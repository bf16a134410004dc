"""What a host's death costs in the simulated engine: records done again since the last checkpoint, or a take-over by standbys."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.contracts.commands import RescheduleCommand, SlotStandbys
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.errors import RunError
from surescale.simulation.model.costs import RestartCost, with_learners
from tests.unit.simulation.cases import MINUTE, chain, clarknet, column, command, rows, sized

NAME, JOB = "j_2521346", "sim/j_2521346"
HOSTS = [NewHost("a", 5), NewHost("b", 5), NewHost("c", 5)]
TWO_MIB = 2 * 2**20


def cluster(minutes: int = 40, *, interval: int | None = 10, hosts: list[NewHost] | None = None) -> SimulatedCluster:
    """Return one job on the units of host a, with a checkpoint every few minutes."""
    load = clarknet()
    options = RunOptions(
        minutes=minutes,
        cost=with_learners(restore_bytes_per_s=TWO_MIB),
        checkpoint_interval_ms=None if interval is None else interval * MINUTE,
    )
    return SimulatedCluster([load_job(NAME, load)], load, options, hosts=hosts or HOSTS)


def standby(of: SimulatedCluster, hosts: dict[int, tuple[str, ...]], generation: int = 1) -> RescheduleCommand:
    """Return a command that wants copies of units on hosts."""
    wanted = tuple(SlotStandbys(unit=unit, hosts=names) for unit, names in hosts.items())
    return command(of, {}, generation=generation, action="standby", standbys=wanted)


def copied(minutes: int = 40, hosts: list[NewHost] | None = None) -> SimulatedCluster:
    """Return the cluster after all five units have a complete copy on host b."""
    of = cluster(minutes, hosts=hosts)
    of.apply(standby(of, dict.fromkeys(range(5), ("b",))), of.now_ms)
    while not any(event.kind == "standbys_ready" for event in of.events):
        of.advance(of.now_ms + MINUTE)
    return of


def served(of: SimulatedCluster, after_ms: int) -> float:
    """Return the records that the first real task has served since a time."""
    return float(sum(minute.rows[1, 0] for minute in of.minutes_after(JOB, after_ms, 100)))


# Records done again


def test_a_failure_does_what_came_since_the_last_checkpoint_again() -> None:
    """Checkpoint at minute 10, death at 14: four minutes of records are served twice, and the event says how many."""
    of, calm = cluster(), cluster()
    for each in (of, calm):
        each.advance(each.start_ms + 14 * MINUTE)
    since = served(calm, calm.start_ms + 10 * MINUTE)
    of.host_dies("a")
    assert of.events[-1].detail.endswith(f"{int(since)} records are done again")
    for each in (of, calm):
        each.advance(each.end_ms)
    again = served(of, of.start_ms) - served(calm, calm.start_ms)
    assert again == pytest.approx(since, abs=2)


def test_records_done_again_count_in_the_latency() -> None:
    """The longer ago the last checkpoint, the more records wait."""
    latency = []
    for interval in (1, 10, 20):
        of = cluster(60, interval=interval)
        of.advance(of.start_ms + 19 * MINUTE)
        of.host_dies("a")
        of.advance(of.end_ms)
        latency.append(of.report(JOB).latency_mean_s)
    assert latency == sorted(latency)
    assert latency[0] < latency[1] < latency[2]


def test_a_rescale_is_a_checkpoint_too() -> None:
    """What was done before its barrier is never done again."""
    of = cluster()
    of.apply(command(of, 5, changes=(command(of, {"M1": 4}).changes)), of.now_ms)
    of.advance(of.start_ms + 5 * MINUTE)
    since = served(of, of.start_ms + MINUTE)
    of.host_dies("a")
    assert of.events[-1].detail.endswith(f"{int(since)} records are done again")


def test_a_checkpoint_at_the_time_of_the_death_fails() -> None:
    """It would need an answer of the host that is gone: the one before it counts."""
    load = clarknet()
    options = RunOptions(minutes=30, checkpoint_interval_ms=5 * MINUTE, kill_host_minutes=(10,))
    of = SimulatedCluster([load_job(NAME, load)], load, options, hosts=HOSTS)
    of.advance(of.start_ms + 10 * MINUTE)
    assert [event.kind for event in of.events[-3:]] == ["host_lost", "job_restarted", "checkpoint_failed"]
    assert "records are done again" in of.events[-2].detail


def test_without_checkpoints_nothing_is_lost() -> None:
    """As policies were trained: a failure is a restart and nothing more."""
    of = cluster(interval=None)
    of.advance(of.start_ms + 14 * MINUTE)
    of.host_dies("a")
    assert "done again" not in of.events[-1].detail


def test_rewinding_brings_back_what_waited_and_what_entered() -> None:
    """Ten records waited at the checkpoint and thirty entered since: forty are ahead, whatever had been served."""
    flow = rows(sized(chain(1.0)), 1)
    flow.advance(column(110))
    flow.keep()
    flow.advance(column(30))
    before = flow.advance(column(0)).rows[0, 0, 1]
    again = flow.rewind()
    flow.restart(flow.parallelism, 0, np.ones(1, dtype=np.bool_))
    after = flow.advance(column(0)).rows[0, 0, 1]
    assert (int(again[0]), int(before[0]), int(after[0])) == (40, 0, 40)


def test_rewinding_without_a_checkpoint_changes_nothing() -> None:
    """There is nothing to go back to."""
    flow = rows(sized(chain(1.0)), 1)
    flow.advance(column(110))
    assert flow.rewind().tolist() == [0.0]


# Standbys


def test_standbys_take_over_with_a_short_pause() -> None:
    """Nothing is restored and nothing done again: ten seconds, on the units of the copies' host."""
    of = copied()
    of.host_dies("a")
    job = of.job(JOB)
    assert of.events[-1].detail == "host a lost; taken over by standbys on 5 units within 10 s"
    assert job.down_until_ms - of.now_ms == RestartCost().takeover_ms
    assert {spec.units for spec in job.topology.tasks if spec.scalable} == {(5, 6, 7, 8, 9)}


def test_a_take_over_costs_less_than_a_restart() -> None:
    """Mean latency over the run, beside the same death without standbys."""
    latency = {}
    for name, of in (("standbys", copied(60)), ("none", cluster(60))):
        of.advance(of.start_ms + 14 * MINUTE)
        of.host_dies("a")
        of.advance(of.end_ms)
        latency[name] = of.report(JOB).latency_mean_s
    assert latency["standbys"] < latency["none"] / 2


def test_copies_are_restored_at_the_hosts_rate_and_follow_the_owner() -> None:
    """Three tasks of 64 MiB at 2 MiB a second take two minutes; what owners write meanwhile is copied too."""
    of = cluster()
    of.apply(standby(of, dict.fromkeys(range(5), ("b",))), of.now_ms)
    lags = []
    for _ in range(3):
        of.advance(of.now_ms + MINUTE)
        lags.append(sum(copy.lag_bytes for copy in of.job(JOB).standbys.copies))
    assert 192 * 2**20 > lags[0] > 60 * 2**20
    assert lags[1] < 2**20
    assert [(event.kind, event.job) for event in of.events if event.kind == "standbys_ready"] == [("standbys_ready", JOB)]


def test_a_standby_that_is_not_ready_does_not_take_over() -> None:
    """The job restarts from its checkpoint, like without one."""
    of = cluster()
    of.apply(standby(of, dict.fromkeys(range(5), ("b",))), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    of.host_dies("a")
    assert "restored from a checkpoint" in of.events[-1].detail


def test_a_standby_needs_a_free_unit_on_its_host() -> None:
    """Host b has three units: three take over, and the job restarts for the other two."""
    of = copied(hosts=[NewHost("a", 5), NewHost("b", 3), NewHost("c", 5)])
    of.host_dies("a")
    assert set(of.job(JOB).units) == {5, 6, 7, 8, 9}
    assert "restored from a checkpoint" in of.events[-1].detail


def test_a_standby_becomes_a_learner_that_is_ready_at_once() -> None:
    """A unit that moves to the host of its copy has nothing to restore."""
    of = copied()
    moved = tuple(
        change.__class__(task=change.task, before=5, after=5, units=(5, 1, 2, 3, 4)) for change in command(of, 5).changes
    )
    prepared = of.apply(command(of, 5, generation=2, action="prepare", steps=2, changes=moved), of.now_ms)
    assert (prepared.state, prepared.learners) == ("done", 0)


@pytest.mark.parametrize("how", ["host_dies", "host_leaves"])
def test_copies_on_a_host_that_goes_are_gone(how: str) -> None:
    """The job does not notice."""
    of = copied()
    getattr(of, how)("b")
    assert (of.job(JOB).standbys.copies, of.job(JOB).topology.attempt) == ([], 0)


def test_copies_of_units_that_a_job_gives_up_are_dropped() -> None:
    """Those of the units that stay grow by what these take on."""
    of = copied()
    of.apply(command(of, 4, generation=2), of.now_ms)
    of.advance(of.now_ms + 4 * MINUTE)
    assert sorted(of.job(JOB).standbys.hosts) == [0, 1, 2, 3]
    assert {copy.vnodes for copy in of.job(JOB).standbys.copies} == {64}


@pytest.mark.parametrize(
    ("hosts", "code"),
    [({9: ("b",)}, "UNKNOWN_PARALLEL_UNIT"), ({0: ("z",)}, "UNKNOWN_HOST"), ({0: ("a",)}, "INVALID_COMMAND")],
)
def test_standbys_that_cannot_be_are_refused(hosts: dict[int, tuple[str, ...]], code: str) -> None:
    """By code; nothing has changed."""
    of = cluster()
    with pytest.raises(EngineRefusal) as refusal:
        of.apply(standby(of, hosts), of.now_ms)
    assert (refusal.value.code, of.job(JOB).standbys.hosts) == (code, {})


def test_a_host_joins_at_the_minute_asked_for() -> None:
    """Of the kind whose turn it is, under a name of its own."""
    load = clarknet()
    options = RunOptions(minutes=30, join_host_minutes=(4, 9))
    of = SimulatedCluster([load_job(NAME, load)], load, options)
    before = {host.host for host in of.topology().hosts}
    of.advance(of.end_ms)
    joined = [(event.host, (event.at_ms - of.start_ms) // MINUTE) for event in of.events if event.kind == "host_joined"]
    assert [minute for _, minute in joined] == [4, 9]
    assert not before & {host for host, _ in joined}


def test_a_join_outside_the_run_is_refused() -> None:
    """By the name of the option."""
    with pytest.raises(RunError, match="join_host"):
        SimulatedCluster([load_job(NAME, clarknet())], clarknet(), RunOptions(minutes=30, join_host_minutes=(31,)))


def test_a_second_death_does_not_cut_a_restore_short() -> None:
    """Four units restore for 225 s when the host of the fifth dies, whose own restart takes 105 s."""
    load, hosts = clarknet(), [NewHost("a", 4), NewHost("b", 1), NewHost("c", 5)]
    of = SimulatedCluster(
        [load_job(NAME, load)], load, RunOptions(minutes=40, cost=with_learners(restore_bytes_per_s=2**20)), hosts=hosts
    )
    of.host_dies("a")
    runs_again_ms = of.job(JOB).down_until_ms
    of.advance(of.start_ms + MINUTE)
    of.host_dies("b")
    assert runs_again_ms - of.start_ms == 225_000
    assert of.job(JOB).down_until_ms == runs_again_ms
    of.advance(of.start_ms + 4 * MINUTE)
    assert of.job(JOB).ledger.busy_minutes[2] == 0.0


def test_that_all_copies_are_ready_is_said_once_whatever_the_units_are_called() -> None:
    """Unit 0 has a copy as any other; a host that joins and leaves changes nothing for it."""
    of = copied()
    of.host_joins(NewHost("d", 1))
    of.host_leaves("d")
    of.advance(of.now_ms + 2 * MINUTE)
    assert [event.kind for event in of.events].count("standbys_ready") == 1
