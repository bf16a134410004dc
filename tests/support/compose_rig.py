"""A job of two services on a fake container engine, and an actuator before it."""

from dataclasses import dataclass, field

import pytest

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.engines.compose.actuator import ComposeEngine
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.reconcile import ServiceReconciler
from surescale.engines.compose.target import Service
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.ports.actuator import EngineRefused
from surescale.rescaler.execution import RequirementExecution
from tests.support.count_commands import command_for
from tests.support.fake_docker import FakeDocker
from tests.support.mortal_client import Mortal
from tests.support.stub_server import StubServer
from tests.support.waiting import wait_until

CLUSTER, JOB = "real", "real/orders"
BEFORE = {"count": 2, "parse": 1}
DEADLINE_MS = 60_000
STEPS_MAX = 200


class MortalClient(Mortal, ComposeClient):
    """Dies before or after a request, or never."""


@dataclass
class ComposeRig:
    """One job: both tasks are services of the project `shop`."""

    docker: FakeDocker
    answering: StubServer
    workers_max: int = 50
    engine: ComposeEngine = field(init=False)

    def __post_init__(self) -> None:
        """Start the services and the actuator."""
        for service, number in BEFORE.items():
            self.docker.scale(service, number)
        self.restart()

    def restart(self, dies_at: int | None = None, *, is_sent: bool = False) -> None:
        """Start the actuator again: it remembers nothing."""
        client = MortalClient(self.answering.url)
        client.dies(dies_at, is_sent=is_sent)
        groups = {task: Group(compose=Service("shop", task)) for task in BEFORE}
        chains = {"orders": Chain("orders", groups)}
        reconciler = ServiceReconciler(client, chains, self.workers_max, now_ms=lambda: self.docker.now_ms)
        self.engine = ComposeEngine(reconciler, CLUSTER)

    @property
    def required(self) -> dict[str, int]:
        """What the engine is asked for."""
        return dict(self.engine.look(JOB).required)

    def reconcile(self) -> None:
        """Let everything that was begun come to its end."""
        for _ in range(2):
            self.engine.reconciler.reconcile()
            self.engine.reconciler.wait()

    def command(self, deadline_ms: int = DEADLINE_MS, number: int = 1, **after: int) -> RescheduleCommand:
        """Ask for numbers of containers, as decided on what is asked for now."""
        now_ms = self.docker.now_ms
        return command_for(self.engine, JOB, after, generation=number, now_ms=now_ms, within_ms=deadline_ms)

    def to_the_end(self, work: RequirementExecution, *, step_ms: int = 2_500) -> list[Progress]:
        """Go on until the command has ended."""
        reports: list[Progress] = []
        for _ in range(STEPS_MAX):
            reports += work.step(self.engine, now_ms=self.docker.now_ms, wall_ms=self.docker.now_ms)
            self.reconcile()
            self.docker.now_ms += step_ms
            if work.ended:
                return reports
        raise AssertionError(f"no end after {reports}")

    def refused(self, **after: int) -> EngineRefused:
        """Request what must be refused, and return how it is; nothing has changed."""
        command, before = self.command(**after), set(self.docker.containers)
        with pytest.raises(EngineRefused) as refused:
            self.engine.request(command)
        assert "\n" not in str(refused.value)
        self.reconcile()
        assert set(self.docker.containers) == before
        return refused.value

    def settled(self) -> None:
        """Tend until nothing drains."""
        wait_until(lambda: [self.reconcile(), not any(".draining." in each.name for each in self.docker.containers.values())][1])
