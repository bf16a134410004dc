"""One command on its way through an engine that remembers only what it was asked for."""

from collections.abc import Mapping
from dataclasses import replace

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.engines.ports.actuator import Accepted, JobStatus
from surescale.rescaler.execution import RequirementExecution
from tests.ports.requirement_contract import AFTER, BEFORE, JOB
from tests.support.fake_requirement_engine import FakeRequirementEngine
from tests.support.requirement_rig import FakeRequirementRig

T0 = 600_000
DEADLINE_S = 60


def opened(**changes: object) -> tuple[FakeRequirementRig, FakeRequirementEngine]:
    """An engine that runs the job."""
    fake = FakeRequirementEngine(now_ms=T0, **changes)  # type: ignore[arg-type]
    fake.submit(JOB, BEFORE)
    return FakeRequirementRig(fake), fake


def begun(rig: FakeRequirementRig, after: Mapping[str, int] = AFTER) -> RequirementExecution:
    """Work on a command that the engine has accepted."""
    work = RequirementExecution(rig.command(after, deadline_s=DEADLINE_S))
    assert [report.status for report in step(work, rig)] == ["accepted"]
    return work


def step(work: RequirementExecution, rig: FakeRequirementRig) -> list[Progress]:
    """One step now."""
    return work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms())


def test_times_are_those_that_the_engine_measured() -> None:
    """It waits three seconds for a checkpoint and stands still for one; the actuator looks only every five."""
    rig, _ = opened()
    work = begun(rig)
    rig.pass_seconds(5)
    (applied,) = step(work, rig)
    assert (applied.status, applied.waited_ms, applied.still_ms) == ("applied", 3_000, 1_000)
    assert (applied.at_ms, applied.duration_ms) == (T0 + 4_000, 4_000)


def test_an_engine_that_measures_nothing_leaves_the_pause_unknown() -> None:
    """The wait is then as long as it was seen; a pause that nobody saw is null, not 0."""

    class Silent(FakeRequirementEngine):
        def _settle(self, job: object) -> None:
            super()._settle(job)  # type: ignore[arg-type]
            job.pause = None  # type: ignore[attr-defined]

    fake = Silent(now_ms=T0, still_ms=0)
    fake.submit(JOB, BEFORE)
    rig = FakeRequirementRig(fake)
    work = begun(rig)
    rig.pass_seconds(3)
    (applied,) = step(work, rig)
    assert (applied.status, applied.waited_ms, applied.still_ms) == ("applied", 3_000, None)


def test_an_heir_goes_on_where_the_engine_is() -> None:
    """Killed after the request: the next actuator asks again, which changes nothing, and reports the end."""
    rig, fake = opened()
    work = begun(rig)
    rig.pass_seconds(2)
    reports = rig.carry_out(work.command)
    assert [report.status for report in reports] == ["accepted", "applied"]
    assert fake.writes == [(JOB, {"count": 3})]


def test_an_heir_after_the_deadline_takes_back_what_is_left() -> None:
    """The engine still wants what nobody wants any more."""
    rig, fake = opened(delay_ms=3_600_000)
    work = begun(rig)
    rig.pass_seconds(DEADLINE_S + 10)
    (accepted, failed) = rig.carry_out(work.command)
    assert (accepted.status, failed.code, failed.reached) == ("accepted", "DEADLINE", BEFORE)
    assert rig.api.look(JOB).required == BEFORE
    assert [parallelism for _, parallelism in fake.writes] == [{"count": 3}, BEFORE]


def test_a_command_that_comes_after_its_deadline_is_not_asked_for() -> None:
    """What was meant for another hour is not done now."""
    rig, fake = opened()
    command = rig.command(deadline_s=DEADLINE_S)
    rig.pass_seconds(DEADLINE_S)
    assert [(report.status, report.code) for report in rig.carry_out(command)] == [("failed", "DEADLINE")]
    assert fake.writes == []


def test_a_job_that_does_not_come_up_gets_its_old_requirement_back() -> None:
    """It restarts and restarts until the deadline."""
    rig, fake = opened()
    work = begun(rig)
    fake.stuck = "restarting"
    assert [(report.code, report.reached) for report in rig.carry_out(work.command)] == [("", {}), ("DEADLINE", BEFORE)]
    fake.stuck = None
    rig.settle(BEFORE)


def test_an_engine_that_is_away_at_the_deadline_is_asked_to_forget_for_two_minutes_more() -> None:
    """It comes back in time: nothing is left in it."""
    rig, _ = opened(delay_ms=3_600_000)
    work = begun(rig)
    rig.go_away()
    rig.pass_seconds(DEADLINE_S + 60)
    assert step(work, rig) == []
    rig.come_back()
    rig.pass_seconds(5)
    (failed,) = step(work, rig)
    assert (failed.code, failed.reached) == ("DEADLINE", BEFORE)
    assert rig.api.look(JOB).required == BEFORE


def test_an_engine_that_stays_away_ends_the_command() -> None:
    """Nothing stays on its way forever; what the engine wants is unknown, so nothing is said to be reached."""
    rig, _ = opened()
    work = begun(rig)
    rig.go_away()
    rig.pass_seconds(DEADLINE_S + 120)
    (failed,) = step(work, rig)
    assert (failed.status, failed.code, failed.reached) == ("failed", "DEADLINE", {})


def test_a_job_that_is_submitted_again_is_left_as_its_author_wants_it() -> None:
    """An upgrade under way: its parallelism is not touched."""
    rig, fake = opened()
    work = begun(rig)
    rig.submit_again()
    rig.pass_seconds(1)
    (failed,) = step(work, rig)
    assert failed.code == "EPOCH_CHANGED"
    assert rig.api.look(JOB).required == BEFORE
    assert len(fake.writes) == 1


def test_no_task_of_a_job_that_is_started_is_left_at_rest() -> None:
    """The members of one of its groups do not come up in time. Nobody would ask for them later: the others run."""

    class Half(FakeRequirementEngine):
        def look(self, job: str) -> JobStatus:
            return replace(super().look(job), running={"parse": 0, "count": 2})

    fake = Half(now_ms=T0)
    fake.submit(JOB, {"parse": 0, "count": 0})
    rig = FakeRequirementRig(fake)
    work = begun(rig, BEFORE)
    rig.pass_seconds(DEADLINE_S + 1)
    (failed,) = step(work, rig)
    assert (failed.code, failed.reached) == ("DEADLINE", {})
    assert rig.api.look(JOB).required == BEFORE


def test_a_job_that_ended_ends_its_command() -> None:
    """Cancelled or failed for good."""
    rig, fake = opened()
    work = begun(rig)
    fake.stuck = "failed"
    rig.pass_seconds(1)
    assert [report.code for report in step(work, rig)] == ["JOB_NOT_RUNNING"]


def test_an_answer_that_was_lost_is_no_second_request() -> None:
    """The engine took the command on, but its answer did not arrive."""

    class Lossy(FakeRequirementEngine):
        lose = True

        def request(self, command: RescheduleCommand) -> Accepted:
            accepted = super().request(command)
            if self.lose:
                self.lose, self.away_for = False, 1
                self._job(command.job)
            return accepted

    fake = Lossy(now_ms=T0)
    fake.submit(JOB, BEFORE)
    rig = FakeRequirementRig(fake)
    reports = rig.carry_out(rig.command())
    assert [report.status for report in reports] == ["accepted", "applied"]
    assert len(fake.writes) == 1
