"""What a minute's samples show of a job that may stand still, and what a meter makes of it."""

import msgspec
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, TaskSample, TaskSpec
from surescale.contracts.restarts import LONGEST_MS, Look, RestartMeter, look_at

GROUPS = JobTopology(
    job="shop/orders",
    version=1,
    at_ms=0,
    attempt=7,
    engine="kafka",
    tasks=(TaskSpec(task="parse", parallelism=2), TaskSpec(task="count", upstream=("parse",), parallelism=1)),
)


def sample(task: str, subtask: int, busy_ms: int | None, idle_ms: int | None, attempt: int = 7) -> TaskSample:
    """Return the counters of a member."""
    return TaskSample(
        job=GROUPS.job,
        task=task,
        subtask=subtask,
        attempt=attempt,
        sampled_at_ms=MINUTE_MS,
        records_in=1,
        records_out=1,
        bytes_in=0,
        bytes_out=0,
        busy_ms=busy_ms,
        idle_ms=idle_ms,
        backpressured_ms=0,
        queued_records=0,
        parallelism=2 if task == "parse" else 1,
    )


def test_a_subtask_ran_for_as_long_as_it_was_busy_idle_or_held_back() -> None:
    """Members that do not report are missing; the lower of the tasks' middle counts."""
    everybody = [sample("parse", 0, 10_000, 20_000), sample("parse", 1, 5_000, 25_000), sample("count", 0, 0, 40_000)]
    assert look_at(GROUPS, everybody) == Look("", 7, (2, 1), 30_000.0)
    assert look_at(GROUPS, everybody[1:]) == Look("", 7, (2, 1), 15_000.0)


def test_what_nobody_tells_is_unknown_and_a_job_that_does_not_run_shows_nothing() -> None:
    """Groups without busy counters; a rebalance; samples of an attempt that is over."""
    members = [sample("parse", each, None, None) for each in range(2)]
    assert look_at(GROUPS, members) == Look("", 7, (2, 1), None)
    assert look_at(GROUPS, [*members, sample("count", 0, 1_000, 2_000)]) == Look("", 7, (2, 1), 3_000.0)
    assert look_at(msgspec.structs.replace(GROUPS, state="restarting"), members) is None
    assert look_at(GROUPS, []) is None
    assert look_at(GROUPS, [sample("parse", 0, 1, 1, attempt=6)]) is None


def noted(*looks: Look | None, meter: RestartMeter | None = None, every_ms: int = MINUTE_MS) -> int | None:
    """Return what a meter says after looks at the ends of minutes."""
    meter = meter or RestartMeter()
    for at, look in enumerate(looks, start=1):
        meter.note(at * every_ms, look)
    return meter.restart_ms


def ran(attempt: int, size: int, seconds: float | None, epoch: str = "") -> Look:
    """Return a look at a job of one task."""
    return Look(epoch, attempt, (size,), None if seconds is None else seconds * 1_000)


def test_a_job_that_comes_up_in_steps_is_down_until_its_first_whole_minute() -> None:
    """Two rescales: of each the first minute has ten seconds, the second twenty, the third is whole."""
    one = [ran(1, 2, 60), ran(2, 3, 10), ran(2, 3, 30), ran(2, 3, 90)]
    assert noted(*one) is None
    assert noted(*one, ran(3, 2, 10), ran(3, 2, 30), ran(3, 2, 90)) == (3 * 60 - 90 - 30) * 1_000


def test_a_new_submission_an_outage_and_another_attempt_in_between_are_told_apart() -> None:
    """An upgrade is no rescale; a job that stands still for an hour was not rescaled for an hour; two in a row are one."""
    assert noted(*(ran(each, each, 60, epoch=str(each)) for each in range(1, 6))) is None
    hour = [None] * (LONGEST_MS // MINUTE_MS)
    assert noted(ran(1, 1, 60), *hour, ran(2, 2, 60), *hour, ran(3, 3, 60)) is None
    in_a_row = [ran(1, 1, 60), None, ran(2, 2, 5), None, ran(3, 3, 60), None, None, None, ran(4, 1, 60)]
    assert noted(*in_a_row) == (150 + 180) * 1_000 / 2


@pytest.mark.parametrize(("stood", "told_ms"), [(2, None), (3, None), (4, 4 * MINUTE_MS), (10, 10 * MINUTE_MS)])
def test_a_single_long_rescale_is_told_at_once(stood: int, told_ms: int | None) -> None:
    """To assume less than what was seen would cost as much again; a second one that was shorter counts as much."""
    one = [ran(1, 1, 60), *[None] * stood, ran(2, 2, 60)]
    assert noted(*one) == told_ms
    assert noted(*one, None, ran(3, 1, 60)) == (stood + 1) * MINUTE_MS / 2


@pytest.mark.parametrize("tells", [60, None])
def test_members_that_change_between_two_looks_cost_less_than_can_be_seen(tells: float | None) -> None:
    """A cooperative rebalance of a second."""
    assert noted(*(ran(each, each, tells) for each in range(1, 4))) == 0


def test_a_meter_goes_on_from_what_was_known() -> None:
    """As a monitor does that starts again; what it measures itself gains weight with each rescale."""
    assert RestartMeter(240_000).restart_ms == 240_000
    slow = (look for attempt in range(1, 5) for look in (ran(attempt, attempt, 60), None, None))
    assert noted(*slow, ran(5, 5, 60), meter=RestartMeter(240_000)) == 2 * MINUTE_MS


def test_what_follows_a_rest_is_no_rescale() -> None:
    """However long that was, and at whatever size the job comes back."""
    meter = RestartMeter()
    for minute in range(1, 40):
        is_resting = minute % 4 in (2, 3)
        look = None if is_resting else ran(minute // 4 + 1, minute // 4 + 1, 60)
        meter.note(minute * MINUTE_MS, look, is_resting=is_resting)
    assert meter.restart_ms is None
