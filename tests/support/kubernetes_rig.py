"""A job of two tasks on a fake API server, and an actuator before it that may do what the shipped role allows."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from surescale.contracts.commands import Expected, Progress, RescheduleCommand, TaskChange
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.kubernetes.actuator import KubernetesEngine
from surescale.engines.kubernetes.client import KubernetesClient
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import EngineRefused
from surescale.rescaler.execution import RequirementExecution
from surescale.runtime.access import Access
from tests.support.fake_api_server import TOKEN, FakeApiServer, Rule, rules_of
from tests.support.fake_workloads import FakeWorkload
from tests.support.mortal_client import Mortal
from tests.support.stub_server import StubServer

ACCESS = Path(__file__).parents[2] / "compose/kubernetes/scaling/access.yaml"
CLUSTER, JOB = "real", "real/orders"
BEFORE, AFTER = {"count": 2, "parse": 1}, {"count": 4, "parse": 3}
TARGETS = {"count": Target("shop", "orders-count", resource="statefulsets"), "parse": Target("shop", "orders-parse")}
DEADLINE_MS = 60_000
STEPS_MAX = 2_000


class MortalClient(Mortal, KubernetesClient):
    """Dies before or after a request, or never."""


def shipped_rules(account: str = "surescale-rescaler") -> frozenset[Rule]:
    """Return what the manifests allow an account."""
    roles = [each for each in yaml.safe_load_all(ACCESS.read_text()) if each["kind"] == "Role"]
    return rules_of(next(role for role in roles if role["metadata"]["name"] == account))


@dataclass
class KubernetesRig:
    """One job: `parse` is a Deployment, `count` a StatefulSet."""

    server: FakeApiServer
    answering: StubServer
    token: Path
    targets: dict[str, Target] = field(default_factory=lambda: dict(TARGETS))
    engine: KubernetesEngine = field(init=False)
    parse: FakeWorkload = field(init=False)
    count: FakeWorkload = field(init=False)

    def __post_init__(self) -> None:
        """Deploy both and start the actuator."""
        self.token.write_text(TOKEN)
        self.parse = self.server.deploy("orders-parse", BEFORE["parse"])
        self.count = self.server.deploy("orders-count", BEFORE["count"], resource="statefulsets", kind="StatefulSet")
        self.restart()

    def restart(self, dies_at: int | None = None, *, is_sent: bool = False) -> None:
        """Start the actuator again: it remembers nothing."""
        client = MortalClient(self.answering.url, Access(token_file=str(self.token)))
        client.dies(dies_at, is_sent=is_sent)
        groups = {task: Group(kubernetes=target) for task, target in self.targets.items()}
        self.engine = KubernetesEngine(client, {"orders": Chain("orders", groups)}, CLUSTER)

    @property
    def required(self) -> dict[str, int]:
        """What the cluster is asked for."""
        return {"count": self.count.replicas, "parse": self.parse.replicas}

    def command(self, deadline_ms: int = DEADLINE_MS, **after: int) -> RescheduleCommand:
        """Ask for numbers of pods, as decided on what is asked for now."""
        return RescheduleCommand(
            command_id=f"{JOB}#1.0",
            cluster=CLUSTER,
            job=JOB,
            desired_generation=1,
            step=0,
            base_placement_generation=0,
            decision_id="as the test wants",
            gate_reason="desired",
            gate_cause="max_delay",
            issued_at_ms=self.server.now_ms,
            deadline_ms=self.server.now_ms + deadline_ms,
            changes=tuple(TaskChange(task=task, before=self.required.get(task, 1), after=count) for task, count in after.items()),
            expected=Expected(epoch=self.epoch, required=self.required),
        )

    @property
    def epoch(self) -> str:
        """As the monitor would have seen it, whatever the actuator may do."""
        rules, self.server.rules = self.server.rules, None
        try:
            client = KubernetesClient(self.answering.url, Access(token_file=str(self.token)))
            chains = self.engine.chains
            return KubernetesEngine(client, chains, CLUSTER).look(JOB).epoch
        finally:
            self.server.rules = rules

    def to_the_end(self, work: RequirementExecution, *, step_ms: int = 2_500) -> list[Progress]:
        """Go on until the command has ended."""
        reports: list[Progress] = []
        for _ in range(STEPS_MAX):
            reports += work.step(self.engine, now_ms=self.server.now_ms, wall_ms=self.server.now_ms)
            self.server.now_ms += step_ms
            if work.ended:
                return reports
        raise AssertionError(f"no end after {reports}")

    def refused(self, **after: int) -> EngineRefused:
        """Request what must be refused, and return how it is."""
        command = self.command(**after)
        with pytest.raises(EngineRefused) as refused:
            self.engine.request(command)
        assert "\n" not in str(refused.value)
        return refused.value


@contextlib.contextmanager
def kubernetes_rig(folder: Path) -> Iterator[KubernetesRig]:
    """Yield the job before an account that may do what the shipped role allows; its token lies in the folder."""
    server = FakeApiServer(rules=shipped_rules())
    with server.serving() as answering:
        yield KubernetesRig(server, answering, folder / "token")
