"""The worlds: what varies, by how much, the same for the array cores and the simulated engine, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.archive import load_graph, load_job
from surescale.contracts.windows import FIGURE
from surescale.policies.measure import measure
from surescale.policies.rules.reading import read_figures
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.errors import RunError
from surescale.simulation.evaluation.judge import EvaluationError, EvaluationRequest, setting_of
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.jobs import load_job as load_ours
from surescale.simulation.load.waves import COURSE_MINUTES, waves_of
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.blindness import Blindness
from surescale.simulation.model.course import DEALT, course_of, job_in, load_in
from surescale.simulation.model.worlds import CALM, World, cluster_world, world_named
from tests.unit.simulation.cases import chain, sized, workload

WORKLOAD = load_workload("clarknet")
JOB = load_job("j_2521346", WORKLOAD, 5.0)


def rows_in(world: World, *, job: SizedJob = JOB, engine_steps: bool = False, first: tuple[int, ...] = (600, 3_000)) -> LoopRows:
    """Return rows at the job's start parallelism."""
    terms = Terms(world=world, restart_ms=world.restart_ms, span_minutes=20, engine_steps=engine_steps)
    return LoopRows(job, WORKLOAD, np.array(first), np.tile(job.start_parallelism, (len(first), 1)), terms)


def plans(seed: int, spans: int, rows: int = 2) -> list[np.ndarray]:
    """Return random sizes that fit the job."""
    generator = np.random.default_rng(seed)
    return [JOB.within_limits(generator.integers(2, 11, (rows, JOB.size))) for _ in range(spans)]


PLAYED_ALIKE = ("drift", "slow", "skew", "skew+drift", "starved", "restart+drift")
PLAYED_ALIKE += ("dealt", "dealt+skew+drift", "dealt+starved", "nights", "blind", "blind+dealt+skew", "blind+starved")
PLAYED_ALIKE += ("waves", "waves+drift+starved", "blind+waves")
FIGURES_ALIKE = ("queued_records_last", "records_in", "busy_ms", "busy_ms_max", "parallelism", "restarts", "coverage", "arrived")
FIGURES_ALIKE += ("records_out",)


@pytest.mark.parametrize("name", PLAYED_ALIKE)
def test_array_cores_and_the_engine_play_one_world(name: str) -> None:
    """Queues, busy time and the busiest subtask agree minute by minute; a restart's state is the engine's own."""
    world = world_named(name, seed=5)
    fast, pipeline = rows_in(world), rows_in(world, engine_steps=True)
    if world.state_spread:
        fast, pipeline = (rows_in(world_named("drift", seed=5, restart_s=180), engine_steps=each) for each in (False, True))
    for plan in plans(4, 5):
        fast.step(plan), pipeline.step(plan)
        here, there = fast.observe().figures, pipeline.observe().figures
        for figure in FIGURES_ALIKE:
            mine, theirs = here[..., FIGURE[figure]], there[..., FIGURE[figure]]
            np.testing.assert_allclose(mine, theirs, atol=2.5, rtol=1e-4, err_msg=figure)


@pytest.mark.parametrize("name", ["drift", "starved"])
def test_a_rescale_during_a_restart_does_not_end_it_early(name: str) -> None:
    """A restart of 25 minutes outlasts the span: until the next one begins the job stands still, as on the engine."""
    world = world_named(name, seed=5, restart_s=1_500)
    fast, pipeline = rows_in(world), rows_in(world, engine_steps=True)
    for plan in plans(4, 3):
        fast.step(plan), pipeline.step(plan)
        mine, theirs = (rows.observe().figures[..., FIGURE["busy_ms"]] for rows in (fast, pipeline))
        np.testing.assert_allclose(mine, theirs, atol=2.5, rtol=1e-4)


def test_a_course_is_the_same_however_time_is_cut_and_no_matter_what_runs_beside() -> None:
    """Two spans of ten minutes end as one of twenty, and a row alone as beside another."""
    world = world_named("skew+drift+slow+restart", seed=2)
    plan = plans(1, 1)[0]
    together, alone = rows_in(world), rows_in(world, first=(3_000,))
    one, other = together.step(plan), alone.step(plan[1:])
    assert one.latency[1:].tobytes() == other.latency.tobytes()
    assert together.observe().figures[1].tobytes() == alone.observe().figures[0].tobytes()


def test_drift_has_the_spread_and_the_memory_that_it_states() -> None:
    """Standard deviation .25 in the log; after three hours a third of a deviation is left."""
    course = course_of(JOB, world_named("drift", seed=9))
    assert course is not None
    assert course.slowness is not None
    logs = np.log(course.slowness[:, 1:-1])
    assert len(logs) == COURSE_MINUTES
    assert logs.std() == pytest.approx(0.25, rel=0.1)
    assert (logs[180:] * logs[:-180]).mean() / logs.var() == pytest.approx(np.exp(-1.0), abs=0.1)
    assert (course.slowness[:, [0, -1]] == 1.0).all()  # source and sink do no work


def test_tasks_of_a_host_are_slow_together() -> None:
    """Some tasks share every slow minute, about forty minutes twice a day."""
    course = course_of(JOB, world_named("slow", seed=1))
    assert course is not None
    assert course.slowness is not None
    is_slow = course.slowness[:, 1:-1] > 1.0
    assert is_slow.mean() == pytest.approx(80 / 1_440, rel=0.3)
    alike = (is_slow[:, :, None] == is_slow[:, None]).all(axis=0)
    assert alike.sum() > len(alike)
    assert not alike.all()


def test_a_hot_key_limits_the_wider_task_more_and_a_rescale_draws_it_anew() -> None:
    """One subtask has no busiest; five have less skew than ten; another rescale is another draw within a quarter."""
    course = course_of(JOB, world_named("skew", seed=1))
    assert course is not None
    one, five, ten = (course.busiest(np.full((JOB.size, 1), each), np.zeros(1, dtype=np.int64)) for each in (1, 5, 10))
    again = course.busiest(np.full((JOB.size, 1), 10), np.ones(1, dtype=np.int64))
    assert (one == 1.0).all()
    assert (ten[1:-1] > five[1:-1]).all()
    assert (ten != again).any()
    assert (np.abs(again - ten) <= 0.5 * course.hot_share[:, None] * 9 + 1e-12).all()
    assert ten.max() < 1.0 + 0.05 * 1.25 * 9


def test_work_done_twice_takes_time_and_earns_nothing() -> None:
    """A restart that redoes work leaves more behind, and its busy time does not count as use."""
    world, plan = world_named("restart", seed=1, restart_s=60), plans(2, 1)[0]
    redoing, calm = rows_in(world), rows_in(CALM)
    mine, theirs = redoing.step(plan), calm.step(plan)
    assert (mine.backlog_minutes > theirs.backlog_minutes).all()
    assert (mine.utilisation <= theirs.utilisation + 1e-9).all()


def test_a_deal_is_announced_and_bounds_what_can_be_used() -> None:
    """Readers have partitions, tasks with state key groups, the others nothing; nobody runs more subtasks than there are."""
    plain = load_job("j_242616", WORKLOAD, 5.0)
    job = job_in(world_named("dealt", seed=6), plain, WORKLOAD)
    assert set(job.dealt) - {0} <= set(DEALT)
    for spec, things, reads, stateful in zip(job.specs(), job.dealt, job.readers, job.graph.stateful, strict=True):
        assert (things > 0) == (reads or stateful)
        if things:
            assert (spec.vnodes, spec.useful_max) == (things, things if reads else None)
            assert spec.max_parallelism == min(10, things)
            assert {edge.ship for edge in spec.inputs} == {"hash"}
    assert (job.limits.most[1:-1] <= 10).all()
    assert min(job.limits.most[1:-1]) == 8
    again = [job_in(world_named("dealt", seed=6), each, WORKLOAD).dealt for each in (plain, job)]
    assert again == [job.dealt, job.dealt]
    assert job_in(world_named("dealt", seed=7), plain, WORKLOAD).dealt != job.dealt
    assert job_in(CALM, plain, WORKLOAD) is plain
    assert plain.specs()[1].vnodes == 256


def test_the_fullest_subtask_has_whole_partitions() -> None:
    """Of K even ones ceil(K / p); rates of their own put more on it, never less than the mean."""
    even = uneven = 0
    for seed in range(8):
        job = job_in(world_named("dealt", seed=seed), load_job("j_242616", WORKLOAD, 5.0), WORKLOAD)
        course = course_of(job, world_named("dealt", seed=seed))
        assert course is not None
        for size in (1, 3, 5, 6, 8):
            busiest = course.busiest(np.full((job.size, 1), size), np.zeros(1, dtype=np.int64))[:, 0]
            for things, found in zip(job.dealt, busiest.tolist(), strict=True):
                fair = -(-things // size) * size / things if things else 1.0
                assert found >= 1.0
                if size == 5 and things:
                    even, uneven = even + (found == pytest.approx(fair)), uneven + (found != pytest.approx(fair))
                if not things:
                    assert found == pytest.approx(1.0)
    assert min(even, uneven) > 10


def test_even_sizing_of_a_constant_load_flaps_where_work_is_dealt_out() -> None:
    """A load of 4.3 subtasks of eight partitions: six subtasks carry 4, so what waits grows, is cleared, and grows again."""
    job, load = sized(chain(1.0), 4.3), workload([100] * 2_000)
    dealt = next(
        world
        for seed in range(99)
        if job_in(world := world_named("dealt", seed=seed), job, load).dealt[1] == 8
        and course_of(job, world).busiest(np.full((3, 1), 8), np.zeros(1, np.int64))[1, 0] == pytest.approx(1.0)  # type: ignore[union-attr]
    )
    rescales, late = {}, {}
    for world in (CALM, dealt):
        rows = LoopRows(job, load, np.array([60]), np.array([[1, 6, 1]]), Terms(world=world))
        spans = []
        for _ in range(60):
            waiting = rows.observe().figures[0, -1, 1, FIGURE["queued_records_last"]]
            wanted = np.ceil((100.0 + waiting / 30.0) * job.service_minutes[1] / 0.8)
            spans.append(rows.step(np.array([[1, min(int(wanted), 8), 1]])))
        rescales[world.name] = sum(int(span.rescaled[0]) for span in spans)
        late[world.name] = float(np.mean([span.latency[0] for span in spans]))
    assert rescales["calm"] == 0
    assert rescales["dealt"] >= 8
    assert late["dealt"] > late["calm"] + 0.5


def test_waves_leave_the_work_of_a_week_as_it_is_and_move_it_among_the_hours() -> None:
    """Under the load's own weights each task works as much as in calm; some hours ask it for half as much again."""
    job = job_in(world_named("waves", seed=3), load_job("j_242616", WORKLOAD, 5.0), WORKLOAD)
    assert job.waves is not None
    came = np.maximum(WORKLOAD.requests, 1)
    np.testing.assert_allclose(np.average(job.waves.work, axis=0, weights=came), 1.0, atol=0.02)
    hourly = (job.waves.work * came[:, None]).reshape(-1, 60, job.size).sum(axis=1) / came.reshape(-1, 60).sum(axis=1)[:, None]
    assert (hourly[:, 1:-1].max(axis=0) > 1.3).sum() > (job.size - 2) / 2
    assert job_in(world_named("waves", seed=3), job, WORKLOAD) is job
    again, other = (waves_of(seed, job.graph, WORKLOAD.requests) for seed in (3, 4))
    assert (again.reached == job.waves.reached).all()
    assert (other.reached != job.waves.reached).any()


def test_a_timer_releases_later_what_it_held_back() -> None:
    """A burst of one minute leaves a task that holds records back some time later, and nothing is lost."""
    came = np.full(2_000, 100)
    came[1_000] = 5_000
    found = 0
    graph = replace(chain(1.0, 1.0), stateful=(False, True, False, False))
    for seed in range(20):
        waves = waves_of(seed, graph, came)
        taken, sent = waves.reached[:, 1] * came, waves.sent[:, 1] * came
        held = int(np.argmax(sent[1_000:] > 1.3 * sent[999]))
        if 5 <= held <= 20:
            found += 1
            assert sent[1_000:1_100].sum() == pytest.approx(taken[1_000:1_100].sum(), rel=0.3)
    assert found


def test_a_policy_measures_what_reaches_each_task_and_what_a_record_costs_it() -> None:
    """Records in and out show the shares of sources, the selectivities and joins; the service time stays what it is."""
    for name in ("inventory", "search-index"):
        plain = load_ours(name, WORKLOAD, 5.0)
        rows = rows_in(world_named("waves", seed=3), job=plain)
        rows.step(np.tile(np.where(plain.scalable, 10, 1), (2, 1)))
        figures, waves = rows.observe().figures, rows.job.waves
        measured = measure(figures, rows.graph)
        assert waves is not None
        came, into = figures[..., :1, FIGURE["arrived"]], figures[..., FIGURE["records_in"]]
        hour, newest = ((into[:, late:].sum(axis=1) / came[:, late:].sum(axis=1))[:, 1:-1] for late in (0, -15))
        off = np.minimum(np.abs(np.log(measured.visits[:, 1:-1] / hour)), np.abs(np.log(measured.visits[:, 1:-1] / newest)))
        assert off.max() < 0.05, "of the hour, or of its newest minutes where they have moved"
        costs = plain.service_minutes * waves.work.mean(axis=0) / waves.reached.mean(axis=0)
        np.testing.assert_allclose(measured.service_minutes[:, 1:-1], np.tile(costs[1:-1], (2, 1)), rtol=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_nights_are_known_hours_of_zero_and_the_other_hours_are_the_traces(seed: int) -> None:
    """Seven to ten hours of every day, the same whenever they are drawn again; nothing becomes a gap."""
    world = world_named("nights", seed=seed)
    played = load_in(world, WORKLOAD)
    days = (played.requests == 0).reshape(14, 24, 60).all(axis=2)
    assert set(days[:5].sum(axis=1).tolist()) <= {7, 8, 9, 10}
    assert (played.requests[played.requests > 0] == WORKLOAD.requests[played.requests > 0]).all()
    assert played.gaps == WORKLOAD.gaps
    assert (load_in(world, played).requests == load_in(world_named("nights", seed=seed), WORKLOAD).requests).all()
    assert load_in(CALM, WORKLOAD) is WORKLOAD


def test_draws_of_nights_differ_and_some_rest_at_weekends() -> None:
    """In other draws other hours are silent, and in some a whole Saturday is."""
    drawn = [load_in(world_named("nights", seed=seed), WORKLOAD).requests for seed in range(6)]
    saturday = [bool((each[5 * 1_440 : 6 * 1_440] == 0).all()) for each in drawn]
    assert len({each.tobytes() for each in drawn}) > 1
    assert any(saturday)
    assert not all(saturday)


def test_loops_and_the_engine_play_a_night() -> None:
    """Nothing comes and nothing works, and that is known: minutes of zero, the same in arrays and in the engine."""
    world = world_named("nights", seed=3)
    silent = int(np.flatnonzero(load_in(world, WORKLOAD).requests == 0)[0])
    rows = rows_in(world, first=(silent + 120,))
    figures = rows.observe().figures[0]
    assert (figures[..., FIGURE["coverage"]] == 1.0).all()
    assert (figures[..., FIGURE["records_in"]] == 0.0).all()
    assert (figures[:, 0, FIGURE["arrived"]] == 0.0).all()
    assert rows.observe().hourly_load[0, -1] == 0.0
    assert rows.step(JOB.start_parallelism[None]).counted_minutes.tolist() == [20]
    engine = SimulatedCluster([JOB], WORKLOAD, RunOptions(minutes=30, start_minute=silent + 60, world=world))
    engine.advance(engine.end_ms)
    assert [minute.rows[0, FIGURE["arrived"]] for minute in engine.jobs[f"sim/{JOB.name}"].minutes][1:] == [0.0] * 29


def test_a_blind_world_runs_as_it_would_and_shows_less() -> None:
    """Latency, use and rent are those of the world calm; each of the four faults is on a task of its own, as drawn."""
    world = world_named("blind", seed=11)
    blindness = Blindness.of(world, JOB)
    assert blindness is not None
    first = int(np.flatnonzero(blindness.jumps)[1]) + 10
    blind, calm = (rows_in(each, first=(first,)) for each in (world, CALM))
    for plan in plans(7, 3, rows=1):
        mine, theirs = blind.step(plan), calm.step(plan)
        assert (mine.latency, mine.utilisation, mine.allocated_minutes) == (
            theirs.latency,
            theirs.utilisation,
            theirs.allocated_minutes,
        )
    shown, true = blind.observe().figures[0].astype(np.float64), calm.observe().figures[0].astype(np.float64)
    real = range(1, JOB.size - 1)
    (partly,), (low,), (hidden,) = (
        [task for task in real if blindness.unseen[task] > 0],
        [task for task in real if blindness.shown[task] < 1],
        [task for task in real if blindness.hidden[:, task].any()],
    )
    assert len({partly, low, hidden}) == 3
    coverage = shown[:, partly, FIGURE["coverage"]]
    assert (coverage < 1.0).any()
    np.testing.assert_allclose(
        shown[:, partly, FIGURE["records_in"]], coverage * true[:, partly, FIGURE["records_in"]], rtol=1e-5
    )
    np.testing.assert_allclose(
        shown[:, low, FIGURE["busy_ms"]], blindness.shown[low] * true[:, low, FIGURE["busy_ms"]], rtol=1e-5
    )
    work = [FIGURE["busy_ms"], FIGURE["idle_ms"]]
    np.testing.assert_allclose(shown[:, low][:, work].sum(axis=1), true[:, low][:, work].sum(axis=1), rtol=1e-5)
    minutes = (first + np.arange(60)) % COURSE_MINUTES
    unknown = np.isnan(shown[:, hidden, FIGURE["queued_records_last"]])
    assert (unknown == blindness.hidden[minutes, hidden]).all()
    assert not np.isnan(shown[:, partly, FIGURE["queued_records_last"]]).any()


def test_what_waits_is_unknown_for_hours_and_positions_jump_for_a_minute() -> None:
    """In a window over a jump the source counts many times what came, and what was read tells that it did not."""
    world = world_named("blind", seed=11)
    blindness = Blindness.of(world, JOB)
    assert blindness is not None
    jump = int(np.flatnonzero(blindness.jumps)[2])
    rows = rows_in(world, first=(jump + 20,))
    counted = rows.observe().figures[0, :, 0, FIGURE["arrived"]]
    came = WORKLOAD.requests[jump - 40 : jump + 20]
    assert counted[40] == pytest.approx(came[40] * (1 + blindness.jumps[jump]))
    assert (np.delete(counted, 40) == np.delete(came, 40)).sum() >= 58
    seen = read_figures(rows.observe().figures, rows.graph, rows.parallelism, rows.observe().hourly_load, rows.observe().ends_ms)
    assert seen.measured.load[0].tolist() == came.tolist()
    assert blindness.hidden.any(axis=1).mean() == pytest.approx(4 * 150 / 1_440, rel=0.4)


def test_blindness_is_drawn_from_the_seed() -> None:
    """The same seed hides the same, another one something else; a world that sees hides nothing."""
    one, again, other = (Blindness.of(world_named("blind", seed=seed), JOB) for seed in (1, 1, 2))
    assert one is not None
    assert again is not None
    assert other is not None
    assert (one.jumps == again.jumps).all()
    assert (one.shown == again.shown).all()
    assert (one.jumps != other.jumps).any()
    assert Blindness.of(CALM, JOB) is None


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("storm", {}, "--world: 'storm' is not a world; known: calm, pressure, .*, slo, dealt, nights, waves, blind, or several"),
        ("drift+storm", {}, "'storm' is not a world"),
        ("calm+drift", {}, "calm cannot be joined"),
        ("slo+drift", {}, "slo runs batches"),
        ("drift", {"seed": -1}, "--world-seed: -1"),
        ("restart", {"restart_s": -3.0}, "--restart-s: -3"),
        ("restart", {"restart_s": float("nan")}, "--restart-s: nan"),
        ("restart@", {}, "--world: 'restart@': give the seconds of a restart after @, 0 to 3600"),
        ("restart@soon", {}, "'restart@soon': give the seconds"),
        ("restart@-1", {}, "'restart@-1': give the seconds"),
        ("restart@nan", {}, "'restart@nan': give the seconds"),
        ("restart@60", {"restart_s": 60.0}, "--world, --restart-s: 'restart@60' gives the seconds of a restart as well"),
    ],
)
def test_what_is_no_world_is_refused_in_one_line(name: str, given: dict[str, float], message: str) -> None:
    """The line names the option and what there is."""
    with pytest.raises(RunError, match=message) as raised:
        world_named(name, **given)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_a_name_may_bring_the_seconds_of_a_restart() -> None:
    """The same as ``--restart-s``; the world keeps its own name."""
    assert world_named("restart@300", seed=2) == world_named("restart", seed=2, restart_s=300)
    assert world_named("skew+drift@90").restart_ms == 90_000


def test_negative_scatter_is_refused() -> None:
    """Also where a world is built by hand."""
    with pytest.raises(RunError, match="drift must be 0 or more, not"):
        World("odd", has_pressure=False, restart_ms=0, why="", drift=-0.1)


def test_an_evaluation_takes_mode_seed_and_restart_from_its_world() -> None:
    """slo is a mode; what varies needs records that flow; an engine runs no batches."""
    graph = load_graph("j_2521346")
    assert setting_of(graph, WORKLOAD, EvaluationRequest(world="slo")).terms.mode == "slo"
    terms = setting_of(graph, WORKLOAD, EvaluationRequest(world="restart+drift", world_seed=4, restart_s=300)).terms
    assert (terms.restart_ms, terms.world.seed, terms.world.drift) == (300_000, 4, 0.25)
    with pytest.raises(EvaluationError, match="mode clean only"):
        setting_of(graph, WORKLOAD, EvaluationRequest(world="drift", mode="slo"))
    with pytest.raises(EvaluationError, match="at most 540 s"):
        setting_of(graph, WORKLOAD, EvaluationRequest(world="slo", restart_s=900))
    with pytest.raises(RunError, match="judge it with surescale policy evaluate"):
        cluster_world("slo", 0)
