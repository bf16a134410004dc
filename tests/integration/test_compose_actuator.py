"""The actuator `compose` on a real container engine: the contract of all actuators, and what Compose makes of its containers."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from surescale.engines.compose.actuator import ComposeEngine
from surescale.engines.compose.client import DEFAULT_URL, ComposeClient
from surescale.engines.compose.reconcile import ServiceReconciler
from surescale.engines.compose.target import Service
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.ports.actuator import EngineRefused
from surescale.runtime.ports import free_port
from tests.ports.requirement_contract import AFTER, BEFORE, CLUSTER, JOB, RequirementContract, RequirementRig
from tests.support.containers import REDIS_IMAGE, why_no_compose
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
_why = why_no_compose()
if _why is not None:
    pytest.skip(f"a Compose project: {_why}", allow_module_level=True)

_NAME = JOB.removeprefix(f"{CLUSTER}/")
_WITHIN_S = 60.0
# Ends when it is asked to, and at once, as a worker that has nothing in hand.
_WORKER = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]


class LiveComposeRig(RequirementRig):
    """A project of its own with two services."""

    def __init__(self, folder: Path) -> None:
        self.project, self.file = f"t{uuid.uuid4().hex[:8]}", folder / "compose.json"
        self._epoch = 0
        self._write()
        self.compose("up", "-d", *self._scales(BEFORE))
        self._client = ComposeClient(os.environ.get("DOCKER_HOST", DEFAULT_URL), timeout_s=30.0)
        chain = Chain(_NAME, {task: Group(compose=Service(self.project, task)) for task in BEFORE})
        self.reconciler = ServiceReconciler(self._client, {_NAME: chain}, 50)
        self.api = ComposeEngine(self.reconciler, CLUSTER)
        self._away: ComposeClient | None = None
        self.settle(BEFORE)

    def _write(self, **more: object) -> None:
        service = {
            "image": REDIS_IMAGE, "entrypoint": _WORKER, "restart": "unless-stopped", "stop_grace_period": "20s",
            "environment": {"SUBMISSION": str(self._epoch)}, "volumes": ["/scratch"],
        }  # fmt: skip
        services = dict.fromkeys(BEFORE, service | more)
        self.file.write_text(json.dumps({"version": "2.4", "services": services}))

    def compose(self, *words: str) -> str:
        """Run Compose itself, as somebody else does."""
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
        command = ["docker", "compose"] if plugin else [str(shutil.which("docker-compose"))]
        done = subprocess.run(
            [*command, "-p", self.project, "-f", str(self.file), *words],
            capture_output=True,
            text=True,
            timeout=PATIENT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _scales(self, counts: Mapping[str, int]) -> list[str]:
        return [word for task, count in counts.items() for word in ("--scale", f"{task}={count}")]

    def pass_seconds(self, seconds: float) -> None:
        """Wait, and reconcile meanwhile."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            with contextlib.suppress(Exception):
                self.reconciler.reconcile()
            time.sleep(0.1)

    def now_ms(self) -> int:
        """The wall's."""
        return self.reconciler.now_ms()

    def offer_slots(self, slots: int) -> None:
        """Every container needs one of its own, so the one that parses needs another."""
        self.reconciler.workers_max = slots + BEFORE["parse"]

    def require(self, parallelism: Mapping[str, int]) -> None:
        """By Compose."""
        self.compose("up", "-d", "--no-recreate", *self._scales(parallelism))

    def submit_again(self) -> None:
        """After a change of the file."""
        self._epoch += 1
        self._write()
        self.compose("up", "-d", *self._scales(BEFORE))

    def go_away(self) -> None:
        """Nobody listens at the address."""
        self._away, self.reconciler.client = self.reconciler.client, ComposeClient(f"http://127.0.0.1:{free_port()}")

    def come_back(self) -> None:
        """The engine listens again."""
        assert self._away is not None
        self.reconciler.client = self._away

    def close(self) -> None:
        """Remove the project."""
        self.reconciler.wait()
        for each in self._client.containers(self.project):
            subprocess.run(["docker", "rm", "--force", "--volumes", each.id], capture_output=True, check=False)
        self.compose("down", "--volumes", "--timeout", "0")
        self._client.close()


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[LiveComposeRig]:
    """A project that runs, and is removed."""
    rig = LiveComposeRig(folder)
    try:
        yield rig
    finally:
        rig.close()


@pytest.mark.nightly("the whole contract takes minutes; the tests below have what only a real engine shows")
class TestLiveCompose(RequirementContract):
    """What every engine that is asked for counts does alike."""

    @pytest.fixture(autouse=True)
    def _where(self, tmp_path: Path) -> None:
        self._folder = tmp_path

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A project of its own."""
        with opened(self._folder) as rig:
            yield rig


def test_compose_takes_the_replicas_for_its_own(tmp_path: Path) -> None:
    """`up` leaves them alone, `ps` lists them, `down` removes them; each has its own name, number, host name and volume."""
    with opened(tmp_path) as rig:
        assert rig.carry_out(rig.command())[-1].status == "applied"
        made = {each.id: each for each in rig.reconciler.client.containers(rig.project)}
        assert len(made) == sum(AFTER.values())
        rig.compose("up", "-d", *rig._scales(AFTER))
        assert {each.id for each in rig.reconciler.client.containers(rig.project)} == set(made)
        assert rig.compose("ps", "-q").split().__len__() == len(made)
        count = [each for each in made.values() if "count" in each.name]
        assert len({each.config["Hostname"] for each in count}) == len(count) == 3
        assert sorted(each.number for each in count) == [1, 2, 3]
        first, *others = sorted(count, key=lambda each: each.number)
        inspected = json.loads(_docker("inspect", *(each.id for each in count)))
        assert len({each["Mounts"][0]["Name"] for each in inspected}) == 3
        assert all(each.config["Env"] == first.config["Env"] for each in others)
        assert all(each["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped" for each in inspected)
        rig.compose("down", "--volumes", "--timeout", "1")
        assert rig.reconciler.client.containers(rig.project) == []


def test_a_container_drains_for_as_long_as_its_service_says(tmp_path: Path) -> None:
    """The engine remembers the grace period of the Compose file, and nobody starts again what was asked to end."""
    with opened(tmp_path) as rig:
        (surplus,) = [each for each in rig.reconciler.client.containers(rig.project) if "count" in each.name and each.number == 2]
        assert surplus.config["StopTimeout"] == 20
        rig.api.request(rig.command({"count": 1}))
        rig.settle({**BEFORE, "count": 1}, within_s=_WITHIN_S)
        wait_until(
            lambda: [rig.reconciler.reconcile(), len(rig.reconciler.client.containers(rig.project)) == 2][1], what="its end"
        )


def test_a_fixed_port_and_a_name_of_its_own_are_refused(tmp_path: Path) -> None:
    """As the engine really records them."""
    with opened(tmp_path) as rig:
        for more, said in (
            ({"ports": [f"127.0.0.1:{free_port()}:80"]}, "its port 80/tcp is published at"),
            ({"container_name": f"{rig.project}-own"}, "its container has a name of its own"),
            ({"restart": "no"}, "its containers are not restarted when they fail"),
        ):
            services = json.loads(rig.file.read_text())["services"]
            changed = {"parse": services["count"] | more, "count": services["count"]}
            rig.file.write_text(json.dumps({"version": "2.4", "services": changed}))
            rig.compose("up", "-d", *rig._scales({"count": 2}))
            with pytest.raises(EngineRefused, match=said):
                rig.api.request(rig.command({"parse": 2}))
            assert rig.api.look(JOB).required == BEFORE


def _docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True, timeout=PATIENT_S).stdout
