"""What every engine behind the actuator's port does alike that is asked for a parallelism and places its subtasks itself."""

import abc
import contextlib
from collections.abc import Iterator, Mapping

import pytest

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.engines.ports.actuator import EPOCH_CHANGED, REQUIREMENT_CHANGED, EngineApi, EngineRefused, EngineUnavailable
from surescale.rescaler.execution import RequirementExecution
from tests.support.count_commands import command_for

CLUSTER, JOB = "real", "real/orders"
BEFORE = {"parse": 1, "count": 2}
AFTER = {"parse": 1, "count": 3}


class RequirementRig(abc.ABC):
    """One engine that runs `JOB` as `BEFORE`, and what a test does to it."""

    api: EngineApi

    @abc.abstractmethod
    def pass_seconds(self, seconds: float) -> None:
        """Let time pass, or wait for as long."""

    @abc.abstractmethod
    def now_ms(self) -> int:
        """Return the time."""

    @abc.abstractmethod
    def offer_slots(self, slots: int) -> None:
        """Have this many slots for the job from now on."""

    @abc.abstractmethod
    def require(self, parallelism: Mapping[str, int]) -> None:
        """Let somebody else change the requirement."""

    @abc.abstractmethod
    def submit_again(self) -> None:
        """Upgrade the job: a new submission under the same name, as `BEFORE`."""

    @abc.abstractmethod
    def go_away(self) -> None:
        """Answer no call until `come_back`."""

    @abc.abstractmethod
    def come_back(self) -> None:
        """Answer again."""

    def settle(self, running: Mapping[str, int], within_s: float = 120.0) -> None:
        """Wait until this parallelism runs."""
        for _ in range(int(within_s * 2)):
            seen = self.api.look(JOB)
            if seen.running == running and seen.state == "running":
                return
            self.pass_seconds(0.5)
        raise AssertionError(f"{self.api.look(JOB)} does not run {running}")

    def command(self, after: Mapping[str, int] = AFTER, *, generation: int = 1, deadline_s: float = 600.0) -> RescheduleCommand:
        """Make a command for the job as it is seen now."""
        within_ms = int(deadline_s * 1_000)
        return command_for(self.api, JOB, after, generation=generation, now_ms=self.now_ms(), within_ms=within_ms)

    def carry_out(self, command: RescheduleCommand, *, at_most_s: float = 900.0) -> list[Progress]:
        """Let an actuator carry a command out to its end and return all reports."""
        work, reports = RequirementExecution(command), list[Progress]()
        for _ in range(int(at_most_s)):
            reports += work.step(self.api, now_ms=self.now_ms(), wall_ms=self.now_ms())
            if work.ended:
                return reports
            self.pass_seconds(1.0)
        raise AssertionError(f"no end after {reports}")


class RequirementContract(abc.ABC):
    """Tests written once for every such engine."""

    @abc.abstractmethod
    def opened(self) -> contextlib.AbstractContextManager[RequirementRig]:
        """Start an engine that runs the job."""

    @pytest.fixture
    def rig(self) -> Iterator[RequirementRig]:
        """An engine that runs the job."""
        with self.opened() as rig:
            yield rig

    def test_it_says_that_it_is_asked_for_counts(self, rig: RequirementRig) -> None:
        """And that it can take a request back, which the actuator relies on."""
        can = rig.api.capabilities()
        assert (can.acts, can.places, can.can_withdraw, can.is_simulated) == ("counts", "itself", True, False)
        assert can.can_rest == isinstance(self, RestContract)

    def test_a_look_says_what_is_required_and_what_runs(self, rig: RequirementRig) -> None:
        """Both are as the author wants them, and the job has an epoch."""
        seen = rig.api.look(JOB)
        assert (seen.required, seen.running, seen.state) == (BEFORE, BEFORE, "running")
        assert seen.epoch
        assert seen.rescale is None

    def test_a_request_is_required_at_once_and_runs_later(self, rig: RequirementRig) -> None:
        """Tasks that the command does not name keep their parallelism."""
        command = rig.command()
        rig.api.request(command)
        assert rig.api.look(JOB).required == AFTER
        rig.settle(AFTER)

    def test_the_same_command_again_changes_nothing(self, rig: RequirementRig) -> None:
        """Before it runs and after."""
        command = rig.command()
        rig.api.request(command)
        requirement = rig.api.look(JOB).requirement_id
        rig.api.request(command)
        rig.settle(AFTER)
        rig.api.request(command)
        assert rig.api.look(JOB).requirement_id == requirement

    def test_a_command_for_another_state_of_the_job_is_refused(self, rig: RequirementRig) -> None:
        """Somebody else was faster: their requirement stays."""
        command = rig.command()
        rig.require({"parse": 2, "count": 2})
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(command)
        assert refused.value.code == REQUIREMENT_CHANGED
        assert rig.api.look(JOB).required == {"parse": 2, "count": 2}

    def test_a_command_for_an_earlier_submission_is_refused(self, rig: RequirementRig) -> None:
        """The job was upgraded between decision and command."""
        command = rig.command()
        rig.submit_again()
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(command)
        assert refused.value.code == EPOCH_CHANGED
        assert rig.api.look(JOB).required == BEFORE

    def test_a_withdrawn_command_is_no_longer_required(self, rig: RequirementRig) -> None:
        """Taken back twice is taken back once."""
        command = rig.command()
        rig.api.request(command)
        rig.api.withdraw(command, BEFORE)
        assert rig.api.look(JOB).required == BEFORE
        rig.api.withdraw(command, BEFORE)
        rig.settle(BEFORE)

    def test_somebody_elses_requirement_is_not_withdrawn(self, rig: RequirementRig) -> None:
        """What is taken back must be what the command asked for."""
        command = rig.command()
        rig.api.request(command)
        rig.require({"parse": 2, "count": 2})
        with pytest.raises(EngineRefused) as refused:
            rig.api.withdraw(command, BEFORE)
        assert refused.value.code == REQUIREMENT_CHANGED
        assert rig.api.look(JOB).required == {"parse": 2, "count": 2}

    def test_an_unknown_job_is_refused(self, rig: RequirementRig) -> None:
        """By a look."""
        with pytest.raises(EngineRefused) as refused:
            rig.api.look(f"{CLUSTER}/nobody")
        assert refused.value.code == "UNKNOWN_JOB"

    def test_an_engine_that_does_not_answer_is_away(self, rig: RequirementRig) -> None:
        """That is no refusal; the same command asked again is taken on."""
        command = rig.command()
        rig.go_away()
        for call in (lambda: rig.api.look(JOB), lambda: rig.api.request(command)):
            with pytest.raises(EngineUnavailable):
                call()
        rig.come_back()
        rig.api.request(command)
        assert rig.api.look(JOB).required == AFTER

    # Carried out by the actuator

    def test_a_command_ends_as_applied_with_measured_times(self, rig: RequirementRig) -> None:
        """Accepted, then applied when what runs is what is required."""
        reports = rig.carry_out(rig.command())
        assert [report.status for report in reports] == ["accepted", "applied"]
        assert reports[-1].waited_ms is not None
        assert reports[-1].duration_ms >= reports[-1].waited_ms
        assert rig.api.look(JOB).running == AFTER

    def test_fewer_slots_than_asked_end_with_what_runs(self, rig: RequirementRig) -> None:
        """Partly, then failed at the deadline: the engine wants what runs and scales no more by itself."""
        rig.offer_slots(3)
        can = rig.api.capabilities()
        within_s = 30.0 + 3 * (can.stabilization_ms or 60_000) / 1_000
        reports = rig.carry_out(rig.command({"count": 6}, deadline_s=within_s))
        assert [report.status for report in reports] == ["accepted", "partly", "failed"]
        partly, failed = reports[1:]
        assert (partly.reached, partly.waiting_for) == (AFTER, "slots")
        assert (failed.code, failed.reached) == ("PARTLY", AFTER)
        rig.offer_slots(8)
        rig.pass_seconds(5.0)
        seen = rig.api.look(JOB)
        assert (seen.required, seen.running) == (AFTER, AFTER)

    def test_a_foreign_change_under_way_ends_the_command_and_stays(self, rig: RequirementRig) -> None:
        """No fight: what somebody else asked for is not overwritten."""
        command = rig.command()
        work = RequirementExecution(command)
        work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms())
        rig.require({"parse": 2, "count": 2})
        rig.pass_seconds(1.0)
        (failed,) = work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms())
        assert (failed.status, failed.code) == ("failed", REQUIREMENT_CHANGED)
        assert rig.api.look(JOB).required == {"parse": 2, "count": 2}


class RestContract(RequirementContract):
    """Tests written once for those that can run nothing of a job and start it again."""

    def test_it_runs_nothing_and_starts_again(self, rig: RequirementRig) -> None:
        """Of all tasks at once, by commands like any other."""
        nothing = dict.fromkeys(BEFORE, 0)
        to_rest = rig.carry_out(rig.command(nothing))
        assert (to_rest[-1].status, to_rest[-1].code) == ("applied", "")
        seen = rig.api.look(JOB)
        assert (seen.required, seen.running) == (nothing, nothing)
        assert rig.carry_out(rig.command(AFTER, generation=2))[-1].status == "applied"
        rig.settle(AFTER)
