"""The fluid model against arithmetic, against Little's law, and against a simulation of single records."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model.attempts import Flow, FlowRows
from surescale.simulation.model.queueing import STEPS, FlowTables, queues, run_minute, served_at_most
from surescale.simulation.model.reward import mean_reward
from tests.unit.simulation.cases import chain, clarknet, column, graph, rows, sized
from tests.unit.simulation.oracle import arrival_times, mean_sojourn_minutes

DIAMOND = graph({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, {"a": 2.0, "b": 5.0, "c": 3.0, "d": 4.0})


def mean_latency_minutes(job: SizedJob, flow: Flow) -> float:
    """Return the fluid model's mean time in the job."""
    return float(flow.backlog_minutes.sum() / flow.arrivals.sum()) + job.path_minutes


def backlog(flow: Flow) -> list[float]:
    """Return the job's records at work or waiting at every minute's end."""
    waiting = flow.waiting[STEPS - 1 :: STEPS, :, 0].sum(axis=1)
    return [round(float(value), 6) for value in waiting]


def test_below_capacity_nothing_waits_and_the_busy_share_is_the_load() -> None:
    """Constant load of 0.8 instances on one: utilisation 0.8, latency the path alone."""
    job = sized(chain(1.0))
    flow = rows(job, 1).advance(column(*[80.0] * 30))
    assert not flow.waiting.any()
    np.testing.assert_allclose(flow.busy_minutes / flow.allocated_minutes, 0.8)
    assert mean_latency_minutes(job, flow) == pytest.approx(0.01)


def test_above_capacity_the_backlog_grows_by_the_excess() -> None:
    """150 arrive and 100 are served, every minute; then 40 arrive and the backlog falls by 60."""
    flow = rows(sized(chain(1.0)), 1).advance(column(150, 150, 150, 40, 40, 40))
    assert backlog(flow) == [50, 100, 150, 90, 30, 0]


def test_parallelism_multiplies_what_is_served() -> None:
    """Three instances serve 300 a minute."""
    assert backlog(rows(sized(chain(1.0)), 3).advance(column(310, 310))) == [10, 20]


def test_a_slow_task_shields_those_behind_it() -> None:
    """The second task gets what the first serves, so only the first has a queue."""
    flow = rows(sized(chain(1.0, 1.0)), [1, 1]).advance(column(150, 150))
    assert flow.waiting[-1, :, 0].tolist() == [0, 100, 0, 0]


def test_a_slower_task_behind_builds_a_queue_of_its_own() -> None:
    """The first serves 200 a minute, the second 100."""
    flow = rows(sized(chain(1.0, 1.0)), [2, 1]).advance(column(150, 150))
    assert flow.waiting[-1, :, 0].tolist() == [0, 0, 100, 0]


def test_a_join_waits_for_its_slower_parent() -> None:
    """Records matched late count in the job's backlog, at no queue of the join's own."""
    job = sized(graph({"fast": (), "slow": (), "join": ("fast", "slow")}))
    flow = rows(job, [5, 1, 5]).advance(column(150))
    assert flow.waiting[-1, :, 0].tolist() == [0, 0, 50, 0, 0]
    assert flow.served[-1, :, 0].tolist() == [150, 150, 100, 100, 100]


def test_what_entered_is_served_or_waits() -> None:
    """At every step and task, over restarts too."""
    job = sized(DIAMOND, load_parallelism=3.0)
    flow_rows = rows(job, [2, 3, 2, 2])
    flow_rows.restart(flow_rows.parallelism, 60_000, np.ones(1, dtype=np.bool_))
    flow = flow_rows.advance(column(100, 180, 20, 90))
    entered = np.cumsum(np.repeat(flow.arrivals, STEPS, axis=0) / STEPS, axis=0)
    lag = entered - flow.served[:, :, 0]
    assert (lag >= -1e-9).all()
    np.testing.assert_allclose(flow.waiting[:, 4, 0], lag[:, 4] - np.maximum(lag[:, 2], lag[:, 3]), atol=1e-9)


def test_waiting_time_follows_littles_law() -> None:
    """From empty to empty, the record-minutes waited at all tasks add up to the job's backlog integral (a chain)."""
    job = sized(chain(1.0, 1.1), load_parallelism=1.1)
    flow = rows(job, [1, 1]).advance(column(150, 30, 30, 30, 30, 30, 30))
    assert not flow.waiting[-1].any()
    np.testing.assert_allclose(flow.waited_ms[-1].sum() / 60_000, flow.backlog_minutes.sum())


def test_while_a_job_is_down_it_serves_nothing_and_its_source_goes_on() -> None:
    """The records are kept and served afterwards."""
    flow_rows = rows(sized(chain(1.0)), 2)
    flow_rows.restart(flow_rows.parallelism, 60_000, np.ones(1, dtype=np.bool_))
    flow = flow_rows.advance(column(100, 100, 100))
    assert flow.served[STEPS - 1 :: STEPS, 0, 0].tolist() == [100, 200, 300]
    assert flow.served[STEPS - 1 :: STEPS, 1, 0].tolist() == [0, 200, 300]
    assert flow.restarting[:, 0].tolist() == [True, False, False]


def test_a_quarter_of_a_minute_is_the_shortest_restart() -> None:
    """Three quarters of the first minute are left to work."""
    flow_rows = rows(sized(chain(1.0)), 2)
    flow_rows.restart(flow_rows.parallelism, 15_000, np.ones(1, dtype=np.bool_))
    assert flow_rows.advance(column(200)).served[STEPS - 1, 1, 0] == pytest.approx(150)


def test_idle_rows_are_skipped_without_changing_the_others() -> None:
    """One environment is overloaded, one is not: each is as if it were alone."""
    job = sized(chain(1.0))
    tables, most = FlowTables.of(job), served_at_most(FlowTables.of(job), np.array([[1, 1], [1, 4], [1, 1]]))
    both = run_minute(tables, np.zeros((3, 2)), np.array([150.0, 150.0]), most)
    assert queues(tables, both)[-1].T.tolist() == [[0, 50, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", ["j_2521346", "j_1351665", "j_3803524"])
def test_rows_do_not_depend_on_how_many_there_are(name: str) -> None:
    """One of 64 environments has, bit for bit, the figures it has alone."""
    load = clarknet()
    job, requests = load_job(name, load), load.requests[600:1880].reshape(64, 20).T.astype(np.float64)
    parallelism = np.tile(np.maximum(job.configured_parallelism - 2, 1), (64, 1))
    together = FlowRows(job, parallelism).advance(requests)
    alone = FlowRows(job, parallelism[:1]).advance(requests[:, 17:18])
    assert together.rows[:, 17].tobytes() == alone.rows[:, 0].tobytes()
    assert together.busy_minutes[:, 17].tobytes() == alone.busy_minutes[:, 0].tobytes()


def test_figures_do_not_depend_on_how_time_is_cut() -> None:
    """Sixty minutes in one call or in many."""
    load = clarknet()
    job = load_job("j_1351665", load)
    requests = load.requests[900:960, None].astype(np.float64)
    at_once = FlowRows(job, job.start_parallelism[None]).advance(requests).rows
    flow_rows = FlowRows(job, job.start_parallelism[None])
    pieces = [flow_rows.advance(part).rows for part in np.split(requests, [1, 2, 13, 40])]
    assert np.concatenate(pieces).tobytes() == at_once.tobytes()


@pytest.mark.parametrize("parallelism", [[3, 6, 4, 5], [2, 4, 3, 4], [2, 3, 2, 3], [1, 3, 3, 3]])
def test_latency_agrees_with_single_records(parallelism: list[int]) -> None:
    """Within one per cent of an event-driven simulation, from a light load to an overload that is worked off."""
    job = sized(DIAMOND, load_parallelism=4.0)
    requests = [60, 90, 110, 95, 80, 100, 70, 60, 90, 40, 30, 20, 20, 20, 20, 20, 20, 20, 20, 20]
    flow = rows(job, parallelism).advance(column(*requests))
    exact = mean_sojourn_minutes(job, [1, *parallelism, 1], arrival_times(requests))
    assert mean_latency_minutes(job, flow) == pytest.approx(exact, rel=0.01)


def test_latency_after_a_restart_agrees_with_single_records() -> None:
    """One minute down, then the backlog is worked off."""
    job = sized(DIAMOND, load_parallelism=4.0)
    requests, parallelism = [80] * 12, [3, 6, 4, 5]
    flow_rows = rows(job, parallelism)
    before = flow_rows.advance(column(*requests[:2]))
    flow_rows.restart(flow_rows.parallelism, 60_000, np.ones(1, dtype=np.bool_))
    after = flow_rows.advance(column(*requests[2:]))
    exact = mean_sojourn_minutes(job, [1, *parallelism, 1], arrival_times(requests), down=(2.0, 3.0))
    waited = before.backlog_minutes.sum() + after.backlog_minutes.sum()
    # The oracle loses the work that was in service, the fluid does not.
    assert waited / sum(requests) + job.path_minutes == pytest.approx(exact, rel=0.05)


def test_rewards_agree_with_an_independent_prototype() -> None:
    """Held at 5, and at the best uniform parallelism 6, over ClarkNet's second week (lambda 0.5, hourly blocks)."""
    load = clarknet()
    job = load_job("j_2521346", load)
    flow_rows = FlowRows(job, np.where(job.scalable, [[5], [6]], 1))
    requests = np.tile(load.requests[10_080:, None].astype(np.float64), (1, 2))
    flows = [flow_rows.advance(part) for part in np.split(requests, 42)]
    names = ("arrivals", "backlog_minutes", "busy_minutes", "allocated_minutes")
    series = [np.concatenate([getattr(flow, name) for flow in flows]) for name in names]
    held, best = (mean_reward(*(values[:, row] for values in series), job.path_minutes, 0.5) for row in (0, 1))
    assert (held, best) == (pytest.approx(-0.53, abs=0.01), pytest.approx(0.180, abs=0.002))
