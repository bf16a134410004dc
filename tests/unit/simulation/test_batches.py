"""Batches with barriers: closed forms, Little's law, conservation, traps, and an event-driven simulation beside them."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.contracts.windows import FIGURE
from surescale.policies.graph import job_graph
from surescale.policies.measure import measure
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.batches_core import BatchRows, fifo
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Float64, Mode, Span, Terms
from tests.unit.simulation.cases import chain, clarknet, graph, sized, workload
from tests.unit.simulation.event_oracle import as_the_paper_does, mean_wait

DIAMOND = graph({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, {"a": 2.0, "b": 5.0, "c": 3.0, "d": 4.0})


def core(job: SizedJob, parallelism: int | list[int], mode: Mode = "slo", **terms: object) -> BatchRows:
    """Return one row at a parallelism of the real tasks."""
    real = np.broadcast_to(np.array(parallelism, dtype=np.int64), (job.size - 2,))
    return BatchRows(job, np.concatenate([[1], real, [1]])[None], Terms(mode=mode, span_minutes=60, **terms))  # type: ignore[arg-type]


def passed(rows: BatchRows, *requests: int) -> Span:
    """Let one batch after another arrive, a minute apart."""
    return rows.pass_time(np.array([requests], dtype=np.float64), None, None)


def sojourns(rows: BatchRows) -> Float64:
    """Return the time in the job of the batches known."""
    known = rows.schedule
    return known.done[-1, 0] - known.arrived[0]


def figure(rows: BatchRows, name: str) -> Float64:
    """Return a figure of the last window, [L, N]."""
    return rows.figures()[0, :, :, FIGURE[name]].astype(np.float64)


def test_below_capacity_a_batch_takes_the_longest_path_of_service_times() -> None:
    """Constant s, S < 1: every task takes exactly ceil(s / p) d; of two branches the slower one counts."""
    job = sized(DIAMOND, 0.8)
    rows = core(job, [1, 2, 1, 3])
    passed(rows, *[90] * 20)
    service = np.ceil(90 / np.array([1, 2, 1, 3])) * job.service_minutes[1:-1]
    np.testing.assert_allclose(sojourns(rows), service[0] + max(service[1], service[2]) + service[3], rtol=1e-12)


def test_below_capacity_the_busy_share_is_the_service_time() -> None:
    """Time-average busy instances = S min(p, s) over a minute."""
    job = sized(chain(1.0), 0.8)
    for parallelism, size in ((1, 100), (4, 90), (5, 3)):
        rows = core(job, parallelism)
        span = passed(rows, *[size] * 60)
        service = np.ceil(size / parallelism) * job.service_minutes[1]
        assert span.busy_minutes[0] == pytest.approx(60 * service * min(parallelism, size))
        assert figure(rows, "busy_ms")[5, 1] == pytest.approx(60_000 * service * min(parallelism, size), rel=1e-6)


def test_above_capacity_every_batch_waits_longer_by_the_excess() -> None:
    """Constant s, S = 1.5: completions are 1.5 apart, so that the backlog grows by half a minute a batch."""
    rows = core(sized(chain(1.0)), 1)
    passed(rows, *[150] * 30)
    np.testing.assert_allclose(sojourns(rows), 1.5 + 0.5 * np.arange(30))


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_single_requests_with_equal_service_wait_as_m_d_1(rho: float) -> None:
    """Poisson arrivals, one instance: Wq = rho d / (2 (1 - rho)), within three standard errors."""
    generator = np.random.default_rng(4)
    waits = []
    for _ in range(40):
        arrivals = np.cumsum(generator.exponential(1 / rho, 20_000))
        waits.append((fifo(arrivals, np.ones(20_000)) - arrivals - 1.0)[2_000:].mean())
    error = np.std(waits, ddof=1) / np.sqrt(len(waits))
    assert abs(np.mean(waits) - rho / (2 * (1 - rho))) < 3 * error


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_single_requests_with_exponential_service_stay_as_m_m_1(rho: float) -> None:
    """W = d / (1 - rho)."""
    generator = np.random.default_rng(5)
    stays = []
    for _ in range(40):
        arrivals = np.cumsum(generator.exponential(1 / rho, 20_000))
        stays.append((fifo(arrivals, generator.exponential(1.0, 20_000)) - arrivals)[2_000:].mean())
    error = np.std(stays, ddof=1) / np.sqrt(len(stays))
    assert abs(np.mean(stays) - 1 / (1 - rho)) < 3 * error


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that a request has to wait."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_several_servers_wait_as_m_m_c(servers: int) -> None:
    """Wq = C(c, a) / (c mu - lambda) at 80 % load, with the event-driven simulation."""
    generator, offered, waits = np.random.default_rng(6), 0.8 * servers, []
    for _ in range(20):
        arrivals = np.cumsum(generator.exponential(1 / offered, 8_000))
        waits.append(mean_wait(arrivals, generator.exponential(1.0, 8_000), servers))
    error = np.std(waits, ddof=1) / np.sqrt(len(waits))
    assert abs(np.mean(waits) - erlang_c(servers, offered) / (servers - offered)) < 3 * error


def mean_number_inside(entered: Float64, left: Float64, weight: Float64) -> float:
    """Return the integral over time of what is inside, swept event by event."""
    times = np.concatenate([entered, left])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(np.concatenate([weight, -weight])[order])
    return float((inside[:-1] * np.diff(times[order])).sum())


def test_littles_law_holds_for_every_task_and_for_the_job() -> None:
    """From empty to empty, the number inside over time is the sum of the times spent, to 1e-9."""
    job = sized(DIAMOND, 1.2)
    rows = core(job, [1, 1, 1, 1])
    generator = np.random.default_rng(7)
    span = passed(rows, *generator.integers(1, 150, 60), *[0] * 60)
    known = rows.schedule
    assert known.done.max() < 0  # empty again
    size, arrived, done = known.size[0], known.arrived[0], known.done[:, 0]
    for task, parents in enumerate(job.graph.upstream):
        ready = done[list(parents)].max(axis=0) if parents else arrived
        assert mean_number_inside(ready, done[task], size) == pytest.approx((size * (done[task] - ready)).sum(), rel=1e-9)
    assert span.backlog_minutes[0] == pytest.approx(mean_number_inside(arrived, done[-1], size), rel=1e-9)


def test_nothing_is_lost_over_restarts() -> None:
    """Each hour begins with the batches that the last one left, and every task takes them in order, after its parents."""
    job, generator = sized(DIAMOND, 2.0), np.random.default_rng(8)
    rows = core(job, [3, 3, 3, 3], "compat")
    passed(rows, *[100] * 60)
    for _ in range(8):
        carried = rows.unfinished[0]
        rows.pass_time(np.full((1, 60), 100.0), None, job.within_limits(generator.integers(1, 4, (1, job.size))))
        known = rows.schedule
        assert known.size[0].tolist() == [100.0] * (carried + 60)
        np.testing.assert_allclose(np.diff(known.arrived[0]), 1.0)
        assert (np.diff(known.done[:, 0], axis=-1) >= -1e-9).all()
        for task, parents in enumerate(job.graph.upstream):
            assert all((known.done[task] >= known.done[parent] - 1e-9).all() for parent in parents)
    assert carried > 10  # there was something to lose


def stays(rows: LoopRows, hours: int) -> dict[int, float]:
    """Return the time in the job of the batches known after some hours, by their minute of arrival."""
    assert isinstance(rows._core, BatchRows)
    begun = np.rint(rows._core.schedule.arrived[0] + 60 * hours).astype(int)
    return dict(zip(begun.tolist(), sojourns(rows._core).tolist(), strict=True))


@pytest.mark.parametrize(("name", "load"), [("j_2521346", 4.0), ("j_1351665", 4.0), ("j_3803524", 2.0)])
def test_fifty_decisions_come_out_as_in_the_event_driven_simulation(name: str, load: float) -> None:
    """6, 16 and 46 tasks, random plans, restarts: reward to 1e-3 (RMSE), sojourn to the sum of one request per task."""
    job, generator = load_job(name, clarknet(), load), np.random.default_rng(9)
    plans = job.within_limits(generator.integers(1, 11, (50, job.size)))
    requests = clarknet().requests[: 60 * 51]
    told = as_the_paper_does(job, requests.tolist(), job.start_parallelism.tolist(), plans.tolist())
    terms = Terms(mode="compat", latency_weight=0.7, span_minutes=60)
    rows = LoopRows(job, clarknet(), np.array([60]), job.start_parallelism[None], terms)
    rewards, found = [], stays(rows, 1)
    for hour, plan in enumerate(plans, start=2):
        rewards.append(rows.reward(rows.step(plan[None]))[0])
        found |= stays(rows, hour)
    expected = -0.7 * np.array(told.latency) + 0.3 * np.array(told.utilisation)
    assert np.sqrt(np.mean((np.array(rewards) - expected) ** 2)) <= 1e-3
    assert max(abs(found[batch] - sojourn) for batch, sojourn in told.sojourn.items()) <= job.path_minutes


def test_compat_shows_fifty_nine_snapshots_the_first_of_them_from_before_the_restart() -> None:
    """T under the old parallelism, T + 2 to T + 59 under the new one; the minute of the restart is left out."""
    job = sized(chain(1.0))
    rows = LoopRows(job, workload(list(range(10, 190))), np.array([60]), np.array([[1, 2, 1]]), Terms("compat", span_minutes=60))
    rows.step(np.array([[1, 7, 1]]))
    parallelism = rows.observe().figures[0, :, 1, FIGURE["parallelism"]].tolist()
    assert parallelism == [2.0, *[7.0] * 58]
    assert rows.observe().figures[0, :3, 0, FIGURE["records_in"]].tolist() == [69.0, 71.0, 72.0]


def test_compat_restarts_even_a_job_that_is_left_alone() -> None:
    """Holding costs a minute an hour there, and nothing in the other modes."""
    for mode, restarts in (("clean", False), ("slo", False), ("compat", True)):
        job = sized(chain(1.0))
        rows = LoopRows(job, workload([60] * 300), np.array([60]), np.array([[1, 1, 1]]), Terms(mode, span_minutes=60))
        span = rows.step(np.array([[1, 1, 1]]))
        assert (bool(span.restarted[0]), bool(span.rescaled[0])) == (restarts, False), mode


def test_a_silent_snapshot_costs_a_whole_minute_per_request() -> None:
    """An hour at 3 minutes a batch: one of three snapshots sees a batch leave, the others count 1.0."""
    job = sized(chain(1.0))
    rows = LoopRows(job, workload([300] * 300), np.array([60]), np.array([[1, 1, 1]]), Terms("compat", span_minutes=60))
    assert 0.66 < rows.step(np.array([[1, 1, 1]])).latency[0] < 0.80


def test_what_an_overload_holds_back_is_in_the_full_latency_at_once() -> None:
    """Twenty batches of 150 requests, 1.5 minutes each: those that arrived wait longer than those that have left so far did."""
    rows = core(sized(chain(1.0)), 1, "compat")
    span = passed(rows, *[150] * 20)
    per_request = (1.5 + 0.5 * np.arange(20)) / 150
    assert span.full_latency[0] == pytest.approx(per_request.mean())
    assert span.latency[0] != pytest.approx(per_request.mean())
    silent = passed(rows, *[0] * 20)
    assert silent.full_latency[0] == 0.0


def test_compat_looks_at_utilisation_just_before_a_batch_arrives() -> None:
    """A task that is busy for 0.9 of every minute is seen idle; one that is busy throughout is seen so."""
    job = sized(chain(1.0))
    for requests, seen in ((90, 0.0), (230, 1.0)):
        rows = LoopRows(job, workload([requests] * 300), np.array([60]), np.array([[1, 1, 1]]), Terms("compat", span_minutes=60))
        for _ in range(2):
            span = rows.step(np.array([[1, 1, 1]]))
        # in the restart's wake two batches share a minute, and the load of 0.9 catches up within ten
        assert abs(span.utilisation[0] * 3 - seen) < 0.2, requests


def test_a_batch_that_ends_at_a_mark_is_not_in_service_there() -> None:
    """100 requests of 0.01 minutes end exactly as the next batch arrives: no float may turn that into a busy instant."""
    rows = core(sized(chain(1.0)), 1, "compat")
    rows.pass_time(np.full((1, 60), 100.0), None, None)
    span = rows.pass_time(np.full((1, 60), 100.0), None, None)
    assert span.utilisation[0] == 0.0
    np.testing.assert_allclose(span.busy_minutes, 60.0)


def test_minutes_without_requests_are_no_batches() -> None:
    """They neither take time nor count as latency."""
    rows = core(sized(chain(1.0), 0.5), 1)
    span = passed(rows, 100, 0, 100, 0, 0)
    assert span.latency[0] == 0.0
    assert figure(rows, "records_in")[-5:, 1].tolist() == pytest.approx([100, 0, 100, 0, 0])


def test_fewer_requests_than_instances_leave_instances_idle() -> None:
    """3 requests on 8 instances: one request's time, three instances busy."""
    job = sized(chain(1.0))
    rows = core(job, 8)
    span = passed(rows, 3)
    assert sojourns(rows)[0] == pytest.approx(job.service_minutes[1])
    assert span.busy_minutes[0] == pytest.approx(3 * job.service_minutes[1])


def test_a_task_without_service_time_passes_batches_through() -> None:
    """d = 0 between two tasks."""
    job = sized(chain(1.0, 0.0, 1.0), 0.4)
    rows = core(job, 1)
    passed(rows, 100, 100)
    np.testing.assert_allclose(sojourns(rows), 0.8)


def test_a_join_takes_a_batch_once_when_its_parents_end_together() -> None:
    """Two equal branches finish at the same instant; the join works on the batch once."""
    job = sized(graph({"a": (), "b": (), "c": ("a", "b")}), 0.2)
    rows = core(job, 1)
    passed(rows, *[100] * 10)
    np.testing.assert_allclose(sojourns(rows), 0.4)
    np.testing.assert_allclose(figure(rows, "records_in")[-10:, 3], 100.0)


def test_a_restart_does_unfinished_batches_again_at_the_new_parallelism() -> None:
    """At minute 10 a batch of 200 is half done; from minute 11 on two instances take one minute each, in order."""
    job = sized(chain(1.0))
    rows = core(job, 1, effect_minutes=0)
    passed(rows, *[0] * 9, 200)
    rows.pass_time(np.array([[200.0] * 5]), None, np.array([[1, 2, 1]]))
    known = rows.schedule
    assert (known.done[-1, 0] + 5).tolist() == pytest.approx([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])


def test_only_what_passes_the_slo_is_charged_in_units_of_the_slo() -> None:
    """SLO 0.5 minutes; batches take 1.2, then wait: the mean excess over it."""
    job = sized(chain(1.0), 0.5)
    assert job.slo_minutes == pytest.approx(0.5)
    assert passed(core(job, 1), *[90] * 20).latency[0] == 0.0
    late = passed(core(job, 1), 240, *[0] * 9)
    assert late.latency[0] == pytest.approx((1.2 - 0.5) / 0.5)


def test_batches_still_inside_count_with_their_age() -> None:
    """A batch of ten minutes, seen after six: 6 - 0.5 minutes late, and at most 10."""
    job = sized(chain(1.0), 0.5)
    assert passed(core(job, 1), 2_000, *[0] * 5).latency[0] == pytest.approx(5.5 / 0.5)
    assert passed(core(job, 1), 20_000, *[0] * 59).latency[0] == pytest.approx(10 / 0.5)


def test_the_figures_tell_rules_the_service_time_and_the_queue() -> None:
    """What a reactive rule measures on them: service time, load, and the requests that wait."""
    job = sized(chain(1.0, 2.0), 1.5)
    rows = core(job, [1, 1])
    passed(rows, *[100] * 60)
    measured = measure(rows.figures(), job_graph(job.specs()))
    np.testing.assert_allclose(measured.service_minutes[0], job.service_minutes, rtol=1e-6)
    np.testing.assert_allclose(measured.load, 100.0)
    done = rows.schedule.done[:, 0]
    # the second task serves two thirds of what comes; at the end a third of a batch is in service
    assert measured.backlog_records[0, 2] == pytest.approx(6_000 - 59.25 / 1.5 * 100, rel=1e-3)
    assert (done[2] > 0).sum() == 21


def test_overload_beyond_the_cap_merges_batches_and_loses_no_request() -> None:
    """Ten hours at three times what fits, restarted every hour: as much is left inside as uncapped, in far fewer batches."""
    job = sized(chain(1.0, 1.0))
    start = np.array([[1, 1, 1, 1]])
    capped, free = (BatchRows(job, start, Terms("compat", span_minutes=60), most) for most in (100, 10_000))
    for _ in range(10):
        for rows in (capped, free):
            rows.pass_time(np.full((1, 60), 300.0), None, start)
    assert capped.unfinished[0] <= 100 + 60 < free.unfinished[0]
    inside = [rows.schedule.size[rows.schedule.done[-1] > 0].sum() for rows in (capped, free)]
    assert inside[1] <= inside[0] <= 1.08 * inside[1]  # larger batches lose more work in a restart
    assert (np.diff(capped.schedule.arrived[0][-100:]) > 0).all()


@pytest.mark.parametrize("mode", ["clean", "slo", "compat"])
def test_rows_do_not_see_one_another(mode: Mode) -> None:
    """One row alone and beside 63 others, some overloaded: identical bits in figures, rewards and sums."""
    job, generator = load_job("j_1351665", clarknet()), np.random.default_rng(10)
    first, terms = generator.integers(60, 15_000, 64), Terms(mode=mode, span_minutes=60)
    start = job.within_limits(generator.integers(1, 11, (64, job.size)))
    plans = [job.within_limits(generator.integers(1, 11, (64, job.size))) for _ in range(4)]
    together, alone = LoopRows(job, clarknet(), first, start, terms), LoopRows(job, clarknet(), first[:1], start[:1], terms)
    for plan in plans:
        many, one = together.step(plan), alone.step(plan[:1])
        assert together.reward(many)[0] == alone.reward(one)[0]
        assert (many.busy_minutes[0], many.backlog_minutes[0]) == (one.busy_minutes[0], one.backlog_minutes[0])
        assert together.observe().figures[0].tobytes() == alone.observe().figures[0].tobytes()
