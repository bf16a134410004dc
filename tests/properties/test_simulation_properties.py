"""What holds for every graph, load and parallelism in the simulator."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.topology import levels
from surescale.contracts.windows import FIGURE
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.batches_core import BatchRows, Schedule
from surescale.simulation.loops.rows import core_of
from surescale.simulation.loops.terms import Mode, Terms
from surescale.simulation.model.attempts import Flow, FlowRows
from surescale.simulation.model.queueing import STEPS
from tests.unit.simulation.cases import graph, sized


@st.composite
def graphs(draw: st.DrawFn) -> JobGraph:
    """Draw a graph of one to seven tasks, each reading from some of those before it."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 7)))]
    edges = {
        name: tuple(draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3))) if at else ()
        for at, name in enumerate(names)
    }
    durations = {name: draw(st.sampled_from([0.0, 1.0, 2.5, 7.0])) for name in names}
    return graph(edges, durations | {names[-1]: 3.0})


@st.composite
def runs(draw: st.DrawFn) -> tuple[SizedJob, npt.NDArray[np.int64], npt.NDArray[np.float64], int]:
    """Draw a job, a parallelism [N], arrivals [m, 1] and the minute before which it restarts."""
    job = sized(draw(graphs()), load_parallelism=draw(st.sampled_from([0.7, 3.0, 9.0])))
    real = draw(st.lists(st.integers(1, 10), min_size=job.size - 2, max_size=job.size - 2))
    requests = draw(st.lists(st.integers(0, 250), min_size=2, max_size=8))
    restart = draw(st.integers(0, len(requests) - 1))
    return job, np.array([1, *real, 1]), np.array(requests, dtype=np.float64)[:, None], restart


def run(job: SizedJob, parallelism: npt.NDArray[np.int64], arrivals: npt.NDArray[np.float64], restart: int) -> list[Flow]:
    """Run to the restart and from it on."""
    flow_rows = FlowRows(job, parallelism[None])
    flows = [flow_rows.advance(arrivals[:restart])] if restart else []
    flow_rows.restart(parallelism[None], 60_000, np.ones(1, dtype=np.bool_))
    return [*flows, flow_rows.advance(arrivals[restart:])]


@given(runs())
def test_nothing_is_lost_and_nothing_is_served_before_it_came(drawn: object) -> None:
    """What a task served is at most what its parents served, and the rest waits."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    served = sum(flow.served[-1, :, 0] for flow in run(job, parallelism, arrivals, restart))
    entered = arrivals.sum()
    assert served[0] == entered
    for task, parents in enumerate(job.graph.upstream):
        assert served[task] <= min((served[parent] for parent in parents), default=entered) + 1e-6


@given(runs())
def test_busy_time_is_what_was_served_and_fits_into_the_time_there_was(drawn: object) -> None:
    """Busy plus idle is parallelism times the time the job ran."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    flow = run(job, parallelism, arrivals, restart)[-1]
    ran_ms = (len(arrivals) - restart - 1) * 60_000
    busy = flow.served[-1, :, 0] * job.service_minutes * 60_000
    np.testing.assert_allclose(busy + flow.idle_ms[-1, :, 0], parallelism * ran_ms, rtol=1e-6, atol=1e-3)


@given(runs(), st.integers(0, 6))
def test_more_parallelism_never_delays_anything(drawn: object, which: int) -> None:
    """Raising one task by one never raises the job's backlog, at any step."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    more = parallelism.copy()
    more[1 + which % (job.size - 2)] += 1
    less_so_far, more_so_far = 0.0, 0.0  # counters restart at 0
    for before, after in zip(run(job, parallelism, arrivals, restart), run(job, more, arrivals, restart), strict=True):
        assert (more_so_far + after.served[:, -1] >= less_so_far + before.served[:, -1] - 1e-6).all()
        assert (after.backlog_minutes <= before.backlog_minutes + 1e-6).all()
        less_so_far, more_so_far = before.served[-1, -1], after.served[-1, -1]


def assert_known_and_not_negative(figures: npt.NDArray[np.float32]) -> None:
    """Check figures [.., tasks, F] of one job, whose only source is the first task.

    Pools and watermarks are never known. ``arrived`` is known of the source alone, after the job's first minute.
    """
    arrived, never = FIGURE["arrived"], [FIGURE["in_pool"], FIGURE["watermark_lag_ms"]]
    assert np.isnan(figures[..., never]).all()
    assert np.isnan(figures[..., 1:, arrived]).all()
    assert np.isnan(figures[..., 0, arrived]).sum() <= 1
    assert (np.nan_to_num(figures[..., 0, arrived]) >= 0).all()
    assert (np.delete(figures, [*never, arrived], axis=-1) >= 0).all()


@given(runs())
def test_figures_are_whole_and_never_negative(drawn: object) -> None:
    """Counters of a minute are differences of whole numbers; only the mean queue has fractions.

    The simulator knows all but two of them; ``arrived`` belongs to sources.
    """
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    figures = np.concatenate([flow.rows for flow in run(job, parallelism, arrivals, restart)])
    assert_known_and_not_negative(figures)
    whole = np.nan_to_num(np.delete(figures, FIGURE["queued_records_mean"], axis=-1))
    assert (whole == np.floor(whole)).all()


@given(runs(), st.integers(1, 7))
def test_cutting_time_elsewhere_changes_no_bit(drawn: object, cut: int) -> None:
    """Rows, waiting and totals."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    at_once = FlowRows(job, parallelism[None]).advance(arrivals)
    flow_rows, cut = FlowRows(job, parallelism[None]), min(cut, len(arrivals) - 1)
    pieces = [flow_rows.advance(arrivals[:cut]), flow_rows.advance(arrivals[cut:])]
    assert np.concatenate([piece.rows for piece in pieces]).tobytes() == at_once.rows.tobytes()
    assert np.concatenate([piece.served for piece in pieces]).tobytes() == at_once.served.tobytes()
    assert np.concatenate([piece.backlog_minutes for piece in pieces]).tobytes() == at_once.backlog_minutes.tobytes()


@given(runs(), runs())
def test_environments_do_not_see_one_another(drawn: object, other: object) -> None:
    """Beside another load and parallelism, an environment has the numbers it has alone."""
    job, parallelism, arrivals, _ = drawn  # type: ignore[misc]
    beside = np.resize(other[2], arrivals.shape)  # type: ignore[index]
    two = np.stack([parallelism, np.where(job.scalable, 3, 1)])
    together = FlowRows(job, two).advance(np.concatenate([arrivals, beside], axis=1))
    alone = FlowRows(job, parallelism[None]).advance(arrivals)
    assert together.rows[:, 0].tobytes() == alone.rows[:, 0].tobytes()
    assert together.busy_minutes[:, 0].tobytes() == alone.busy_minutes[:, 0].tobytes()
    assert len(together.waiting) == len(arrivals) * STEPS


@st.composite
def batch_runs(draw: st.DrawFn) -> tuple[SizedJob, npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw a job, two parallelisms [N] and two hours of requests [120]."""
    job = sized(draw(graphs()), load_parallelism=draw(st.sampled_from([0.7, 3.0, 9.0])))
    real = st.lists(st.integers(1, 10), min_size=job.size - 2, max_size=job.size - 2)
    requests = draw(st.lists(st.integers(0, 250), min_size=4, max_size=12))
    return job, np.array([1, *draw(real), 1]), np.resize(requests, 120).astype(np.float64), np.array([1, *draw(real), 1])


def scheduled(job: SizedJob, parallelism: npt.NDArray[np.int64], requests: npt.NDArray[np.float64]) -> Schedule:
    """Return when every task is done with every batch, nothing restarting."""
    rows = BatchRows(job, parallelism[None], Terms("slo", span_minutes=60))
    rows.pass_time(requests[None], None, None)
    return rows.schedule


@given(batch_runs(), st.integers(0, 6))
def test_more_parallelism_never_delays_a_batch_anywhere(drawn: object, which: int) -> None:
    """Raising one task by one never raises any completion."""
    job, parallelism, requests, _ = drawn  # type: ignore[misc]
    more = parallelism.copy()
    more[1 + which % (job.size - 2)] += 1
    assert (scheduled(job, more, requests).done <= scheduled(job, parallelism, requests).done + 1e-9).all()


@given(batch_runs())
def test_a_schedule_is_the_recursion_batch_by_batch(drawn: object) -> None:
    """c = max(ready, last c) + ceil(s / p) d, worked out one batch after another."""
    job, parallelism, requests, _ = drawn  # type: ignore[misc]
    done = scheduled(job, parallelism, requests).done[:, 0] + len(requests)
    last = np.full(job.size, -np.inf)
    for batch, size in enumerate(requests):
        for task in np.argsort(levels(job.graph.specs()), kind="stable"):
            ready = max((last_of[batch] for last_of in done[list(job.graph.upstream[task])]), default=float(batch))
            last[task] = max(ready, last[task]) + np.ceil(size / parallelism[task]) * job.service_minutes[task]
            assert abs(last[task] - done[task, batch]) < 1e-9


@given(batch_runs(), st.sampled_from(["slo", "compat"]))
def test_at_every_minute_what_arrived_is_processed_or_waits(drawn: object, mode: Mode) -> None:
    """Per task, processed so far plus the queue is what all parents had finished by then; no figure is ever negative."""
    job, parallelism, requests, other = drawn  # type: ignore[misc]
    rows = BatchRows(job, parallelism[None], Terms(mode, span_minutes=60))
    rows.pass_time(requests[None, :60], None, None)
    figures = rows.figures()[0].astype(np.float64)
    processed = np.cumsum(figures[..., FIGURE["records_in"]], axis=0)
    queued = figures[..., FIGURE["queued_records_last"]]
    for task, parents in enumerate(job.graph.upstream[:-1]):
        if parents:
            offered = processed[:, list(parents)] if parents == (0,) else _finished(rows, parents, len(processed))
            np.testing.assert_allclose(processed[:, task] + queued[:, task], offered.min(axis=1), rtol=1e-5, atol=1e-2)
    rows.pass_time(requests[None, 60:], None, other[None])
    assert_known_and_not_negative(rows.figures())


def _finished(rows: BatchRows, parents: tuple[int, ...], minutes: int) -> npt.NDArray[np.float64]:
    """Return the requests [minutes, parents] of batches that each parent had finished at the ends of the last hour's minutes."""
    known, finished = rows.schedule, np.zeros((minutes, len(parents)))
    for minute in range(minutes):
        mark = minute - 59
        for column, parent in enumerate(parents):
            there = (known.done[parent, 0] <= mark + 1e-9) & (known.arrived[0] < mark - 0.5)
            finished[minute, column] = known.size[0][there].sum()
    return finished


@given(batch_runs(), st.sampled_from(["clean", "slo", "compat"]))
def test_a_row_has_the_numbers_beside_others_that_it_has_alone(drawn: object, mode: Mode) -> None:
    """Identical bits in figures and sums, in every mode."""
    job, parallelism, requests, other = drawn  # type: ignore[misc]
    terms, two = Terms(mode, span_minutes=60), np.stack([parallelism, np.where(job.scalable, 1, 1)])
    together, alone = core_of(job, two, terms), core_of(job, two[:1], terms)
    for hour, plan in ((slice(60), None), (slice(60, 120), np.stack([other, other]))):
        both = np.stack([requests[hour], requests[hour][::-1]])
        many = together.pass_time(both, None, plan)
        one = alone.pass_time(both[:1].copy(), None, None if plan is None else plan[:1])
        assert (many.latency[0], many.busy_minutes[0], many.backlog_minutes[0]) == (
            one.latency[0],
            one.busy_minutes[0],
            one.backlog_minutes[0],
        )
        assert together.figures()[0].tobytes() == alone.figures()[0].tobytes()
