"""Learners in the simulated engine: state restored at a finite rate, warm and cold commits, hosts that die meanwhile."""

import pytest

from benchmarks.archive import load_job
from surescale.contracts.commands import Rescale, RescheduleCommand, TaskChange
from surescale.contracts.vnodes import uniform_counts
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.engine.learners import spread, to_restore
from surescale.simulation.errors import RunError
from surescale.simulation.model.costs import RestartCost, chosen_cost, with_learners
from tests.unit.simulation.cases import MINUTE, clarknet, cluster, command

NAME, JOB = "j_2521346", "sim/j_2521346"
SLOW = with_learners(restore_bytes_per_s=2**18)  # 15 MiB a minute; a stateful task has 64 MiB
HOSTS = [NewHost("a", 5), NewHost("b", 5), NewHost("c", 5)]


def slow(minutes: int = 60, **options: object) -> SimulatedCluster:
    """Return one job on the units of host a, whose hosts restore slowly."""
    load = clarknet()
    run = RunOptions(minutes=minutes, cost=SLOW, **options)  # type: ignore[arg-type]
    return SimulatedCluster([load_job(NAME, load)], load, run, hosts=HOSTS)


def moved(of: SimulatedCluster, unit: int, *, step: int = 0, action: str = "prepare", **changes: object) -> RescheduleCommand:
    """Return a command that gives every task one unit more."""
    tasks = [spec for spec in of.job(JOB).topology.tasks if spec.scalable]
    wider = tuple(TaskChange(task=spec.task, before=5, after=6, units=(*range(5), unit)) for spec in tasks)
    base: dict[str, object] = {
        "command_id": f"{JOB}#1.{step}",
        "step": step,
        "steps": step + 2,
        "action": action,
        "changes": wider,
    }
    return command(of, 6, **(base | changes))


def state(of: SimulatedCluster) -> Rescale:
    """Return how far the last command is."""
    rescale = of.job(JOB).rescale_at(of.now_ms)
    assert rescale is not None
    return rescale


def minutes_until_ready(of: SimulatedCluster) -> list[int]:
    """Let time pass until nothing warms up any more; return the lag in MiB at the end of each minute."""
    lags = []
    while state(of).state == "warming":
        of.advance(of.now_ms + MINUTE)
        lags.append(state(of).lag_bytes >> 20)
    return lags


def test_learners_restore_while_the_job_runs_on() -> None:
    """Three tasks' sixth of 64 MiB at 15 MiB a minute take three minutes; the lag shrinks, nothing stops."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    assert (state(of).state, state(of).learners, state(of).lag_bytes) == ("warming", 3, 3 * 42 * 262_144)
    lags = minutes_until_ready(of)
    assert lags == sorted(lags, reverse=True)
    assert (len(lags), state(of).state, of.job(JOB).topology.attempt) == (3, "done", 0)
    assert of.job(JOB).state_at(of.now_ms) == "running"


def test_a_commit_of_warm_state_costs_a_barrier() -> None:
    """One second instead of a minute; parallelism and generation change one whole minute after it came."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    minutes_until_ready(of)
    rescale = of.apply(moved(of, 5, step=1, action="commit"), of.now_ms)
    assert (rescale.effective_at_ms - of.now_ms, rescale.done_at_ms - rescale.effective_at_ms) == (MINUTE, 1_000)
    of.advance(rescale.effective_at_ms)
    assert (of.job(JOB).topology.generation, of.job(JOB).topology.tasks[1].units) == (1, (0, 1, 2, 3, 4, 5))


def test_a_commit_of_cold_state_costs_a_restart_and_what_is_missing() -> None:
    """Without learners a minute and three tasks' sixth at the host's rate: two minutes and six seconds, up to the next step."""
    of = slow()
    rescale = of.apply(moved(of, 5, action="commit"), of.now_ms)
    assert rescale.done_at_ms - rescale.effective_at_ms == MINUTE + 135_000


def test_what_learners_have_restored_is_not_restored_again() -> None:
    """Committed after one of three minutes, the job is down for a restart and the rest."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    rescale = of.apply(moved(of, 5, step=1, action="commit"), of.now_ms)
    of.advance(rescale.effective_at_ms)
    assert MINUTE < state(of).done_at_ms - rescale.effective_at_ms <= MINUTE + 15_000


def test_a_commit_that_moves_no_state_costs_a_barrier() -> None:
    """A stateless task is ready at once, and moves within a host copy nothing."""
    of = cluster(cost=SLOW)
    rescale = of.apply(command(of, {"M1": 7}), of.now_ms)
    assert rescale.done_at_ms - rescale.effective_at_ms == 1_000
    of.advance(rescale.done_at_ms)
    assert of.apply(command(of, {"M1": 5}, generation=2, action="prepare"), of.now_ms).state == "done"


def test_in_mode_restart_a_preparation_is_ready_at_once_and_warms_nothing() -> None:
    """The engine of old: every commit costs the restart."""
    of = cluster(cost=RestartCost())
    prepared = of.apply(command(of, 9, action="prepare", steps=2), of.now_ms)
    assert (prepared.state, prepared.done_at_ms, prepared.learners) == ("done", of.now_ms, 0)
    rescale = of.apply(command(of, 9, step=1, command_id="commit"), of.now_ms)
    assert rescale.done_at_ms - rescale.effective_at_ms == MINUTE


def test_learners_that_take_too_long_are_given_up_by_name() -> None:
    """At the command's deadline; the units that were behind are told, the job runs on and can be rescaled again."""
    of = slow()
    of.apply(moved(of, 5, deadline_ms=of.now_ms + 2 * MINUTE), of.now_ms)
    of.advance(of.start_ms + 2 * MINUTE)
    assert (state(of).state, state(of).code, state(of).units) == ("failed", "WARM_UP_TIMEOUT", (5,))
    assert (of.job(JOB).preparation, of.job(JOB).units) == (None, frozenset(range(5)))
    assert of.apply(moved(of, 10, step=1), of.now_ms).state == "warming"


@pytest.mark.parametrize("how", ["host_dies", "host_leaves"])
def test_a_learners_host_that_goes_takes_the_learner_along(how: str) -> None:
    """The active is untouched; the lost units are told."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    getattr(of, how)("b")
    assert (state(of).code, state(of).units) == ("LEARNER_LOST", (5,))
    assert (of.job(JOB).topology.attempt, of.job(JOB).state_at(of.now_ms)) == (0, "running")


def test_a_job_that_fails_over_gives_its_learners_up() -> None:
    """It restarts elsewhere from the last checkpoint: on one host, 3 x 64 MiB at a quarter MiB a second, in steps of 15 s."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    of.host_dies("a")
    topology = of.job(JOB).topology
    assert (state(of).code, topology.attempt, topology.generation) == ("JOB_FAILED_OVER", 1, 0)
    assert of.job(JOB).down_until_ms - of.now_ms == MINUTE + 780_000
    assert of.events[-1].detail == "host a lost; restored from a checkpoint on 5 units within 840 s"


def test_a_host_that_joins_while_learners_warm_up_disturbs_nobody() -> None:
    """Neither lag nor plan change."""
    quiet, joined = slow(), slow()
    for of in (quiet, joined):
        of.apply(moved(of, 5), of.now_ms)
        of.advance(of.start_ms + MINUTE)
        if of is joined:
            of.host_joins(NewHost("d", 5))
        of.advance(of.start_ms + 2 * MINUTE)
    assert state(quiet) == state(joined)


def test_hosts_share_their_rate_among_the_learners_of_all_jobs() -> None:
    """First come, first served: the second job's learner on the same host waits for the first one's."""
    load = clarknet()
    jobs = [load_job(name, load) for name in (NAME, "j_756953")]
    of = SimulatedCluster(jobs, load, RunOptions(cost=SLOW), hosts=[NewHost("a", 5), NewHost("b", 5), NewHost("c", 8)])
    of.apply(moved(of, 10), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    other = of.job("j_756953").topology.tasks
    wider = tuple(TaskChange(task=spec.task, before=5, after=6, units=(*spec.units, 11)) for spec in other if spec.scalable)
    asked = of.apply(command(of, 6, job="j_756953", changes=wider, action="prepare", steps=2), of.now_ms)
    of.advance(of.start_ms + 2 * MINUTE)
    assert of.job("j_756953").rescale_at(of.now_ms).lag_bytes >= asked.lag_bytes > 0  # type: ignore[union-attr]


def test_an_abort_drops_the_learners() -> None:
    """Their units are free again; nothing else has changed."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    done = of.apply(moved(of, 5, step=1, action="abort"), of.now_ms)
    assert (done.state, of.job(JOB).preparation, of.job(JOB).topology.version) == ("done", None, 1)


def test_units_of_learners_are_taken() -> None:
    """Another job cannot have them while they warm up."""
    of = slow()
    of.apply(moved(of, 5), of.now_ms)
    assert 5 in of.job(JOB).units


def test_the_same_preparation_again_gets_the_same_answer() -> None:
    """With the lag of now."""
    of = slow()
    first = of.apply(moved(of, 5), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    again = of.apply(moved(of, 5), of.now_ms)
    assert (again.command_id, again.state, again.lag_bytes < first.learners * 42 * 262_144) == (first.command_id, "warming", True)


def test_state_grows_with_the_records_served() -> None:
    """Sixty-four bytes a record, so that rows, samples and learners all see the same size."""
    of = slow()
    of.advance(of.start_ms + 10 * MINUTE)
    first, last = of.minutes_after(JOB, of.start_ms, 1)[0], of.minutes_after(JOB, of.now_ms - MINUTE, 1)[0]
    stateful = [index for index, spec in enumerate(last.topology.tasks) if spec.stateful]
    assert all(last.state_bytes[index] > first.state_bytes[index] == 256 * 262_144 for index in stateful)
    sampled = [each for each in of.samples(last) if each.task == last.topology.tasks[stateful[0]].task]
    assert sum(each.state_bytes for each in sampled if each.sampled_at_ms == of.now_ms) == last.state_bytes[stateful[0]]


def test_a_barrier_delays_records_by_less_than_its_length() -> None:
    """A second's pause is seen in the latency of its minute, and is small beside a restart's."""
    p99 = {}
    for mode in ("learners", "restart"):
        of = cluster(minutes=30, cost=chosen_cost(mode, MINUTE, 1e6))
        of.advance(of.start_ms + 5 * MINUTE)
        of.apply(command(of, 9, action="prepare", steps=2), of.now_ms)
        of.advance(of.now_ms + MINUTE)
        of.apply(command(of, 9, step=1, command_id="commit"), of.now_ms)
        of.advance(of.end_ms)
        p99[mode] = of.report(JOB).latency_p99_s
    calm = cluster(minutes=30)
    calm.advance(calm.end_ms)
    assert calm.report(JOB).latency_p99_s < p99["learners"] < calm.report(JOB).latency_p99_s + 1.0 < p99["restart"]


def test_checkpoints_are_taken_at_their_interval() -> None:
    """Completed while the job runs, failed while it restarts."""
    of = slow(checkpoint_interval_ms=2 * MINUTE)
    of.apply(moved(of, 5, action="commit"), of.now_ms)
    of.advance(of.start_ms + 6 * MINUTE)
    kinds = [(event.kind, (event.at_ms - of.start_ms) // MINUTE) for event in of.events if event.kind.startswith("checkpoint")]
    assert kinds == [("checkpoint_failed", 2), ("checkpoint_failed", 4), ("checkpoint_completed", 6)]


def test_the_busiest_host_dies_at_the_minute_asked_for() -> None:
    """And at no other."""
    of = slow(kill_host_minutes=(3,))
    of.advance(of.end_ms)
    lost = [(event.host, (event.at_ms - of.start_ms) // MINUTE) for event in of.events if event.kind == "host_lost"]
    assert lost == [("a", 3)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RestartCost(barrier_ms=MINUTE), "barrier_ms"),
        (lambda: RestartCost(restore_bytes_per_s=0), "restore_bytes_per_s"),
        (lambda: RestartCost(state_growth_max=0.5), "state_growth_max"),
        (lambda: slow(checkpoint_interval_ms=90_000), "checkpoint_interval_ms"),
    ],
)
def test_costs_that_cannot_be_are_refused(make: object, words: str) -> None:
    """The message names the field."""
    with pytest.raises(RunError, match=words):
        make()  # type: ignore[operator]


def test_moves_within_a_host_restore_nothing() -> None:
    """What units of a host give up goes to its other units first; what a dead unit held comes from elsewhere."""
    before = uniform_counts((0, 1, 2), 12)
    assert before == {0: 4, 1: 4, 2: 4}
    after = spread(before, (0, 3, 4), 12)
    assert after == {0: 4, 3: 4, 4: 4}
    assert to_restore(before, after, {0: "a", 1: "a", 2: "b", 3: "a", 4: "c"}) == {4: 4}
    assert to_restore(before, after, {0: "a", 3: "a", 4: "c"}) == {3: 4, 4: 4}
