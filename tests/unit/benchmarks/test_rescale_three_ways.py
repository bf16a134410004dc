"""The same rescale by restart, cold, and by learners: what each costs in the simulated engine."""

import json

import pytest
from click.testing import CliRunner

from benchmarks.archive import load_job, where
from benchmarks.rescale_three_ways import command as bench_rescale
from benchmarks.rescale_three_ways.changes import drained, first_round, may_commit, wider
from benchmarks.rescale_three_ways.command import command, holds
from benchmarks.rescale_three_ways.delays import delays
from benchmarks.rescale_three_ways.rescale import SCENARIOS, Comparison, compare
from surescale.contracts.messages import Host, JobTopology, TaskSpec
from surescale.simulation.load.workload import load_workload

HOSTS = (
    Host(host="a", units=(0, 1), state="removed_soon"),
    Host(host="b", units=(2, 3, 4, 5)),
    Host(host="c", units=(6, 7, 8, 9)),
)
JOB = JobTopology(
    job="sim/twin",
    version=1,
    at_ms=0,
    tasks=(
        TaskSpec(task="source", scalable=False, units=(0,)),
        TaskSpec(task="map", upstream=("source",), parallelism=3, units=(0, 1, 2)),
        TaskSpec(task="count", upstream=("map",), parallelism=3, units=(0, 1, 2), stateful=True),
    ),
)


@pytest.fixture(scope="module", params=SCENARIOS)
def comparison(request: pytest.FixtureRequest) -> Comparison:
    """Each scenario on the job of 16 tasks."""
    load = load_workload("clarknet")
    return compare(load_job("j_1351665", load), load, request.param)


def test_learners_let_no_task_wait_for_state(comparison: Comparison) -> None:
    """All moved state is restored before the barrier, and the 99th percentile of latency does not grow."""
    learners = next(outcome for outcome in comparison.outcomes if outcome.way == "learners")
    assert (learners.pause_ms, learners.own_ms) == (1_000, ())
    assert comparison.p99_s(learners) <= 1.1 * comparison.path_s
    assert holds(comparison)


def test_each_way_pauses_for_what_it_restores(comparison: Comparison) -> None:
    """A restart restores all state, a cold move only state that changes hosts; both stand still until the last host is done."""
    restart, cold, learners = comparison.outcomes
    assert restart.moved_bytes > cold.moved_bytes > 0
    assert learners.moved_bytes >= cold.moved_bytes
    assert restart.pause_ms - 60_000 >= max(restart.own_ms) > restart.pause_ms - 75_000
    assert cold.pause_ms >= max(cold.own_ms) > cold.pause_ms - 15_000
    assert restart.delays.delayed > cold.delays.delayed > learners.delays.delayed


def test_waiting_agrees_with_the_simulators_own(comparison: Comparison) -> None:
    """By Little's law, record-seconds waited equal the simulator's integrated backlog, for a pause much longer than its steps."""
    long = [outcome for outcome in comparison.outcomes if outcome.pause_ms >= 60_000]
    assert long
    for outcome in long:
        assert outcome.delays.record_seconds == pytest.approx(60 * outcome.backlog_minutes, rel=0.03), outcome.way


def test_a_pause_delays_what_enters_in_it_and_until_it_is_caught_up() -> None:
    """At half load a job catches up in as much time as the pause took: the first record waits all of it, the last none."""
    found = delays([600.0] * 10, served_before=1200.0, served_after=1200.0, pause_from_ms=60_000, pause_ms=30_000)
    assert found.delayed == pytest.approx(600, rel=0.01)
    assert found.settled_ms == pytest.approx(120_000, abs=200)
    assert found.waits_ms.max() == pytest.approx(30_000, abs=100)
    assert found.record_seconds == pytest.approx(600 * 15, rel=0.01)
    assert found.p99_s(2.0, 600_000) == pytest.approx(2 + 27.0, abs=0.2)


def test_without_a_pause_nobody_waits() -> None:
    """Under a load below the job's capacity no record waits."""
    found = delays([600.0, 1100.0], served_before=1200.0, served_after=1200.0, pause_from_ms=0, pause_ms=0)
    assert (found.delayed, found.settled_ms, found.p99_s(2.0, 120_000)) == (0.0, 0, 2.0)


def test_a_drain_leaves_the_host_and_keeps_the_parallelism() -> None:
    """Every subtask of the host moves to a separate unit elsewhere; the others stay."""
    moves = first_round(JOB, HOSTS)
    assert sorted(moves) == [("count", 0), ("count", 1), ("map", 0), ("map", 1)]
    for change in drained(JOB, HOSTS, moves):
        assert change.before == change.after == len(set(change.units)) == 3
        assert set(change.units) & {0, 1} == set()
        assert 2 in change.units
        assert change.removed_units == (0, 1)


def test_learners_take_over_only_when_all_are_ready() -> None:
    """One learner that lags blocks the commit."""
    moves = first_round(JOB, HOSTS)
    assert may_commit(JOB, HOSTS, moves, {("count", 0): 100, ("count", 1): 100}, ready=100)
    assert not may_commit(JOB, HOSTS, moves, {("count", 0): 100, ("count", 1): 101}, ready=100)


def test_wider_gives_each_task_one_subtask_more() -> None:
    """Tasks of fixed parallelism are left out."""
    hosts = tuple(Host(host=host.host, units=host.units) for host in HOSTS)
    assert [(change.task, change.before, change.after) for change in wider(JOB, hosts)] == [("map", 3, 4), ("count", 3, 4)]


def test_the_command_compares_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON has the figures of each way; the exit code says whether learners stayed within their bound."""
    answer = CliRunner().invoke(command, ["--job", where("j_1351665"), "--scenario", "wider", "--json"], catch_exceptions=False)
    (found,) = json.loads(answer.output)["rescales"]
    assert (answer.exit_code, found["tasks"], list(found["ways"])) == (0, 16, ["restart", "cold", "learners"])
    assert found["ways"]["learners"]["p99_ratio"] <= 1.1 < found["ways"]["restart"]["p99_ratio"]
    monkeypatch.setattr(bench_rescale, "P99_RATIO_MAX", 0.5)
    assert CliRunner().invoke(command, ["--job", where("j_1351665"), "--scenario", "wider"]).exit_code == 1
