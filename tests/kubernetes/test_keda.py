"""What KEDA's own client, in Go, is told by the external scaler: `make kubernetes-test` builds it. The operator is not run."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from surescale.services.state.keda.server import METRIC
from tests.support.builders import JOB
from tests.support.secure_broker import make_certificates
from tests.support.waiting import PATIENT_S
from tests.unit.services.state import test_keda
from tests.unit.services.state.test_keda import View, serving

view = test_keda.view


def asked(client: Path, view: View, ca: Path | None = None, *, job: str = JOB, **given: Any) -> Any:
    """Return what KEDA's client is told of a job's task."""

    async def once() -> bytes:
        async with serving(view, **given) as port:
            words = [f"localhost:{port}", str(ca or ""), f"scalerAddress=localhost:{port}", f"job={job}", "task=map"]
            done = await asyncio.to_thread(subprocess.run, [client, *words], capture_output=True, timeout=PATIENT_S, check=False)
            assert done.returncode == 0, done.stderr
            return bytes(done.stdout)

    return json.loads(asyncio.run(once()))


def test_keda_reads_size_target_and_activity(keda_client: Path, view: View) -> None:
    """A target of one, so as many pods as the figure says. What only newer KEDA asks for is left to what it did before."""
    told = asked(keda_client, view)
    assert told["spec"] == [{"metricName": METRIC, "targetSize": 1, "targetSizeFloat": 1}]
    assert told["metrics"] == [{"metricName": METRIC, "metricValue": 3, "metricValueFloat": 3}]
    assert (told["active"], told["streamed"], told["streamedSpec"]["code"]) == (True, True, "Unimplemented")


def test_keda_reads_why_there_is_no_figure(keda_client: Path, view: View) -> None:
    """It logs the line; the trigger stays active, so its fallback decides."""
    told = asked(keda_client, view, job="sim/silent")
    assert told["metrics"] == {"code": "FailedPrecondition", "message": "sim/silent: no figures for 30 min"}
    assert (told["active"], told["spec"][0]["targetSize"]) == (True, 1)


def test_keda_sees_a_job_at_rest_as_inactive(keda_client: Path, view: View) -> None:
    """Asked, and told on the stream."""
    told = asked(keda_client, view, job="sim/rests")
    assert (told["active"], told["streamed"]) == (False, False)


def test_keda_reads_it_over_tls(keda_client: Path, view: View, tmp_path: Path) -> None:
    """With the authority's certificate, as `caCert` of a TriggerAuthentication; a stranger's is refused."""
    make_certificates(tmp_path)
    given = {"http_certificate_file": str(tmp_path / "broker.pem"), "http_key_file": str(tmp_path / "broker-key.pem")}
    assert asked(keda_client, view, tmp_path / "ca.pem", **given)["metrics"][0]["metricValue"] == 3
    assert asked(keda_client, view, tmp_path / "other-ca.pem", **given)["metrics"]["code"] == "Unavailable"
