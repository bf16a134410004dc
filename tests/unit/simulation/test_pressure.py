"""Back pressure: a step of the load, what a change waits for, the array core beside the engine's, the engine itself."""

import numpy as np
import pytest

from benchmarks.archive import load_graph, load_job
from surescale.contracts.windows import FIGURE, Float32
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.errors import RunError
from surescale.simulation.evaluation.judge import EvaluationError, EvaluationRequest, setting_of
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.pressure_core import PressureRows
from surescale.simulation.loops.rows import LoopRows, core_of
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.attempts import FlowRows
from surescale.simulation.model.costs import RestartCost, chosen_cost
from surescale.simulation.model.pressure import PressureTables, buffer_records
from surescale.simulation.model.queueing import STEPS, Int64
from surescale.simulation.model.worlds import CALM, PRESSURE, world_named
from tests.unit.simulation.cases import MINUTE, chain, clarknet, column, command, graph, sized, workload

TERMS = Terms(span_minutes=10, restart_ms=PRESSURE.restart_ms, world=PRESSURE)


def figure(rows: Float32, name: str) -> Float32:
    """Return one figure."""
    values: Float32 = rows[..., FIGURE[name]]
    return values


def before_the_bottleneck() -> SizedJob:
    """Return three tasks, the second of which serves 100 records a minute per subtask; the others are four times as fast."""
    return sized(chain(1.0, 4.0, 1.0))


def test_a_step_shows_at_the_door_and_the_bottleneck_in_the_records() -> None:
    """Load 80, then 320 at a capacity of 100: what came in says 320, all tasks take 100, the rest waits in the broker."""
    job = before_the_bottleneck()
    flow = FlowRows(job, np.array([[1, 1, 1, 1, 1]]), world=PRESSURE).advance(column(*[80.0] * 10, *[320.0] * 20))
    rows = flow.rows[:, 0]
    assert np.diff(flow.arrived[STEPS - 1 :: STEPS, 0]).tolist() == [80.0] * 9 + [320.0] * 20
    assert figure(rows, "arrived")[1:, 0].tolist() == [80.0] * 9 + [320.0] * 20
    taken = figure(rows, "records_in")
    np.testing.assert_allclose(taken[-5:], 100.0, atol=1.01)
    queued = figure(rows, "queued_records_last")
    fits = buffer_records(job)
    assert queued[-1, 0] == pytest.approx(220 * 20 - 2 * fits, abs=2)
    assert queued[-1, 1:].max() <= fits
    held, busy, idle = (figure(rows, name)[-1] for name in ("backpressured_ms", "busy_ms", "idle_ms"))
    assert held.tolist() == [60_000, 45_000, 0, 0, 0]
    assert busy.tolist()[2] == 60_000
    assert idle.tolist()[3] == 45_000


def test_in_the_calm_world_the_same_step_waits_at_the_slow_task() -> None:
    """What no real engine does."""
    job = before_the_bottleneck()
    rows = FlowRows(job, np.array([[1, 1, 1, 1, 1]])).advance(column(*[80.0] * 10, *[320.0] * 20)).rows[:, 0]
    assert figure(rows, "records_in")[-1, :2].tolist() == [320.0, 320.0]
    assert figure(rows, "queued_records_last")[-1].tolist() == [0.0, 0.0, 220.0 * 20, 0.0, 0.0]
    assert not figure(rows, "backpressured_ms").any()


def test_widening_one_task_lets_the_backlog_through_as_fast_as_the_next_slowest() -> None:
    """The backlog lies in the broker, so it has to pass all tasks; in the calm world only those after the former bottleneck."""
    job = sized(chain(3.0, 4.0))
    served = {}
    for world in (CALM, PRESSURE):
        flow_rows = FlowRows(job, np.array([[1, 1, 1, 1]]), world=world)
        flow_rows.advance(column(*[130.0] * 30))
        flow_rows.restart(np.array([[1, 1, 8, 1]]), 0, np.ones(1, dtype=np.bool_))
        served[world.name] = figure(flow_rows.advance(column(0.0)).rows[0, 0], "records_in")[2]
    assert served["calm"] == pytest.approx(800, abs=1.01)
    assert served["pressure"] == pytest.approx(133, abs=buffer_records(job) + 1)


def test_a_change_waits_for_what_is_in_the_buffers() -> None:
    """Nothing inside: a minute. Full buffers: as long as the slowest task needs for them, in whole minutes."""
    job = before_the_bottleneck()
    tables, one = PressureTables.of(job), np.array([[1, 1, 1, 1, 1]])
    flow_rows = FlowRows(job, one, world=PRESSURE)
    assert flow_rows.effect_minutes().tolist() == [1]
    flow_rows.advance(column(*[400.0] * 30))
    minutes = 2 * tables.buffer_records / 100
    assert 2 < minutes < 3
    assert flow_rows.effect_minutes().tolist() == [3]
    assert FlowRows(job, one).effect_minutes().tolist() == [1]


def test_a_blocked_join_holds_up_its_other_input() -> None:
    """One branch is slow and deeper; the other one is blocked once the buffer before the join is full."""
    shape = graph({"b": (), "a": (), "slow": ("b",), "join": ("a", "slow")}, {"b": 1.0, "a": 1.0, "slow": 4.0, "join": 1.0})
    job = sized(shape)
    rows = FlowRows(job, np.ones((1, job.size), dtype=np.int64), world=PRESSURE).advance(column(*[200.0] * 20)).rows[-1, 0]
    np.testing.assert_allclose(figure(rows, "records_in"), 100.0, atol=1.01)
    assert figure(rows, "backpressured_ms").tolist() == [60_000, 45_000, 45_000, 0, 0, 0]


def plans(job: SizedJob, rows: int, spans: int, seed: int = 1) -> list[Int64]:
    """Return random plans within the job's limits."""
    generator = np.random.default_rng(seed)
    return [job.within_limits(generator.integers(1, 11, (rows, job.size))) for _ in range(spans)]


@pytest.mark.parametrize("name", ["j_2521346", "j_3803524"])
def test_whole_minutes_agree_with_the_quarters_of_the_engine(name: str) -> None:
    """Queues at minute marks to rounding, busy time exactly, free time but where it changes sides, latency to 0.02 minutes."""
    job, rows = load_job(name, clarknet(), 14.0), 6

    def loop(engine_steps: bool) -> LoopRows:
        terms = Terms(span_minutes=20, restart_ms=1_000, world=PRESSURE, engine_steps=engine_steps)
        return LoopRows(job, clarknet(), 600 + 60 * np.arange(rows), np.tile(job.start_parallelism, (rows, 1)), terms)

    fast, pipeline = loop(False), loop(True)
    held = 0.0
    for plan in plans(job, rows, 6):
        mine, theirs = fast.step(plan), pipeline.step(plan)
        np.testing.assert_allclose(mine.utilisation, theirs.utilisation, rtol=1e-9)
        np.testing.assert_allclose(mine.latency, theirs.latency, atol=0.02)
        here, there = fast.observe().figures, pipeline.observe().figures
        for name_ in ("queued_records_last", "records_in", "parallelism", "restarts", "coverage", "busy_ms"):
            np.testing.assert_allclose(figure(here, name_), figure(there, name_), atol=1.5, rtol=1e-5, err_msg=name_)
        free = [figure(each, "idle_ms") + figure(each, "backpressured_ms") for each in (here, there)]
        np.testing.assert_allclose(free[0], free[1], atol=2.5, rtol=1e-5)
        apart = np.abs(figure(here, "backpressured_ms") - figure(there, "backpressured_ms"))
        assert (apart > 2.5).mean() < 0.05
        held += float(figure(there, "backpressured_ms").sum())
    assert held > 0


def test_spans_of_ten_minutes_end_in_the_same_queues_as_one_hour() -> None:
    """However time is cut, the lags are the same."""
    job = load_job("j_1351665", clarknet(), 14.0)
    short, long = (core_of(job, np.tile(job.start_parallelism, (3, 1)), TERMS) for _ in range(2))
    requests = clarknet().requests[3000:3180].reshape(3, 60).astype(np.float64)
    plan = plans(job, 3, 1)[0]
    long.pass_time(requests, None, plan)
    for begin in range(0, 60, 10):
        short.pass_time(requests[:, begin : begin + 10], None, plan)
    np.testing.assert_allclose(short.figures(), long.figures(), rtol=1e-5, atol=1e-3)


def test_a_change_that_waits_longer_than_a_span_comes_with_the_next_one() -> None:
    """Nine minutes of waiting, spans of five: the last minute still has the old size, the next one the new."""
    job = before_the_bottleneck()
    core = PressureRows(job, np.array([[1, 1, 1, 1, 1]]), Terms(span_minutes=2, restart_ms=1_000, world=PRESSURE))
    core.pass_time(np.full((1, 30), 400.0), None, None)
    core.pass_time(np.full((1, 2), 400.0), None, np.array([[1, 1, 4, 1, 1]]))
    core.pass_time(np.full((1, 2), 400.0), None, None)
    seen = core.figures()[0, -4:, 2]
    assert figure(seen, "parallelism").tolist() == [1, 1, 4, 4]
    assert figure(seen, "restarts").tolist() == [0, 0, 1, 0]
    assert figure(seen, "records_in")[2] == pytest.approx(400 * 59 / 60, rel=1e-3)


def test_copies_and_branches_live_by_themselves() -> None:
    """What happens to one leaves the other's future as it was."""
    job = load_job("j_2521346", clarknet(), 14.0)
    rows, reference = (
        LoopRows(job, clarknet(), np.array([600, 900]), np.tile(job.start_parallelism, (2, 1)), TERMS) for _ in "ab"
    )
    plan = plans(job, 2, 2)
    rows.copy().step(plan[1])
    branches = rows.repeated(3)
    together = branches.reward(branches.step(np.tile(plan[0], (3, 1))))
    alone = rows.reward(rows.step(plan[0]))
    assert alone.tobytes() == reference.reward(reference.step(plan[0])).tobytes()
    assert together.tobytes() == np.tile(alone, 3).tobytes()


def engine(minutes: int = 40, load: int = 400) -> SimulatedCluster:
    """Return an engine under back pressure whose job cannot keep up."""
    options = RunOptions(minutes=minutes, start_minute=0, world=PRESSURE, cost=RestartCost(restart_ms=1_000))
    return SimulatedCluster([sized(chain(1.0, 4.0, 1.0))], workload([load] * minutes), options)


def test_the_engine_commands_wait_for_the_checkpoint_too() -> None:
    """Asked for in overload, the change comes minutes later, and stops the job for a second."""
    of = engine(minutes=60, load=600)
    of.advance(of.start_ms + 10 * MINUTE)
    of.job("small").flow.restart(np.array([[1, 1, 1, 1, 1]]), 0, np.ones(1, dtype=np.bool_))  # the engine starts jobs at 5
    of.advance(of.start_ms + 20 * MINUTE)
    waits = int(of.job("small").flow.effect_minutes()[0])
    assert waits == 3
    rescale = of.apply(command(of, 10, job="small"), of.now_ms)
    assert rescale.effective_at_ms == of.now_ms + waits * MINUTE
    assert rescale.done_at_ms == rescale.effective_at_ms + 1_000
    of.advance(rescale.effective_at_ms)
    assert of.job("small").topology.generation == 1
    of.advance(of.end_ms)
    assert not of.job("small").minutes[-1].rows[:, FIGURE["queued_records_last"]].any()


def test_the_engine_and_the_array_core_play_one_world() -> None:
    """One command in overload: the same figures minute by minute."""
    of = engine(load=700)
    job = of.job("small").sized
    core = PressureRows(job, job.start_parallelism[None], TERMS)
    of.advance(of.start_ms + 10 * MINUTE)
    core.pass_time(np.full((1, 10), 700.0), None, None)
    of.apply(command(of, 9, job="small"), of.now_ms)
    of.advance(of.end_ms)
    core.pass_time(np.full((1, 30), 700.0), None, np.array([[1, 9, 9, 9, 1]]))
    theirs = np.stack([minute.rows for minute in of.job("small").minutes])
    for name in ("records_in", "queued_records_last", "parallelism", "restarts", "busy_ms", "busy_ms_max", "arrived"):
        np.testing.assert_allclose(figure(core.figures()[0, 1:], name), figure(theirs[1:], name), atol=1.5, err_msg=name)


def test_samples_say_what_came_in_and_who_was_held_up() -> None:
    """At the source all of the load, counted since the run began; other tasks have no door."""
    of = engine(load=1_000)
    of.advance(of.end_ms)
    minute = of.job("small").minutes[-1]
    last = [sample for sample in of.samples(minute) if sample.sampled_at_ms == minute.minute_end_ms]
    source = next(sample for sample in last if sample.task == "source")
    assert source.arrived_records == 40 * 1_000
    assert source.arrived_records == source.records_in + source.queued_records
    assert source.queued_records > 10_000
    assert source.backpressured_ms > 30 * MINUTE
    assert all(sample.arrived_records is None for sample in last if sample.task != "source")
    assert sum(sample.backpressured_ms for sample in last if sample.task == "t1") > 0


def test_worlds_are_known_by_name() -> None:
    """A typing error names those that there are; what a restart costs is the world's unless it is said."""
    assert world_named("pressure") == PRESSURE
    with pytest.raises(RunError, match="--world: 'storm' is not a world; known: calm, pressure, drift"):
        world_named("storm")
    assert chosen_cost("restart", None, 8.0, PRESSURE).restart_ms == 1_000
    assert chosen_cost("restart", None, 8.0).restart_ms == MINUTE
    assert chosen_cost("restart", 15_000, 8.0, PRESSURE).restart_ms == 15_000


def test_an_evaluation_takes_its_terms_from_the_world() -> None:
    """Only records that flow know back pressure."""
    terms = setting_of(load_graph("j_2521346"), clarknet(), EvaluationRequest(world="pressure")).terms
    assert (terms.world, terms.restart_ms) == (PRESSURE, 1_000)
    with pytest.raises(EvaluationError, match="mode clean only"):
        setting_of(load_graph("j_2521346"), clarknet(), EvaluationRequest(world="pressure", mode="slo"))
