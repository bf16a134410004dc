"""What holds for every graph, load and parallelism under back pressure."""

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.pressure_core import PressureRows
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.attempts import Flow, FlowRows
from surescale.simulation.model.pressure import PressureTables, buffer_records
from surescale.simulation.model.queueing import STEPS
from surescale.simulation.model.worlds import CALM, PRESSURE, World
from tests.properties.test_simulation_properties import runs

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
CLOSE = 1e-6  # records


def run(job: SizedJob, parallelism: Int64, arrivals: Float64, restart: int, world: World = PRESSURE) -> list[Flow]:
    """Run to the restart and from it on; the job stands still for a second."""
    flow_rows = FlowRows(job, parallelism[None], world=world)
    flows = [flow_rows.advance(arrivals[:restart])] if restart else []
    flow_rows.restart(parallelism[None], 1_000, np.ones(1, dtype=np.bool_))
    return [*flows, flow_rows.advance(arrivals[restart:])]


def served_so_far(flows: list[Flow]) -> Float64:
    """Return the records [steps, N] that each task has served since the run began; counters restart at 0."""
    totals, before = [], np.zeros(flows[0].served.shape[1])
    for flow in flows:
        totals.append(before + flow.served[..., 0])
        before = totals[-1][-1]
    return np.concatenate(totals)


def came_in(arrivals: Float64) -> Float64:
    """Return the records [steps] that have come in at the door."""
    return np.cumsum(np.repeat(arrivals[:, 0], STEPS) / STEPS)


@given(runs())
def test_what_came_in_is_served_or_waits_in_the_broker_or_in_a_buffer(drawn: object) -> None:
    """Per source and along the graph, at every step; no buffer holds more than fits."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    flows = run(job, parallelism, arrivals, restart)
    served, entered = served_so_far(flows), came_in(arrivals)
    waiting = np.concatenate([flow.waiting[..., 0] for flow in flows])
    np.testing.assert_allclose(served[:, 0] + waiting[:, 0], entered, atol=CLOSE)
    fits = buffer_records(job)
    for task, parents in enumerate(job.graph.upstream):
        for parent in parents:
            between = served[:, parent] - served[:, task]
            assert (between >= -CLOSE).all()
            assert (between <= fits * (1 + 1e-6) + CLOSE).all()
        if parents:
            first = np.min([served[:, parent] for parent in parents], axis=0)
            np.testing.assert_allclose(served[:, task] + waiting[:, task], first, atol=CLOSE)


@given(runs())
def test_no_task_gives_more_than_the_bottleneck_serves(drawn: object) -> None:
    """At the sink: the capacity of the slowest task; at the source: that and what the buffers before it hold."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    flow = FlowRows(job, parallelism[None], world=PRESSURE).advance(arrivals)
    with np.errstate(divide="ignore"):
        least = (parallelism / job.service_minutes)[1:-1].min()
    at_most = least * np.arange(1, len(arrivals) * STEPS + 1) / STEPS
    assert (flow.served[:, -1, 0] <= at_most + CLOSE).all()
    buffers = PressureTables.of(job).against.max()
    assert (flow.served[:, 0, 0] <= at_most + buffers + CLOSE).all()


@given(runs())
def test_without_overload_both_worlds_are_the_same_to_the_bit(drawn: object) -> None:
    """Every task keeps up: figures, counters and waiting."""
    job, _, arrivals, _ = drawn  # type: ignore[misc]
    enough = np.where(job.scalable, np.ceil(arrivals.max() * job.service_minutes), 1).astype(np.int64) + job.scalable
    calm, pressed = (FlowRows(job, enough[None], world=world).advance(arrivals) for world in (CALM, PRESSURE))
    assert calm.rows.tobytes() == pressed.rows.tobytes()
    assert calm.served.tobytes() == pressed.served.tobytes()
    assert not pressed.held_ms.any()


@given(runs())
def test_bounded_buffers_delay_nothing_at_the_sink_while_parallelism_stays(drawn: object) -> None:
    """Only a change lets the worlds differ: calm has the backlog at the slow task, pressure before the first one."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    calm, pressed = (run(job, parallelism, arrivals, restart, world) for world in (CALM, PRESSURE))
    np.testing.assert_allclose(served_so_far(pressed)[:, -1], served_so_far(calm)[:, -1], atol=1e-3)


@given(runs(), st.integers(0, 6))
def test_more_parallelism_never_delays_anything(drawn: object, which: int) -> None:
    """Raising one task by one never lowers what has come out, at any step."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    more = parallelism.copy()
    more[1 + which % (job.size - 2)] += 1
    less_served, more_served = (served_so_far(run(job, each, arrivals, restart)) for each in (parallelism, more))
    assert (more_served[:, -1] >= less_served[:, -1] - CLOSE).all()


@given(runs())
def test_time_is_busy_or_idle_or_held_up(drawn: object) -> None:
    """The three add up to the time the job ran; nothing is held up behind the last slow task."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    flow = run(job, parallelism, arrivals, restart)[-1]
    ran_ms = (len(arrivals) - restart) * 60_000 - 1_000
    busy = flow.served[-1, :, 0] * job.service_minutes * 60_000
    spent = (busy + flow.idle_ms[-1, :, 0] + flow.held_ms[-1, :, 0])[:-1]
    np.testing.assert_allclose(spent, (parallelism * ran_ms)[:-1], rtol=1e-6, atol=1e-3)
    assert not flow.held_ms[:, -1].any()


@given(runs(), st.integers(1, 7))
def test_cutting_time_elsewhere_changes_no_bit(drawn: object, cut: int) -> None:
    """Rows, waiting and totals."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    at_once = FlowRows(job, parallelism[None], world=PRESSURE).advance(arrivals)
    flow_rows, cut = FlowRows(job, parallelism[None], world=PRESSURE), min(cut, len(arrivals) - 1)
    pieces = [flow_rows.advance(arrivals[:cut]), flow_rows.advance(arrivals[cut:])]
    assert np.concatenate([piece.rows for piece in pieces]).tobytes() == at_once.rows.tobytes()
    assert np.concatenate([piece.held_ms for piece in pieces]).tobytes() == at_once.held_ms.tobytes()


@given(runs(), runs())
def test_environments_do_not_see_one_another(drawn: object, other: object) -> None:
    """Beside another load and parallelism, an environment has the numbers it has alone, in both cores."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    beside = np.concatenate([arrivals, np.resize(other[2], arrivals.shape)], axis=1)  # type: ignore[index]
    two = np.stack([parallelism, np.where(job.scalable, 3, 1)])
    together = FlowRows(job, two, world=PRESSURE).advance(beside)
    alone = FlowRows(job, parallelism[None], world=PRESSURE).advance(arrivals)
    assert together.rows[:, 0].tobytes() == alone.rows[:, 0].tobytes()
    terms = Terms(world=PRESSURE, restart_ms=1_000, window_minutes=len(arrivals))
    both, single = PressureRows(job, two, terms), PressureRows(job, two[:1], terms)
    both.pass_time(beside.T, None, two[::-1])
    single.pass_time(arrivals.T, None, two[1:])
    assert both.figures()[:1].tobytes() == single.figures().tobytes()


@given(runs())
def test_lags_solve_their_equations(drawn: object) -> None:
    """The least solution, found by going round the graph until nothing changes, is the one that the table gives at once."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    tables = PressureTables.of(job)
    generator = np.random.default_rng(int(arrivals.sum()))
    own = generator.normal(0.0, 3 * tables.buffer_records, (job.size, 3))
    found = np.maximum(own, 0.0)
    while True:
        before = found.copy()
        for task, parents in enumerate(job.graph.upstream):
            for parent in parents:
                found[task] = np.maximum(found[task], found[parent])
                found[parent] = np.maximum(found[parent], found[task] - tables.buffer_records)
        if (found == before).all():
            break
    np.testing.assert_allclose(tables.pressed(own), found, atol=1e-9)
    assert len(parallelism) == job.size


@settings(max_examples=20)
@given(runs())
def test_small_steps_of_plain_queues_give_the_same(drawn: object) -> None:
    """Records move in three hundred steps a minute, by what is there, what can be served and what fits: no lags, no tables."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    arrivals, steps, fits = arrivals[:2], 300, buffer_records(job)
    edges = [(parent, task) for task, parents in enumerate(job.graph.upstream) for parent in parents]
    inside = dict.fromkeys(edges, 0.0)
    with np.errstate(divide="ignore"):
        most = parallelism / job.service_minutes / steps
    broker, served = 0.0, np.zeros(job.size)
    for entered in np.repeat(arrivals[:, 0], steps) / steps:
        broker += entered
        for task in range(job.size - 1, -1, -1):  # the last first: what it takes makes room
            there = min((inside[edge] for edge in edges if edge[1] == task), default=broker)
            room = min((fits - inside[edge] for edge in edges if edge[0] == task), default=np.inf)
            moved = max(0.0, min(there, room, most[task]))
            broker -= moved if task == 0 else 0.0
            for edge in edges:
                inside[edge] += moved * ((edge[0] == task) - (edge[1] == task))
            served[task] += moved
    flow = FlowRows(job, parallelism[None], world=PRESSURE).advance(arrivals)
    in_a_step = job.size * (arrivals.max() + 1.0) / steps
    np.testing.assert_allclose(flow.served[-1, :, 0], served, atol=4 * in_a_step + 1e-6)
