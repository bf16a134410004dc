"""What closed loops make of decisions: the rescaler's own waits and limits."""

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.simulation.loops.rescaler import Rescaler, busy_minutes
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision, job


def made(at_ms: int, **sizes: int) -> Decision:
    """Return a decision for these sizes."""
    return decision(at_ms, sizes or None)


def sized(sizes: int) -> JobTopology:
    """Return the job with so many subtasks of each task."""
    return job(units=range(sizes))


def test_a_job_may_be_rescaled_again_after_delay_restart_and_rest() -> None:
    """Whole minutes: the restart and the gate's half a minute are rounded up."""
    assert busy_minutes(30_000, 1) == 2
    assert busy_minutes(31_000, 1) == 3
    assert busy_minutes(0, 0) == 1


def test_a_decision_waits_while_a_rescale_is_under_way() -> None:
    """The newest is what is done in the end, and nothing is done twice."""
    played = Rescaler(JobSettings(job=JOB), busy=3)
    assert played.wanted(made(START_MS, map=3, join=3), sized(2), START_MS) == {"map": 3, "join": 3}
    for minute, size in ((1, 4), (2, 5)):
        now_ms = START_MS + minute * MINUTE_MS
        assert not played.wanted(made(now_ms, map=size, join=size), sized(3), now_ms)
        assert played.waits
    now_ms = START_MS + 3 * MINUTE_MS
    assert played.wanted(None, sized(3), now_ms) == {"map": 5, "join": 5}
    assert not played.waits
    assert not played.wanted(None, sized(5), now_ms + 10 * MINUTE_MS)


def test_a_hold_takes_back_what_waits() -> None:
    """As in the pipeline: the newest decision counts."""
    played = Rescaler(JobSettings(job=JOB), busy=3)
    played.wanted(made(START_MS, map=3, join=3), sized(2), START_MS)
    played.wanted(made(START_MS + MINUTE_MS, map=4, join=4), sized(3), START_MS + MINUTE_MS)
    played.wanted(made(START_MS + 2 * MINUTE_MS), sized(3), START_MS + 2 * MINUTE_MS)
    assert not played.waits


def test_rescales_a_day_are_counted() -> None:
    """With one a day the second is not done."""
    played = Rescaler(JobSettings(job=JOB, rescales_a_day_max=1), busy=1)
    assert played.wanted(made(START_MS, map=3, join=3), sized(2), START_MS)
    later_ms = START_MS + 10 * MINUTE_MS
    assert not played.wanted(made(later_ms, map=4, join=4), sized(3), later_ms)
    assert not played.waits
