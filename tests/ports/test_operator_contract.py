"""Jobs of the Flink operator keep the contract of engines that are asked for counts, on a fake API server and operator."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.ports.requirement_contract import BEFORE, JOB, RequirementContract, RequirementRig
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_operator import UPGRADES_IN_MS
from tests.support.fake_operator_rig import FakeOperatorRig, fake_operator


class TestOperatorAndFlink(RequirementContract):
    """Flink itself is asked what runs."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """With a fake JobManager."""
        with fake_operator(FakeJobManager()) as rig:
            yield rig


class TestOperatorAlone(RequirementContract):
    """As where figures come from Prometheus: the operator says what runs, and no more than that."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """Without a JobManager."""
        with fake_operator() as rig:
            yield rig

    def test_fewer_slots_than_asked_end_with_what_runs(self, rig: RequirementRig) -> None:
        """The operator does not say how much of a change runs: at the deadline all of it is taken back."""
        check_a_change_that_does_not_come(rig)


class TestUpgrades(RequirementContract):
    """Under the default scheduler, where Flink tells no requirement: each change stops the job and submits it again."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """With a JobManager that goes and comes with the job."""
        with fake_operator(FakeJobManager(), upgrades=True) as rig:
            yield rig

    def test_fewer_slots_than_asked_end_with_what_runs(self, rig: RequirementRig) -> None:
        """The job does not come up: at the deadline the operator is asked for what ran before."""
        rig.offer_slots(3)
        accepted, failed = rig.carry_out(rig.command({"count": 6}, deadline_s=200.0))
        assert (accepted.status, failed.status, failed.code, failed.reached) == ("accepted", "failed", "DEADLINE", BEFORE)
        assert "the operator is at work on it (lifecycle state UPGRADING)" in failed.detail
        rig.settle(BEFORE)


class TestUpgradesByTheOperatorsWord(TestUpgrades):
    """As where figures come from Prometheus."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """Without a JobManager."""
        with fake_operator(upgrades=True) as rig:
            yield rig


def test_an_upgrade_is_reported_with_the_time_that_the_job_was_down() -> None:
    """Which is what the next one is expected to take; its id stays."""
    with fake_operator(FakeJobManager(), upgrades=True) as rig:
        before = rig.api.look(JOB).epoch
        reports = rig.carry_out(rig.command())
        assert [report.status for report in reports] == ["accepted", "applied"]
        assert reports[-1].duration_ms >= UPGRADES_IN_MS
        assert rig.api.look(JOB).epoch == before
        can = rig.api.capabilities()
        assert (can.acts, can.takes_effect) == ("counts", "restart")


def check_a_change_that_does_not_come(rig: RequirementRig) -> None:
    """Have more asked for than there are slots, and the operator alone to say so."""
    rig.offer_slots(3)
    reports = rig.carry_out(rig.command({"count": 6}, deadline_s=200.0))
    assert [report.status for report in reports] == ["accepted", "partly", "failed"]
    partly, failed = reports[1:]
    assert (partly.reached, partly.waiting_for) == (BEFORE, "")
    assert "the operator is at work on it (lifecycle state UPGRADING); see the events of" in partly.detail
    assert (failed.code, failed.reached) == ("DEADLINE", BEFORE)
    rig.settle(BEFORE)


@pytest.fixture
def rig() -> Iterator[FakeOperatorRig]:
    """Whose changes a JobManager carries out."""
    with fake_operator(FakeJobManager()) as rig:
        yield rig


def test_a_checkpoint_is_requested_where_flink_waits_for_one(rig: FakeOperatorRig) -> None:
    """The operator asks Flink for the parallelism; that it takes effect soon is ours."""
    assert rig.manager is not None
    assert rig.operator.job is not None
    rig.operator.job.checkpoint_interval_ms = 10**9
    rig.pass_seconds(60.0)
    assert rig.carry_out(rig.command(), at_most_s=120.0)[-1].status == "applied"
    assert rig.manager.checkpoints_requested >= 1
