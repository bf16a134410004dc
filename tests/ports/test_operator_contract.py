"""Jobs of the Flink operator keep the contract of engines that are asked for counts, on a played API server and operator."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from engines.flink.client import FlinkClient
from engines.kubernetes.client import KubernetesClient
from rescaler.actuators.flink import FlinkEngine
from rescaler.actuators.flink_operator import FlinkOperatorEngine
from runtime.access import Access
from tests.ports.requirement_contract import BEFORE, CLUSTER, RequirementContract, RequirementRig
from tests.support.operator_rig import NAME, VERTICES, OperatedRig, operated_job
from tests.support.played_api_server import TOKEN, PlayedApiServer
from tests.support.played_jobmanager import PlayedJobManager
from tests.support.played_objects import PlayedObject
from tests.support.played_operator import PlayedOperator, flink_deployment

BY_NAME = {task: task for task in BEFORE}
"""A played JobManager calls its vertices so."""


class PlayedOperatorRig(OperatedRig):
    """All of it is played, on the clock of the API server."""

    def __init__(
        self, server: PlayedApiServer, client: KubernetesClient, flink: FlinkEngine | None, manager: PlayedJobManager | None
    ):
        self.server, self.client, self.manager = server, client, manager
        self.job = operated_job("shop", VERTICES if manager is None else BY_NAME)
        self.object = PlayedObject(self.job.target.path, flink_deployment("shop", NAME, self.before))
        server.objects[self.object.path] = self.object
        self.operator = PlayedOperator(lambda: self.object.document, self.object_says, self.now_ms, manager)
        self.submit_again()
        self.api = FlinkOperatorEngine(client, {NAME: self.job}, CLUSTER, flink)

    def pass_seconds(self, seconds: float) -> None:
        """Let the operator look, as it does at once after a change, and move the clock."""
        self.operator.look()
        self.server.now_ms += int(seconds * 1_000)
        if self.manager is not None:
            self.manager.now_ms = self.server.now_ms
        self.operator.look()

    def now_ms(self) -> int:
        """The clock."""
        return self.server.now_ms

    def write(self, configuration: Mapping[str, str]) -> None:
        """As with ``kubectl edit``."""
        self.object.merge({"spec": {"flinkConfiguration": dict(configuration)}}, "kubectl-edit")

    def object_says(self, status: dict[str, Any]) -> None:
        """Write the status of the present object."""
        self.object.say(status)

    def go_away(self) -> None:
        """Its store has no leader."""
        self.server.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        self.server.is_away = False


@contextlib.contextmanager
def played_operator(manager: PlayedJobManager | None = None) -> Iterator[PlayedOperatorRig]:
    """Start a rig: with a JobManager, Flink is asked what runs; without one, the operator's word counts."""
    server = PlayedApiServer()
    with contextlib.ExitStack() as stack:
        answering = stack.enter_context(server.serving())
        token = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".token"))
        token.write(TOKEN)
        token.flush()
        client = stack.enter_context(contextlib.closing(KubernetesClient(answering.url, Access(token_file=token.name))))
        flink = None
        if manager is not None:
            manager.configuration["kubernetes.cluster-id"] = "orders"
            rest = stack.enter_context(contextlib.closing(FlinkClient(stack.enter_context(manager.serving()).url)))
            flink = FlinkEngine(rest, CLUSTER, lambda: manager.now_ms, sleep=lambda seconds: None)
        yield PlayedOperatorRig(server, client, flink, manager)


class TestOperatorAndFlink(RequirementContract):
    """Flink itself is asked what runs."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """With a played JobManager."""
        with played_operator(PlayedJobManager()) as rig:
            yield rig


class TestOperatorAlone(RequirementContract):
    """As where figures come from Prometheus: the operator says what runs, and no more than that."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """Without a JobManager."""
        with played_operator() as rig:
            yield rig

    def test_fewer_slots_than_asked_end_with_what_runs(self, rig: RequirementRig) -> None:
        """The operator does not say how much of a change runs: at the deadline all of it is taken back."""
        check_a_change_that_does_not_come(rig)


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
def rig() -> Iterator[PlayedOperatorRig]:
    """Whose changes a JobManager carries out."""
    with played_operator(PlayedJobManager()) as rig:
        yield rig


def test_a_checkpoint_is_requested_where_flink_waits_for_one(rig: PlayedOperatorRig) -> None:
    """The operator asks Flink for the parallelism; that it takes effect soon is ours."""
    assert rig.manager is not None
    assert rig.operator.job is not None
    rig.operator.job.checkpoint_interval_ms = 10**9
    rig.pass_seconds(60.0)
    assert rig.carry_out(rig.command(), at_most_s=120.0)[-1].status == "applied"
    assert rig.manager.checkpoints_requested >= 1
