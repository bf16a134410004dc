"""What holds for every graph, load and parallelism in the simulator."""

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.windows import FIGURE
from simulation.flow import Flow, FlowRows
from simulation.graphs import JobGraph
from simulation.jobs import SizedJob
from simulation.queueing import STEPS
from tests.unit.simulation.cases import graph, sized

EXAMPLES = settings(max_examples=60, deadline=None)


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


@EXAMPLES
@given(runs())
def test_nothing_is_lost_and_nothing_is_served_before_it_came(drawn: object) -> None:
    """What a task served is at most what its parents served, and the rest waits."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    served = sum(flow.served[-1, :, 0] for flow in run(job, parallelism, arrivals, restart))
    entered = arrivals.sum()
    assert served[0] == entered
    for task, parents in enumerate(job.graph.upstream):
        assert served[task] <= min((served[parent] for parent in parents), default=entered) + 1e-6


@EXAMPLES
@given(runs())
def test_busy_time_is_what_was_served_and_fits_into_the_time_there_was(drawn: object) -> None:
    """Busy plus idle is parallelism times the time the job ran."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    flow = run(job, parallelism, arrivals, restart)[-1]
    ran_ms = (len(arrivals) - restart - 1) * 60_000
    busy = flow.served[-1, :, 0] * job.service_minutes * 60_000
    np.testing.assert_allclose(busy + flow.idle_ms[-1, :, 0], parallelism * ran_ms, rtol=1e-6, atol=1e-3)


@EXAMPLES
@given(runs(), st.integers(0, 6))
def test_more_parallelism_never_delays_anything(drawn: object, which: int) -> None:
    """Raising one task by one never raises the job's backlog, at any step."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    more = parallelism.copy()
    more[1 + which % (job.size - 2)] += 1
    for before, after in zip(run(job, parallelism, arrivals, restart), run(job, more, arrivals, restart), strict=True):
        assert (after.served[:, -1] >= before.served[:, -1] - 1e-6).all()
        assert (after.backlog_minutes <= before.backlog_minutes + 1e-6).all()


@EXAMPLES
@given(runs())
def test_figures_are_whole_and_never_negative(drawn: object) -> None:
    """Counters of a minute are differences of whole numbers; only the mean queue has fractions."""
    job, parallelism, arrivals, restart = drawn  # type: ignore[misc]
    figures = np.concatenate([flow.rows for flow in run(job, parallelism, arrivals, restart)])
    assert (figures >= 0).all()
    whole = np.delete(figures, FIGURE["queued_records_mean"], axis=-1)
    assert (whole == np.floor(whole)).all()


@EXAMPLES
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


@EXAMPLES
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
