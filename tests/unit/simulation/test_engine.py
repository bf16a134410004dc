"""The simulated engine: commands, generations, restarts, hosts that join, leave and die."""

import math

import msgspec
import pytest

from benchmarks.archive import load_job
from surescale.contracts.commands import TaskChange
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.errors import RunError
from surescale.simulation.model.costs import RestartCost
from tests.unit.simulation.cases import MINUTE, clarknet, cluster, command

JOB = "sim/j_2521346"


def refused(of: SimulatedCluster, *arguments: object, **changes: object) -> str:
    """Return the code with which a command is refused."""
    with pytest.raises(EngineRefusal) as refusal:
        of.apply(command(of, *arguments, **changes), of.now_ms)  # type: ignore[arg-type]
    return refusal.value.code


def widths(of: SimulatedCluster, job: str = JOB) -> list[int]:
    """Return the parallelism of every task."""
    return [spec.parallelism for spec in of.job(job).topology.tasks]


def kinds(of: SimulatedCluster) -> list[str]:
    """Return what happened."""
    return [event.kind for event in of.events]


def test_a_command_takes_effect_one_whole_minute_later_and_costs_a_restart() -> None:
    """Accepted within minute 3, it takes effect at the end of minute 4 and is done one minute after."""
    of = cluster()
    of.advance(of.start_ms + 2 * MINUTE + 500)
    rescale = of.apply(command(of, 4), of.now_ms)
    assert (rescale.effective_at_ms - of.start_ms, rescale.done_at_ms - of.start_ms) == (4 * MINUTE, 5 * MINUTE)


def test_the_job_changes_exactly_when_the_command_takes_effect() -> None:
    """Parallelism, generation, version and attempt together; the minute before still ran as it was."""
    of = cluster()
    of.apply(command(of, 4), of.now_ms)
    of.advance(of.start_ms + MINUTE - 1)
    before = of.job(JOB).topology
    of.advance(of.start_ms + MINUTE)
    after = of.job(JOB).topology
    assert (before.generation, before.version, before.attempt, widths(of)) == (0, 1, 0, [1, 4, 4, 4, 4, 1])
    assert (after.generation, after.version, after.attempt, after.at_ms) == (1, 2, 1, of.start_ms + MINUTE)
    assert of.minutes_after(JOB, of.start_ms, 1)[0].topology == before


@pytest.mark.parametrize(("restart_ms", "told"), [(15_000, None), (MINUTE, None), (5 * MINUTE, 5 * MINUTE)])
def test_a_restart_longer_than_the_shipped_minute_is_told_from_the_first_on(restart_ms: int, told: int | None) -> None:
    """Policies believe in a minute until they hear otherwise."""
    of = cluster(cost=RestartCost(restart_ms=restart_ms))
    for generation in (1, 2):
        before = of.job(JOB).topology.restart_ms
        of.apply(command(of, 4 + generation, generation=generation), of.now_ms)
        of.advance(of.now_ms + 10 * MINUTE)
        assert of.job(JOB).topology.restart_ms == told
        assert before == (None if generation == 1 else told)


def test_a_rescale_goes_from_pending_over_restarting_to_done() -> None:
    """As an actuator sees it."""
    of = cluster()
    of.apply(command(of, 4), of.now_ms)
    states = []
    for at_ms in (0, MINUTE, 2 * MINUTE - 1, 2 * MINUTE):
        of.advance(of.start_ms + at_ms)
        rescale = of.job(JOB).rescale_at(of.now_ms)
        assert rescale is not None
        states.append((rescale.state, of.job(JOB).state_at(of.now_ms)))
    assert states == [("pending", "running"), ("restarting", "restarting"), ("restarting", "restarting"), ("done", "running")]


def test_the_same_command_again_changes_nothing() -> None:
    """Also when it has long been carried out."""
    of = cluster()
    asked = command(of, 4)
    first = of.apply(asked, of.now_ms)
    of.advance(of.start_ms + 5 * MINUTE)
    again = of.apply(asked, of.now_ms)
    assert (again.effective_at_ms, again.done_at_ms) == (first.effective_at_ms, first.done_at_ms)
    assert of.job(JOB).topology.attempt == 1


@pytest.mark.parametrize("generation", [1, 2])
def test_a_lower_or_equal_generation_is_stale(generation: int) -> None:
    """By another command, that is."""
    of = cluster()
    of.apply(command(of, 4, generation=2), of.now_ms)
    of.advance(of.start_ms + 5 * MINUTE)
    assert refused(of, 3, generation=generation, command_id="another") == "STALE_GENERATION"


def test_a_generation_far_ahead_is_refused_and_the_next_ones_are_not() -> None:
    """One command cannot use up the generations of a job."""
    of = cluster()
    assert refused(of, 3, generation=2**53) == "INVALID_COMMAND"
    of.apply(command(of, 3, generation=1), of.now_ms)


def test_a_further_step_of_the_same_generation_is_accepted() -> None:
    """A command may have several steps."""
    of = cluster()
    of.apply(command(of, 4, steps=2), of.now_ms)
    of.advance(of.start_ms + 5 * MINUTE)
    of.apply(command(of, 3, step=1, steps=2, command_id="second step"), of.now_ms)
    of.advance(of.start_ms + 6 * MINUTE)
    assert widths(of) == [1, 3, 3, 3, 3, 1]


def test_one_rescale_at_a_time() -> None:
    """A newer command is refused until the former one is done."""
    of = cluster()
    of.apply(command(of, 4), of.now_ms)
    assert refused(of, {"M1": 3}, generation=2) == "RESCALE_IN_PROGRESS"
    of.advance(of.start_ms + 2 * MINUTE)
    of.apply(command(of, {"M1": 3}, generation=2), of.now_ms)


def test_bad_changes_are_refused_by_code() -> None:
    """Nothing has been changed after any of them."""
    of = cluster()
    change = TaskChange(task="M1", before=5, after=2, units=(0, 1))
    cases = {
        "UNKNOWN_TASK": msgspec.structs.replace(change, task="M9"),
        "NOT_SCALABLE": TaskChange(task="source", before=1, after=1, units=(0,)),
        "BASE_CHANGED": msgspec.structs.replace(change, before=4),
        "PARALLELISM_OUT_OF_RANGE": msgspec.structs.replace(change, after=11, units=()),
        "INVALID_COMMAND": msgspec.structs.replace(change, units=(0, 0)),
        "UNKNOWN_PARALLEL_UNIT": msgspec.structs.replace(change, units=(0, 999)),
    }
    assert {code: refused(of, 5, changes=(bad,)) for code, bad in cases.items()} == {code: code for code in cases}
    assert refused(of, 5, changes=(change, change)) == "INVALID_COMMAND"
    assert (of.job(JOB).rescale, of.job(JOB).topology.version) == (None, 1)


def test_jobs_do_not_share_units() -> None:
    """A unit that another job holds, or will hold, is occupied."""
    of = cluster("j_2521346", "j_756953")
    held = sorted(of.job("j_756953").units)
    change = TaskChange(task="M1", before=5, after=5, units=tuple(held[:5]))
    assert refused(of, 5, changes=(change,)) == "UNIT_OCCUPIED"
    of.apply(command(of, 10), of.now_ms)
    wanted = sorted(of.job(JOB).units - {0, 1, 2, 3, 4})[:1]
    other = TaskChange(task="M1", before=5, after=6, units=(*held, *wanted))
    assert refused(of, 5, job="j_756953", changes=(other,)) == "UNIT_OCCUPIED"


def test_units_named_by_a_command_are_taken_as_they_are() -> None:
    """In the order of subtask index; source and sink stay within the job's units."""
    of = cluster()
    changes = tuple(
        TaskChange(task=spec.task, before=5, after=2, units=(20, 9)) for spec in of.job(JOB).topology.tasks if spec.scalable
    )
    of.apply(command(of, 2, changes=changes), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    assert [spec.units for spec in of.job(JOB).topology.tasks] == [(9,), *[(20, 9)] * 4, (9,)]


def test_without_units_the_engine_keeps_those_it_has() -> None:
    """A wider task gets the job's own units first, then free ones."""
    of = cluster()
    of.apply(command(of, {"M1": 7}), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    assert of.job(JOB).topology.tasks[1].units == (0, 1, 2, 3, 4, 5, 6)


def test_a_job_needs_as_many_units_as_its_widest_task() -> None:
    """Tasks of one sharing group share units."""
    assert cluster().job(JOB).units == frozenset(range(5))


def test_the_default_hosts_let_every_job_reach_its_greatest_width() -> None:
    """And any one host may die."""
    of = cluster("j_2521346", "j_756953", "j_1351665")
    hosts = of.topology().hosts
    units = sum(len(host.units) for host in hosts)
    assert units - max(len(host.units) for host in hosts) >= 30
    assert {(host.cpu_cores, host.memory_gb, host.price_per_s) for host in hosts} == {
        (4.0, 8.0, 2.417e-3),
        (8.0, 12.0, 4.861e-3),
        (12.0, 16.0, 7.778e-3),
    }


def test_unit_ids_are_never_used_again() -> None:
    """A host that comes back gets fresh ones."""
    of = cluster()
    of.host_dies("m1")
    host = of.host_joins(NewHost("m1", 4))
    assert min(host.units) > max(unit for other in of.topology().hosts[:-1] for unit in other.units)


def test_a_host_that_dies_takes_its_subtasks_along() -> None:
    """The job restarts on other units at the same parallelism; the generation stays."""
    of = cluster()
    of.advance(of.start_ms + 5 * MINUTE)
    of.host_dies("m1")
    topology = of.job(JOB).topology
    assert (topology.attempt, topology.generation, widths(of)) == (1, 0, [1, 5, 5, 5, 5, 1])
    assert not {0, 1, 2, 3} & of.job(JOB).units
    assert (of.job(JOB).state_at(of.now_ms), kinds(of)[-2:]) == ("restarting", ["host_lost", "job_restarted"])


def test_a_death_within_a_minute_takes_effect_at_its_end() -> None:
    """So that figures do not depend on how time is cut."""
    of = cluster()
    of.advance(of.start_ms + 90_000)
    assert of.host_dies("m1") == of.start_ms + 2 * MINUTE == of.host_dies("m1")
    assert of.job(JOB).topology.attempt == 0
    of.advance(of.start_ms + 2 * MINUTE)
    assert of.job(JOB).topology.attempt == 1


def test_a_death_elsewhere_does_not_disturb_a_job() -> None:
    """None of its subtasks ran there."""
    of = cluster()
    of.host_dies("xl1")
    assert of.job(JOB).topology.attempt == 0


def test_a_command_whose_units_die_before_it_takes_effect_fails() -> None:
    """The job continues unchanged."""
    of = cluster()
    changes = (TaskChange(task="M1", before=5, after=1, units=(20,)),)
    of.apply(command(of, 1, changes=changes), of.now_ms)
    of.host_dies("xl1")
    of.advance(of.start_ms + MINUTE)
    rescale = of.job(JOB).rescale_at(of.now_ms)
    assert rescale is not None
    assert (rescale.state, rescale.code, widths(of)) == ("failed", "UNIT_LOST", [1, 5, 5, 5, 5, 1])


def test_too_few_units_left_make_a_job_narrower() -> None:
    """Three units are left for a parallelism of five."""
    load = clarknet()
    of = SimulatedCluster([load_job("j_2521346", load)], load, hosts=[NewHost("a", 3), NewHost("b", 3)])
    of.host_dies("b")
    assert widths(of) == [1, 3, 3, 3, 3, 1]


def test_a_job_without_any_unit_waits_until_it_is_started() -> None:
    """A host that joins does not start it, a command does; nothing reports meanwhile, and what entered is served afterwards."""
    load = clarknet()
    of = SimulatedCluster([load_job("j_2521346", load)], load, hosts=[NewHost("a", 5)])
    of.host_dies("a")
    of.advance(of.start_ms + 2 * MINUTE)
    assert (of.job(JOB).topology.state, of.samples(of.minutes_after(JOB, of.start_ms, 1)[0])) == ("waiting", [])
    of.host_joins(NewHost("b", 4))
    of.advance(of.start_ms + 3 * MINUTE)
    assert of.job(JOB).is_waiting
    assert refused(of, 4, action="prepare") == "JOB_WAITING"
    assert refused(of, {"M1": 4}) == "INVALID_COMMAND"
    of.apply(command(of, 4), of.now_ms)
    of.advance(of.start_ms + 60 * MINUTE)
    assert (of.job(JOB).topology.state, widths(of)) == ("running", [1, 4, 4, 4, 4, 1])
    assert "job_stopped" in kinds(of)
    assert of.report(JOB).parallelism[:5] == (0, 0, 0, 0, 16)


def test_a_host_that_will_be_removed_gets_no_new_subtasks() -> None:
    """The engine's own choice avoids it."""
    of = cluster()
    of.host_leaves("l1")
    of.host_leaves("l1")
    of.apply(command(of, {"M1": 7}), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    assert of.job(JOB).topology.tasks[1].units == (0, 1, 2, 3, 4, 12, 13)
    assert kinds(of).count("host_leaving") == 1


def test_unknown_names_are_refused() -> None:
    """Jobs and hosts."""
    of = cluster()
    with pytest.raises(EngineRefusal, match="there is no job 'x'"):
        of.job("x")
    with pytest.raises(EngineRefusal, match="there is no host 'x'"):
        of.host_dies("x")
    with pytest.raises(EngineRefusal, match="has already joined"):
        of.host_joins(NewHost("m1", 4))
    with pytest.raises(EngineRefusal, match="1 to 1000 units"):
        of.host_joins(NewHost("new", 0))


def test_a_checkpoint_completes_while_a_job_runs() -> None:
    """During a restart it fails."""
    of = cluster()
    assert of.checkpoint(JOB).kind == "checkpoint_completed"
    of.apply(command(of, 4), of.now_ms)
    of.advance(of.start_ms + MINUTE)
    assert of.checkpoint(JOB).kind == "checkpoint_failed"


def test_state_that_moves_is_restored_at_a_finite_rate() -> None:
    """Units 5 and 6 lie on the host of unit 4, which gives 15 of their 72 nodes; three tasks' 57 at a megabyte a second: 45 s."""
    cost = RestartCost(restart_ms=15_000, restore_bytes_per_s=1e6)
    of = cluster(cost=cost)
    rescale = of.apply(command(of, 7), of.now_ms)
    assert rescale.done_at_ms - rescale.effective_at_ms == 15_000 + 45_000


def test_numbers_do_not_depend_on_how_time_is_cut() -> None:
    """One call, or many that end within minutes."""
    at_once, in_pieces = cluster(minutes=30), cluster(minutes=30)
    for of, pause in ((at_once, 5 * MINUTE), (in_pieces, 7_000)):
        of.advance(of.start_ms + 5 * MINUTE)
        of.apply(command(of, 3), of.now_ms)
        while not of.is_finished:
            of.advance(of.now_ms + pause)
    rows = [[minute.rows.tobytes() for minute in of.minutes_after(JOB, 0, 100)] for of in (at_once, in_pieces)]
    assert rows[0] == rows[1]
    assert at_once.report(JOB) == in_pieces.report(JOB)


def test_minutes_are_handed_out_in_order_after_a_time() -> None:
    """At most the limit, the oldest first."""
    of = cluster()
    of.advance(of.start_ms + 10 * MINUTE)
    found = of.minutes_after(JOB, of.start_ms + 3 * MINUTE, 2)
    assert [minute.minute_end_ms - of.start_ms for minute in found] == [4 * MINUTE, 5 * MINUTE]
    assert of.minutes_after(JOB, of.start_ms + 10 * MINUTE, 2) == []


def test_time_ends_with_the_run() -> None:
    """And never goes back."""
    of = cluster(minutes=3)
    assert of.advance(of.end_ms + MINUTE) == 3
    assert (of.now_ms, of.is_finished) == (of.end_ms, True)
    with pytest.raises(AssertionError):
        of.advance(of.start_ms)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(minutes=0), "minutes must be at least 1"),
        (RunOptions(start_minute=20_000, minutes=500), "lower --minutes or --start-minute"),
        (RunOptions(sample_interval_ms=20_000), "sample_interval_ms must be one of"),
        (RunOptions(sample_interval_ms=0), "sample_interval_ms must be one of"),
        (RunOptions(sample_interval_ms=-15_000), "sample_interval_ms must be one of"),
    ],
)
def test_a_run_that_cannot_be_is_refused(options: RunOptions, words: str) -> None:
    """The message names the option."""
    load = clarknet()
    with pytest.raises(RunError, match=words):
        SimulatedCluster([load_job("j_2521346", load)], load, options)


def test_a_job_that_is_listed_twice_or_does_not_fit_is_refused() -> None:
    """Names are unique in a cluster; five units are needed to start."""
    load = clarknet()
    job = load_job("j_2521346", load)
    with pytest.raises(RunError, match="listed twice"):
        SimulatedCluster([job, job], load)
    with pytest.raises(RunError, match="needs 5 units to start, 4 are free"):
        SimulatedCluster([job], load, hosts=[NewHost("a", 4)])


def test_a_run_longer_than_the_rest_of_the_trace_starts_earlier() -> None:
    """Unless the start was asked for."""
    load = clarknet()
    of = SimulatedCluster([load_job("j_2521346", load)], load, RunOptions(minutes=10_000))
    assert of.end_ms == load.minute_start_ms(load.minutes)


@pytest.mark.parametrize("rate", [0.01, math.inf, math.nan])
def test_a_restore_that_never_or_always_ends_is_refused(rate: float) -> None:
    """Less than a byte a minute, or infinite: useless in arithmetic."""
    with pytest.raises(RunError, match="restore_bytes_per_s must be"):
        RestartCost(restore_bytes_per_s=rate)


@pytest.mark.parametrize(
    "new",
    [
        NewHost("n" * 257, 1),
        NewHost("new", 1, cpu_cores=0.0),
        NewHost("new", 1, memory_gb=-1.0),
        NewHost("new", 1, price_per_s=-0.1),
        NewHost("new", 1, price_per_s=math.nan),
    ],
)
def test_a_host_that_could_not_be_announced_does_not_join(new: NewHost) -> None:
    """Nobody could read the cluster's hosts any more, and the whole pipeline would stand."""
    of = cluster()
    with pytest.raises(EngineRefusal) as refusal:
        of.host_joins(new)
    assert (refusal.value.code, kinds(of)) == ("INVALID_HOST", ["job_started"])
