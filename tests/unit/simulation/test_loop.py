"""The closed loop of many rows: the fast core beside the pipeline's own, limits, rounding, masked minutes, copies."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.messages import JobTopology
from surescale.contracts.waits import counted_waits, minutes_above
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import FIGURE, FIGURES
from surescale.policies.features import encode
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Gap, Workload
from surescale.simulation.loops.batches_core import BatchRows
from surescale.simulation.loops.hourly import HourlyFigures
from surescale.simulation.loops.records_core import RecordRows
from surescale.simulation.loops.rows import LoopRows, core_of
from surescale.simulation.loops.terms import Mode, Terms
from surescale.simulation.model.queueing import Int64
from surescale.simulation.model.worlds import world_named
from tests.support.builders import row
from tests.unit.simulation.cases import chain, clarknet, sized, workload

MODES: tuple[Mode, ...] = ("clean", "slo", "compat")


def plans(job: SizedJob, rows: int, hours: int, seed: int = 1) -> list[Int64]:
    """Return random plans within the job's limits."""
    generator = np.random.default_rng(seed)
    return [job.within_limits(generator.integers(1, 11, (rows, job.size))) for _ in range(hours)]


def loop(job: SizedJob, load: Workload, terms: Terms, rows: int = 4) -> LoopRows:
    """Return rows at different hours of a workload, at their start parallelism."""
    first = 120 + 60 * np.arange(rows)
    return LoopRows(job, load, first, np.tile(job.start_parallelism, (rows, 1)), terms)


@pytest.mark.parametrize("name", ["j_2521346", "j_1351665", "j_3803524"])
def test_whole_minutes_agree_with_the_quarters_of_the_pipeline(name: str) -> None:
    """Queues at minute marks to rounding; busy time exactly; latency to 0.02 minutes, in hours in which queues come and go."""
    job = load_job(name, clarknet())
    fast = loop(job, clarknet(), Terms(span_minutes=60), 16)
    pipeline = loop(job, clarknet(), Terms(span_minutes=60, engine_steps=True), 16)
    for plan in plans(job, 16, 6):
        mine, theirs = fast.step(plan), pipeline.step(plan)
        np.testing.assert_allclose(mine.utilisation, theirs.utilisation, rtol=1e-9)
        np.testing.assert_allclose(mine.latency, theirs.latency, atol=0.02)
        assert mine.inside is not None
        assert theirs.inside is not None
        np.testing.assert_allclose(mine.inside, theirs.inside, atol=1e-6, rtol=1e-9)
        np.testing.assert_equal(mine.late_minutes, theirs.late_minutes)
        here, there = fast.observe().figures, pipeline.observe().figures
        for figure in ("queued_records_last", "records_in", "parallelism", "restarts", "coverage"):
            at = FIGURE[figure]
            np.testing.assert_allclose(here[..., at], there[..., at], atol=1.01, rtol=1e-6, err_msg=figure)
        np.testing.assert_allclose(here[..., FIGURE["busy_ms"]], there[..., FIGURE["busy_ms"]], atol=1.5, rtol=1e-5)
        np.testing.assert_allclose(here[..., FIGURE["idle_ms"]], there[..., FIGURE["idle_ms"]], atol=1.5, rtol=1e-5)


def test_a_bound_on_latency_shows_how_long_records_waited_on_the_last_day() -> None:
    """As many minutes above it as were counted, whatever the time of day; without a bound nobody tells policies."""
    job, bound = load_job("j_2521346", clarknet()), LatencyBound(seconds=30.0)
    rows = loop(job, clarknet(), Terms(span_minutes=10, latency_bound=bound), 2)
    late, own = np.zeros((2, 0)), 60.0 * job.path_minutes
    for at in range(30 * 6):
        span = rows.step(np.tile(job.start_parallelism if at % 40 else np.ones_like(job.start_parallelism), (2, 1)))
        assert span.late_minutes is not None
        late = np.concatenate([late, span.late_minutes[:, None]], axis=1)
    seen = rows.observe()
    assert seen.waits_s is not None
    of_hour = (rows.minutes - 1) % 60 + 1
    assert of_hour.tolist() == [60, 60]
    above = [minutes_above(counted_waits(waits), bound.seconds - own) for waits in seen.waits_s]
    assert above == late[:, -24 * 6 :].sum(axis=1).tolist() != [0, 0]
    rows.step(np.tile(job.start_parallelism, (2, 1)))
    later = rows.observe().waits_s
    assert later is not None
    assert np.isfinite(later).sum(axis=1).tolist() == [23 * 60 + 10] * 2
    assert loop(job, clarknet(), Terms()).observe().waits_s is None


def test_spans_of_ten_minutes_end_in_the_same_queues_as_one_hour() -> None:
    """However time is cut, the lags are the same: six spans of ten minutes and one of sixty."""
    job = load_job("j_1351665", clarknet())
    short, long = (loop(job, clarknet(), Terms(span_minutes=span)) for span in (10, 60))
    plan = plans(job, 4, 1)[0]
    long.step(plan)
    for _ in range(6):
        short.step(plan)
    np.testing.assert_allclose(short.observe().figures, long.observe().figures, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("world", ["calm", "pressure", "skew+drift", "restart"])
def test_minute_by_minute_ends_where_a_span_does(world: str) -> None:
    """Also where a change begins minutes later, and stops the job for several minutes or for a part of one."""
    job = load_job("j_2521346", clarknet(), 5.0)
    restart_ms = world_named("restart").restart_ms if world == "restart" else 90_000
    terms = Terms(world=world_named(world), restart_ms=restart_ms, span_minutes=10)
    minutes, span = loop(job, clarknet(), terms), loop(job, clarknet(), terms)
    for plan in plans(job, 4, 3):
        whole = span.step(plan)
        parts = [minutes.step_minute(plan), *(minutes.step_minute(None) for _ in range(9))]
        np.testing.assert_allclose(sum(part.backlog_minutes for part in parts), whole.backlog_minutes, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(minutes.observe().figures, span.observe().figures, rtol=1e-5, atol=2e-2)


def test_a_change_takes_effect_a_minute_later_and_stops_the_job_for_one() -> None:
    """Minute 0 at the old parallelism, minute 1 down, minute 2 at work."""
    job = sized(chain(1.0))
    rows = LoopRows(job, workload([100] * 300), np.array([60]), np.array([[1, 2, 1]]), Terms(span_minutes=60))
    span = rows.step(np.array([[1, 4, 1]]))
    figures = rows.observe().figures[0, :4, 1]
    assert figures[:, FIGURE["parallelism"]].tolist() == [2, 4, 4, 4]
    assert figures[:, FIGURE["restarts"]].tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(figures[:, FIGURE["records_in"]], [100, 0, 200, 100], rtol=1e-6)
    assert (span.rescaled[0], span.restarted[0], span.allocated_minutes[0]) == (True, True, 2 + 59 * 4)


def test_a_restart_longer_than_a_span_goes_on_in_the_next_one() -> None:
    """Fifteen minutes down, spans of ten: at work again in the sixteenth minute."""
    job = sized(chain(1.0))
    terms = Terms(span_minutes=10, restart_ms=15 * 60_000, effect_minutes=0)
    rows = LoopRows(job, workload([100] * 300), np.array([60]), np.array([[1, 2, 1]]), terms)
    for _ in range(2):
        rows.step(np.array([[1, 8, 1]]))
    served = rows.observe().figures[0, -20:, 1, FIGURE["records_in"]]
    assert np.flatnonzero(served > 0).tolist() == [15, 16, 17, 18, 19]


def test_a_restart_of_a_quarter_minute_runs_on_the_pipelines_steps() -> None:
    """Whole minutes cannot tell it."""
    job = sized(chain(1.0))
    start = np.array([[1, 2, 1]])
    assert isinstance(core_of(job, start, Terms()), RecordRows)
    assert not isinstance(core_of(job, start, Terms(restart_ms=15_000)), RecordRows)
    assert isinstance(core_of(job, start, Terms(mode="slo", restart_ms=15_000)), BatchRows)


@pytest.mark.parametrize("mode", MODES)
def test_the_encoder_takes_the_figures_of_every_mode(mode: Mode) -> None:
    """Finite numbers in every slot; 60 snapshots, 59 in compat."""
    rows = loop(load_job("j_2521346", clarknet()), clarknet(), Terms(mode=mode, span_minutes=60))
    rows.step(rows.observe().current)
    seen = rows.observe()
    encoded = encode(seen.figures, rows.graph, seen.ends_ms, seen.hourly_load)
    assert seen.figures.shape == (4, 59 if mode == "compat" else 60, 6, len(FIGURES))
    assert np.isfinite(encoded.x).all()
    assert encoded.mask.all()


@pytest.mark.parametrize("terms", [*(Terms(mode, span_minutes=60) for mode in MODES), Terms(engine_steps=True)])
def test_a_copy_lives_on_by_itself(terms: Terms) -> None:
    """What happens to the twin leaves the original's future as it was."""
    job = load_job("j_2521346", clarknet())
    rows, reference = (loop(job, clarknet(), terms) for _ in range(2))
    twin, steps = rows.copy(), plans(job, 4, 2)
    seen = rows.observe().figures.copy()
    twin.step(steps[1])
    assert twin.observe().figures.tobytes() != seen.tobytes()
    assert rows.observe().figures.tobytes() == seen.tobytes()
    assert rows.reward(rows.step(steps[0])).tobytes() == reference.reward(reference.step(steps[0])).tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_minutes_in_a_gap_count_for_nothing_and_are_not_shown(mode: Mode) -> None:
    """An hour with a gap of twenty minutes: forty count, twenty are no reported minutes."""
    job = sized(chain(1.0))
    load = workload([50] * 140 + [0] * 20 + [50] * 140, gaps=(Gap(140, 159),))
    rows = LoopRows(job, load, np.array([120]), np.array([[1, 1, 1]]), Terms(mode=mode, span_minutes=60))
    span = rows.step(np.array([[1, 1, 1]]))
    assert (span.counted_minutes[0], span.allocated_minutes[0]) == (39 if mode == "compat" else 40, 40)
    assert np.isnan(rows.observe().figures[0, :, :, FIGURE["coverage"]]).all(axis=1).sum() == 20
    if mode != "compat":
        assert span.utilisation[0] == pytest.approx(0.5)


def test_the_pipelines_core_leaves_gaps_out_as_well() -> None:
    """The same sums over the same forty minutes."""
    job, load = sized(chain(1.0)), workload([50] * 140 + [0] * 20 + [50] * 140, gaps=(Gap(140, 159),))
    spans = []
    for terms in (Terms(span_minutes=60), Terms(span_minutes=60, engine_steps=True)):
        rows = LoopRows(job, load, np.array([120]), np.array([[1, 1, 1]]), terms)
        spans.append(rows.step(np.array([[1, 2, 1]])))
        assert np.isnan(rows.observe().figures[0, :, :, FIGURE["coverage"]]).all(axis=1).sum() == 20
    fast, pipeline = spans
    assert fast.counted_minutes[0] == pipeline.counted_minutes[0] == 40
    assert fast.allocated_minutes[0] == pipeline.allocated_minutes[0] == 1 + 39 * 2
    np.testing.assert_allclose(fast.busy_minutes, pipeline.busy_minutes)


def test_an_hour_of_which_no_minute_counts_has_no_reward() -> None:
    """Two hours without a record of anything."""
    job = sized(chain(1.0))
    load = workload([50] * 120 + [0] * 120, gaps=(Gap(120, 239),))
    rows = LoopRows(job, load, np.array([120]), np.array([[1, 1, 1]]), Terms(span_minutes=60))
    span = rows.step(np.array([[1, 1, 1]]))
    assert (span.counted_minutes[0], rows.reward(span)[0], span.allocated_minutes[0]) == (0, 0, 0)


def test_hourly_loads_leave_gaps_out() -> None:
    """The hour of a gap is the mean of its other minutes; before the trace nothing is known."""
    load = workload([10] * 60 + [20] * 30 + [0] * 30 + [30] * 60, gaps=(Gap(90, 119),))
    hours = HourlyFigures.loads(load.requests, load.masked).before(np.array([180, 150]))
    assert hours[0, -3:].tolist() == [10.0, 20.0, 30.0]
    assert hours[1, -3:].tolist() == [10.0, 20.0, 30.0]
    assert np.isnan(hours[:, :-3]).all()


def test_the_last_hour_is_known_as_far_as_it_has_come() -> None:
    """At minute 90 of 60 x 10 and then 20s: one whole hour, and half of the next."""
    hours = HourlyFigures.loads(np.array([10.0] * 60 + [20.0] * 60)).before(np.array([90, 60]))
    assert hours[0, -2:].tolist() == [10.0, 20.0]
    assert (np.isnan(hours[1, -2]), hours[1, -1]) == (True, 10.0)


def test_hourly_peaks_are_those_of_the_pipeline() -> None:
    """What a loop says of a trace's hours is what a pipeline finds that was there from the first minute, a gap included."""
    generator = np.random.default_rng(3)
    load = workload([*generator.integers(1, 500, 170), *[0] * 20, *generator.integers(1, 500, 75)], gaps=(Gap(170, 189),))
    pipeline, spec = WindowHistory("sim/chain", 5), sized(chain(1.0)).specs()
    topology = JobTopology(job="sim/chain", version=0, at_ms=0, tasks=spec)
    peaks = HourlyFigures.peaks(load.requests, load.masked)
    for minute, (count, gap) in enumerate(zip(load.requests.tolist(), load.masked.tolist(), strict=True), 1):
        rows = {} if gap else {spec[0].task: row(records_in=count)}
        window = pipeline.close(load.minute_start_ms(minute), rows, topology)
        np.testing.assert_allclose(window.hourly_peak[-6:], peaks.before(np.array([minute]))[0, -6:], rtol=1e-6)


def test_limits_bind_every_step() -> None:
    """Bounds of 1 to 10, source and sink at 1, and the total by one common cap."""
    job = load_job("j_3803524", clarknet())
    wanted = job.within_limits(np.full((1, job.size), 50))
    assert wanted[0, [0, 1, -1]].tolist() == [1, 4, 1]  # 44 tasks x 5 would pass 200
    rows = loop(job, clarknet(), Terms(span_minutes=60), 1)
    rows.step(np.full((1, job.size), 50))
    assert rows.observe().current.tolist() == wanted.tolist()


def test_the_cap_leaves_rows_within_the_limit_alone() -> None:
    """Only the row that passes the total is lowered."""
    job = load_job("j_3803524", clarknet())
    few, many = np.full(job.size, 4), np.full(job.size, 5)
    few[1] = 10
    both = job.within_limits(np.stack([few, many]))
    assert both[0, 1:4].tolist() == [10, 4, 4]
    assert both[1, 1:4].tolist() == [4, 4, 4]


def test_rewards_weigh_latency_and_utilisation() -> None:
    """r = -lambda latency + (1 - lambda) utilisation: a job at half load, its path of 0.01 minutes."""
    job = sized(chain(1.0))
    rows = LoopRows(job, workload([50] * 300), np.array([60]), np.array([[1, 1, 1]]), Terms(latency_weight=0.7, span_minutes=60))
    assert rows.reward(rows.step(np.array([[1, 1, 1]])))[0] == pytest.approx(-0.7 * 0.01 + 0.3 * 0.5)


@pytest.mark.parametrize("mode", ["clean", "slo"])
def test_only_the_full_latency_passes_ten_minutes(mode: Mode) -> None:
    """Four hours at twice the capacity: what the reward takes stops at the cap, the full latency goes on."""
    job = sized(chain(1.0))
    rows = LoopRows(job, workload([200] * 600), np.array([60]), np.array([[1, 1, 1]]), Terms(mode, span_minutes=60))
    *_, before, last = (rows.step(np.array([[1, 1, 1]])) for _ in range(4))
    assert last.latency[0] == before.latency[0]
    assert last.full_latency[0] > before.full_latency[0] > before.latency[0]


def test_the_fast_core_is_blind_to_how_small_a_service_time_is() -> None:
    """A task that takes a billionth of the others neither waits nor spoils the sums."""
    job = sized(chain(1.0, 1e-9, 0.0, 1.0))
    rows = LoopRows(job, workload([150] * 300), np.array([60]), np.array([[1, 1, 1, 1, 2, 1]]), Terms(span_minutes=60))
    rows.step(np.array([[1, 1, 1, 1, 2, 1]]))
    queued = rows.observe().figures[0, -1, :, FIGURE["queued_records_last"]]
    np.testing.assert_allclose(queued, [0, 6_000, 0, 0, 0, 0], atol=1e-3)
