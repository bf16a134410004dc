"""One command on its way through an engine that may be away, refuse, or give up."""

from surescale.contracts.commands import Progress
from surescale.engines.ports.actuator import Accepted
from surescale.rescaler.execution import UnitsExecution
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, controller, decision, view
from tests.support.fake_engine import FakeEngine

T0 = START_MS


def work(**changes: object) -> tuple[UnitsExecution, FakeEngine]:
    """A command of the controller, not yet asked for, and an engine at the same time."""
    (command,) = controller().on_decision(decision(T0, {"map": 3}), view(), T0).commands
    return UnitsExecution(command, **changes), FakeEngine(now_ms=T0, jobs={JOB})  # type: ignore[arg-type]


def step(one: UnitsExecution, engine: FakeEngine, *, wall_ms: int = 0) -> list[Progress]:
    """One step at the engine's time."""
    return one.step(engine, now_ms=engine.now_ms, wall_ms=wall_ms)


def test_a_command_is_accepted_and_applied_when_the_job_runs_again() -> None:
    """Accepted at once, silent while the job restarts, applied with the times of the engine."""
    one, engine = work()
    assert [progress.status for progress in step(one, engine)] == ["accepted"]
    engine.now_ms = T0 + MINUTE_MS
    assert step(one, engine) == []
    engine.now_ms = T0 + 5 * MINUTE_MS
    (applied,) = step(one, engine)
    assert (applied.status, applied.at_ms, applied.duration_ms) == ("applied", T0 + 2 * MINUTE_MS, MINUTE_MS)
    assert one.ended


def test_beginning_again_changes_nothing_and_says_the_same() -> None:
    """After a restart the same command is asked for again and reported with the same times."""
    one, engine = work()
    step(one, engine)
    heir = UnitsExecution(one.command)
    engine.now_ms = T0 + 2 * MINUTE_MS
    reports = step(heir, engine)
    assert [(progress.status, progress.at_ms) for progress in reports] == [
        ("accepted", T0 + 2 * MINUTE_MS),
        ("applied", T0 + 2 * MINUTE_MS),
    ]
    assert engine.asked == [one.command.command_id] * 2


def test_a_refusal_is_a_failure_with_the_engines_code() -> None:
    """What the engine refuses is not tried again."""
    one, engine = work()
    engine.refuse_with = "UNKNOWN_PARALLEL_UNIT"
    (failed,) = step(one, engine)
    assert (failed.status, failed.code) == ("failed", "UNKNOWN_PARALLEL_UNIT")
    assert step(one, engine) == []


def test_an_engine_that_is_away_is_asked_again_after_growing_pauses() -> None:
    """No answer is no failure; the pauses double."""
    one, engine = work()
    engine.away_for = 2
    assert step(one, engine, wall_ms=0) == []
    assert (one.not_before_ms, one.away) == (200, "as the test wants")
    assert step(one, engine, wall_ms=100) == []
    assert engine.away_for == 1
    step(one, engine, wall_ms=200)
    assert one.not_before_ms == 600
    assert [progress.status for progress in step(one, engine, wall_ms=600)] == ["accepted"]
    assert one.away == ""


def test_an_engine_that_stays_away_until_the_deadline_makes_the_command_fail() -> None:
    """Nothing stays on its way forever."""
    one, engine = work()
    engine.away_for = 1
    engine.now_ms = T0 + 10 * MINUTE_MS
    assert [(progress.status, progress.code) for progress in step(one, engine)] == [("failed", "DEADLINE")]


def test_a_command_that_comes_after_its_deadline_is_not_asked_for() -> None:
    """What was meant for another hour is not done now."""
    one, engine = work()
    engine.now_ms = T0 + 10 * MINUTE_MS
    assert [progress.code for progress in step(one, engine)] == ["DEADLINE"]
    assert engine.asked == []


def test_a_command_that_the_engine_gave_up_has_failed() -> None:
    """A unit that is lost before the command takes effect is reported with the engine's code."""
    one, engine = work()
    step(one, engine)
    engine.lose_with, engine.now_ms = "UNIT_LOST", T0 + 3 * MINUTE_MS
    assert [(progress.status, progress.code) for progress in step(one, engine)] == [("failed", "UNIT_LOST")]


def test_an_engine_that_has_forgotten_is_asked_again() -> None:
    """An engine that lost its memory gets the command a second time, which is reported once."""
    one, engine = work()
    step(one, engine)
    fresh = FakeEngine(now_ms=T0 + 2 * MINUTE_MS, jobs={JOB})
    assert step(one, fresh) == []
    assert step(one, fresh) == []
    assert fresh.asked == [one.command.command_id]


def test_a_job_that_restarts_once_more_is_put_off_until_then() -> None:
    """A host that died meanwhile: the new end is told, and it is no failure."""
    one, engine = work()
    step(one, engine)
    engine._accepted[JOB] = Accepted(T0 + MINUTE_MS, T0 + 5 * MINUTE_MS)
    engine.now_ms = T0 + 2 * MINUTE_MS
    (put_off,) = step(one, engine)
    assert (put_off.status, put_off.at_ms, put_off.duration_ms) == ("accepted", T0 + 2 * MINUTE_MS, 3 * MINUTE_MS)
    assert step(one, engine) == []
    engine.now_ms = T0 + 5 * MINUTE_MS
    assert [progress.status for progress in step(one, engine)] == ["applied"]


def test_what_the_engine_has_done_in_time_is_not_called_late() -> None:
    """The actuator was away until after the deadline: what became of the command is looked up before it counts as failed."""
    one, engine = work()
    step(one, engine)
    heir = UnitsExecution(one.command)
    engine.now_ms = T0 + 30 * MINUTE_MS
    reports = step(heir, engine)
    assert [(progress.status, progress.at_ms) for progress in reports] == [
        ("accepted", T0 + 30 * MINUTE_MS),
        ("applied", T0 + 2 * MINUTE_MS),
    ]
    assert heir.ended
