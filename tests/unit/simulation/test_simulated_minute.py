"""Samples of a simulated minute add up to its figures, exactly."""

import numpy as np
import pytest

from surescale.contracts.messages import TaskSample
from surescale.contracts.windows import FIGURE, Float32, blank_figures
from surescale.simulation.engine.cluster import SimulatedCluster
from surescale.simulation.engine.simulated_minute import SimulatedMinute
from surescale.simulation.model.worlds import CALM, PRESSURE, World, world_named
from tests.unit.simulation.cases import MINUTE, cluster, command

COUNTERS = (
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy_ms",
    "idle_ms",
    "backpressured_ms",
    "queue_wait_record_ms",
    "latency_record_ms",
)
Last = dict[tuple[str, int], TaskSample]


def added_up(minute: SimulatedMinute, samples: list[TaskSample], before: Last) -> tuple[dict[str, Float32], Last]:
    """Return the minute's rows by the pipeline's definition, and every subtask's last sample."""
    last: Last = {(sample.task, sample.subtask): sample for sample in samples}
    rows = {}
    for spec in minute.topology.tasks:
        mine = [sample for (task, _), sample in last.items() if task == spec.task]
        row = blank_figures().astype(np.float64)
        for name in COUNTERS:
            row[FIGURE[name]] = sum(getattr(sample, name) - _base(sample, before, name) for sample in mine)
        queued = [_known(sample) for sample in samples if sample.task == spec.task]
        row[FIGURE["queued_records_mean"]] = sum(queued) / len({sample.sampled_at_ms for sample in samples})
        row[FIGURE["queued_records_last"]] = sum(_known(sample) for sample in mine)
        row[FIGURE["parallelism"]] = mine[0].parallelism
        row[FIGURE["state_bytes"]] = sum(sample.state_bytes for sample in mine)
        earlier = [sample.attempt for (task, _), sample in before.items() if task == spec.task]
        row[FIGURE["restarts"]] = mine[0].attempt - max(earlier, default=mine[0].attempt)
        row[FIGURE["coverage"]] = len(mine) / mine[0].parallelism
        row[FIGURE["busy_ms_max"]] = max(sample.busy_ms - _base(sample, before, "busy_ms") for sample in mine)
        row[FIGURE["covered_ms"]] = MINUTE
        if not spec.upstream and before:
            row[FIGURE["arrived"]] = mine[0].arrived_records - before[spec.task, 0].arrived_records
        rows[spec.task] = row.astype(np.float32)
    return rows, last


def _known(sample: TaskSample) -> float:
    return np.nan if sample.queued_records is None else sample.queued_records


def _base(sample: TaskSample, before: Last, name: str) -> int:
    earlier = before.get((sample.task, sample.subtask))
    return getattr(earlier, name) if earlier is not None and earlier.attempt == sample.attempt else 0


def compare(of: SimulatedCluster, job: str) -> int:
    """Compare every minute of a job and return how many there were."""
    before: Last = {}
    minutes = of.minutes_after(job, 0, 10_000)
    for minute in minutes:
        rows, before = added_up(minute, of.samples(minute), before)
        together = np.stack([rows[spec.task] for spec in minute.topology.tasks])
        assert together.tobytes() == minute.rows.tobytes(), minute.minute_end_ms
    return len(minutes)


VARYING = world_named("drift+slow+skew+restart+starved", seed=3)
DEALT = world_named("dealt", seed=2)
BLIND = world_named("blind", seed=3)
BLIND_AND_ALL = world_named("blind+dealt+skew+drift+starved+waves", seed=3)
WAVES = world_named("waves", seed=3)


@pytest.mark.parametrize(
    "world",
    [CALM, PRESSURE, VARYING, DEALT, BLIND, WAVES, BLIND_AND_ALL],
    ids=["calm", "pressure", "straying", "dealt", "blind", "waves", "blind+"],
)
@pytest.mark.parametrize("interval_ms", [15_000, 30_000, 60_000])
def test_samples_add_up_to_the_rows(interval_ms: int, world: World) -> None:
    """Under load, through a rescale and a host's death, bit for bit."""
    of = cluster("j_2521346", "j_756953", minutes=40, sample_interval_ms=interval_ms, world=world)
    of.advance(of.start_ms + 5 * MINUTE)
    of.apply(command(of, 2), of.now_ms)
    of.advance(of.start_ms + 20 * MINUTE)
    of.apply(command(of, 7, generation=2), of.now_ms)
    of.advance(of.start_ms + 30 * MINUTE)
    of.host_dies("l1")
    of.advance(of.end_ms)
    assert (compare(of, "j_2521346"), compare(of, "j_756953")) == (40, 40)


@pytest.mark.parametrize("world", [CALM, VARYING], ids=["calm", "straying"])
def test_counters_never_fall_within_an_attempt(world: World) -> None:
    """A counter that falls would be taken for one that was reset."""
    of = cluster(minutes=30, world=world)
    of.advance(of.start_ms + 5 * MINUTE)
    of.apply(command(of, 1), of.now_ms)
    of.advance(of.end_ms)
    before: Last = {}
    for minute in of.minutes_after("j_2521346", 0, 100):
        for sample in of.samples(minute):
            earlier = before.get((sample.task, sample.subtask))
            if earlier is not None and earlier.attempt == sample.attempt:
                assert all(getattr(sample, name) >= getattr(earlier, name) for name in COUNTERS), sample
            before[sample.task, sample.subtask] = sample


def test_the_last_samples_lie_exactly_at_the_minutes_end() -> None:
    """Four instants, a quarter of a minute apart."""
    of = cluster()
    of.advance(of.start_ms + 2 * MINUTE)
    times = sorted({sample.sampled_at_ms for sample in of.samples(of.minutes_after("j_2521346", of.start_ms, 1)[0])})
    assert [at - of.start_ms for at in times] == [15_000, 30_000, 45_000, 60_000]


def test_every_subtask_reports_and_none_worked_longer_than_it_lived() -> None:
    """Busy and idle time of a running subtask add up to the time it ran, to the millisecond."""
    of = cluster()
    of.advance(of.start_ms + MINUTE)
    samples = of.samples(of.minutes_after("j_2521346", of.start_ms, 1)[0])
    assert {(sample.task, sample.subtask) for sample in samples if sample.task == "M1"} == {("M1", k) for k in range(5)}
    for sample in samples:
        assert abs(sample.busy_ms + sample.idle_ms - (sample.sampled_at_ms - of.start_ms)) <= 1


def test_a_restarting_job_is_neither_busy_nor_idle() -> None:
    """Its source still counts what enters."""
    of = cluster()
    of.apply(command(of, 4), of.now_ms)
    of.advance(of.start_ms + 2 * MINUTE)
    minute = of.minutes_after("j_2521346", of.start_ms + MINUTE, 1)[0]
    assert not minute.rows[:, [FIGURE["busy_ms"], FIGURE["idle_ms"]]].any()
    assert minute.rows[0, FIGURE["records_in"]] == of.workload.requests[of.workload.default_start_minute + 1]
    assert (minute.rows[:, FIGURE["restarts"]] == 1).all()


def test_state_is_kept_by_stateful_tasks_alone() -> None:
    """So many bytes per virtual node, spread over the subtasks."""
    of = cluster()
    of.advance(of.start_ms + MINUTE)
    state = of.minutes_after("j_2521346", of.start_ms, 1)[0].rows[:, FIGURE["state_bytes"]]
    assert state.tolist() == [0, 0, *[256 * 262_144] * 3, 0]
