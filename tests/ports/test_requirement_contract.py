"""The engines that are asked for counts keep one contract: the fake, Flink, Kubernetes and Docker as played for it, workers."""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.compose.actuator import ComposeEngine
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.reconcile import ServiceReconciler
from surescale.engines.compose.target import Service
from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.kubernetes.actuator import KubernetesEngine
from surescale.engines.kubernetes.client import KubernetesClient
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import EngineApi
from surescale.engines.processes.actuator import ProcessesEngine
from surescale.engines.processes.reconcile import STEADY_S
from surescale.runtime.access import Access
from tests.ports.requirement_contract import BEFORE, CLUSTER, JOB, RequirementContract, RequirementRig, RestContract
from tests.support.fake_api_server import TOKEN, FakeApiServer
from tests.support.fake_docker import FakeDocker
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_requirement_engine import FakeRequirementEngine
from tests.support.requirement_rig import FakeEngineRig, FakeRequirementRig
from tests.support.waiting import wait_until
from tests.support.worker_processes import chain_of, kill_all, reconciled, reconciler_of


class TestFakeByRequirement(RequirementContract):
    """The fake keeps the contract, so tests may rely on it."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """One in memory."""
        fake = FakeRequirementEngine(now_ms=MINUTE_MS)
        fake.submit(JOB, BEFORE)
        yield FakeRequirementRig(fake)


class JobManagerRig(FakeEngineRig):
    """A fake JobManager, through the actuator's client."""

    def __init__(self, manager: FakeJobManager, api: EngineApi) -> None:
        super().__init__(manager, api)
        self._manager = manager

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As anybody may."""
        self._manager.require(self._manager.jobs[-1], parallelism)

    def submit_again(self) -> None:
        """As before."""
        self._manager.submit(self._manager.jobs[-1].name, BEFORE)

    def go_away(self) -> None:
        """No leader is elected."""
        self._manager.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        self._manager.is_away = False


class TestFlinkEngine(RequirementContract):
    """Flink, as the actuator sees it; more TaskManagers may come."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A fake JobManager of its own."""
        manager = FakeJobManager()
        manager.configuration["kubernetes.cluster-id"] = "orders"
        manager.submit(JOB.removeprefix(f"{CLUSTER}/"), BEFORE)
        with manager.serving() as server:
            client = FlinkClient(server.url)
            yield JobManagerRig(manager, FlinkEngine(client, CLUSTER, lambda: manager.now_ms, sleep=lambda seconds: None))
            client.close()


class ApiServerRig(FakeEngineRig):
    """A fake API server, with a Deployment for each task."""

    def __init__(self, server: FakeApiServer, api: EngineApi) -> None:
        super().__init__(server, api)
        self._server = server
        self.submit_again()

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As with ``kubectl scale``."""
        for workload in self._server.workloads:
            if workload.name in parallelism:
                self._server.scale(workload, parallelism[workload.name])

    def submit_again(self) -> None:
        """Delete the Deployments and create them again."""
        for task, count in BEFORE.items():
            self._server.deploy(task, count)

    def offer_slots(self, slots: int) -> None:
        """Every pod needs room of its own, so the one that parses needs another."""
        self._server.slots = slots + BEFORE["parse"]

    def go_away(self) -> None:
        """Its store has no leader."""
        self._server.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        self._server.is_away = False


class TestKubernetesEngine(RestContract):
    """Workloads of a Kubernetes cluster, as the actuator sees them through a fake API server."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A fake API server of its own."""
        server, name = FakeApiServer(), JOB.removeprefix(f"{CLUSTER}/")
        chain = Chain(name, {task: Group(kubernetes=Target("shop", task)) for task in BEFORE})
        with server.serving() as answering, tempfile.NamedTemporaryFile("w", suffix=".token") as token:
            token.write(TOKEN)
            token.flush()
            client = KubernetesClient(answering.url, Access(token_file=token.name))
            yield ApiServerRig(server, KubernetesEngine(client, {name: chain}, CLUSTER))
            client.close()


class FakeComposeRig(RequirementRig):
    """A fake container engine, on a clock of its own; containers are reconciled when time passes."""

    def __init__(self, docker: FakeDocker, url: str) -> None:
        self._docker, name = docker, JOB.removeprefix(f"{CLUSTER}/")
        self.submit_again()
        chains = {name: Chain(name, {task: Group(compose=Service("shop", task)) for task in BEFORE})}
        self._reconciler = ServiceReconciler(ComposeClient(url), chains, 50, now_ms=self.now_ms)
        self.api = ComposeEngine(self._reconciler, CLUSTER)

    def pass_seconds(self, seconds: float) -> None:
        """Move its clock, and let what drains end."""
        self._docker.now_ms += int(seconds * 1_000)
        for _ in range(2):
            self._reconciler.reconcile()
            self._reconciler.wait()

    def now_ms(self) -> int:
        """Its clock."""
        return self._docker.now_ms

    def offer_slots(self, slots: int) -> None:
        """Every container needs one of its own, so the one that parses needs another."""
        self._reconciler.workers_max = slots + BEFORE["parse"]

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As with ``docker compose up --scale``."""
        for task, count in parallelism.items():
            self._docker.scale(task, count)

    def submit_again(self) -> None:
        """Recreate all containers."""
        for task, count in BEFORE.items():
            self._docker.again(task, count)

    def go_away(self) -> None:
        """It starts, and answers nobody."""
        self._docker.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        self._docker.is_away = False


class TestComposeEngine(RequirementContract):
    """Services of a Compose project, as the actuator sees them through a fake engine."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A fake engine of its own."""
        docker = FakeDocker()
        with docker.serving() as answering:
            yield FakeComposeRig(docker, answering.url)


class ProcessesRig(RequirementRig):
    """Real workers on this machine. Its clock is the test's: whatever the workers are about to do is done when time passes."""

    def __init__(self, folder: Path) -> None:
        name = JOB.removeprefix(f"{CLUSTER}/")
        self._chain = chain_of(BEFORE, name=name)
        self._reconciler = reconciler_of(folder, self._chain)
        self._reconciler.now_ms = lambda: time.time_ns() // 1_000_000 + round(STEADY_S * 1_000)  # or each look would wait so long
        self._folder, self._now_ms = folder / CLUSTER, MINUTE_MS
        self.api = ProcessesEngine(self._reconciler, CLUSTER)
        reconciled(self._reconciler, name, BEFORE)

    def pass_seconds(self, seconds: float) -> None:
        """Tend the workers until none is starting or ending."""
        self._now_ms += int(seconds * 1_000)
        wait_until(self._is_settled, what="the workers to start or end")

    def now_ms(self) -> int:
        """Its clock."""
        return self._now_ms

    def offer_slots(self, slots: int) -> None:
        """Every worker needs one of its own, so the one that parses needs another."""
        self._reconciler.workers_max = slots + BEFORE["parse"]

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As the file in the folder can be changed by anybody."""
        required = self._reconciler.store.requirement(self._chain.name)
        assert required is not None
        assert self._reconciler.store.change(self._chain.name, required, parallelism)

    def submit_again(self) -> None:
        """Deploy it again."""
        self._reconciler.store.deploy(self._chain)

    def go_away(self) -> None:
        """Put something else in the place of the folder."""
        self._folder.rename(self._folder.with_suffix(".away"))
        self._folder.write_text("")

    def come_back(self) -> None:
        """As it was."""
        self._folder.unlink()
        self._folder.with_suffix(".away").rename(self._folder)

    def _is_settled(self) -> bool:
        self._reconciler.reconcile()
        required = self._reconciler.store.requirement(self._chain.name)
        assert required is not None
        alive = self._reconciler.store.workers(self._chain.name)
        fits = min(sum(required.counts.values()), self._reconciler.workers_max)
        return len(alive) == fits and all(worker.draining_ms is None for worker in alive)


class TestProcessesEngine(RestContract):
    """Workers on this machine."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A folder of their own."""
        with tempfile.TemporaryDirectory(prefix="surescale-workers-") as folder:
            rig = ProcessesRig(Path(folder))
            try:
                yield rig
            finally:
                kill_all(rig._reconciler.store)
