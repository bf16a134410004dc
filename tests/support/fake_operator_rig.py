"""A job of the Flink operator before its actuator, where API server, operator and Flink are played."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink_operator.actuator import FlinkOperatorEngine
from surescale.engines.kubernetes.client import KubernetesClient
from surescale.runtime.access import Access
from tests.ports.requirement_contract import BEFORE, CLUSTER
from tests.support.fake_api_server import TOKEN, FakeApiServer
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_objects import FakeObject
from tests.support.fake_operator import FakeOperator, flink_deployment
from tests.support.operator_rig import NAME, VERTICES, OperatedRig, operated_job

BY_NAME = {task: task for task in BEFORE}
"""A fake JobManager calls its vertices so."""


class FakeOperatorRig(OperatedRig):
    """All of it is played, on the clock of the API server."""

    def __init__(
        self,
        server: FakeApiServer,
        client: KubernetesClient,
        flink: FlinkEngine | None,
        manager: FakeJobManager | None,
        *,
        upgrades: bool = False,
    ):
        self.server, self.client, self.manager = server, client, manager
        self.job = operated_job("shop", VERTICES if manager is None else BY_NAME, upgrades=upgrades)
        scheduler = {"jobmanager.scheduler": "default"} if upgrades else {}
        self.object = FakeObject(self.job.target.path, flink_deployment("shop", NAME, self.before, **scheduler))
        server.objects[self.object.path] = self.object
        self.operator = FakeOperator(lambda: self.object.document, self.object_says, self.now_ms, manager)
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
def fake_operator(manager: FakeJobManager | None = None, *, upgrades: bool = False) -> Iterator[FakeOperatorRig]:
    """Start a rig: with a JobManager, Flink is asked what runs; without one, the operator's word counts.

    ``upgrades``: the job has the default scheduler, and may be upgraded for a change.
    """
    server = FakeApiServer()
    with contextlib.ExitStack() as stack:
        answering = stack.enter_context(server.serving())
        token = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".token"))
        token.write(TOKEN)
        token.flush()
        client = stack.enter_context(contextlib.closing(KubernetesClient(answering.url, Access(token_file=token.name))))
        flink = None
        if manager is not None:
            manager.configuration["kubernetes.cluster-id"] = "orders"
            manager.configuration["jobmanager.scheduler"] = "default" if upgrades else "adaptive"
            rest = stack.enter_context(contextlib.closing(FlinkClient(stack.enter_context(manager.serving()).url)))
            flink = FlinkEngine(rest, CLUSTER, lambda: manager.now_ms, sleep=lambda seconds: None)
        yield FakeOperatorRig(server, client, flink, manager, upgrades=upgrades)
