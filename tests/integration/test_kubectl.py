"""kubectl, the official client, against the API server that our tests play: it reads what we read, and writes as we do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from surescale.engines.ports.actuator import EngineRefused
from tests.support.fake_api_server import FakeApiServer
from tests.support.kubernetes_rig import KubernetesRig
from tests.support.waiting import PATIENT_S

pytestmark = pytest.mark.integration


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, the official client, is not installed")
def test_kubectl_and_we_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """The official client reads the double and writes to it as we do: the one who read first is refused."""
    server = FakeApiServer(asks_token=False)
    with server.serving() as answering:
        rig = KubernetesRig(server, answering, tmp_path / "token")

        def kubectl(replicas: int, version: int) -> "subprocess.CompletedProcess[str]":
            words = ["scale", "deployment/orders-parse", f"--replicas={replicas}", f"--resource-version={version}"]
            address = ["--server", rig.answering.url, "--namespace", "shop", "--cache-dir", str(tmp_path)]
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
            return subprocess.run(
                ["kubectl", *address, *words], env=environment, capture_output=True, text=True, check=False, timeout=PATIENT_S
            )

        command, first = rig.command(parse=3), rig.parse.version
        done = kubectl(5, first)
        assert (done.returncode, done.stdout) == (0, "deployment.apps/orders-parse scaled\n"), done.stderr
        assert (rig.parse.replicas, rig.parse.writers[-1]["manager"]) == (5, "kubectl")
        with pytest.raises(EngineRefused, match="REQUIREMENT_CHANGED: somebody else asked for parse=5"):
            rig.engine.request(command)
        rig.engine.request(rig.command(parse=3))
        late = kubectl(5, first)
        assert (late.returncode, rig.parse.replicas) == (1, 3)
