"""Who may ask the HTTP API of the state service: tokens that rotate, TLS, names; in a real pipeline."""

import http.client
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import grpc
import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.ports import free_port
from tests.support import view_pipeline
from tests.support.secure_broker import make_certificates
from tests.support.view_pipeline import get
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
settings, processes, service = view_pipeline.settings, view_pipeline.processes, view_pipeline.service
FIRST, SECOND = "first-token-of-sixteen-or-more", "second-token-of-sixteen-or-more"


def ask(url: str, path: str = "/jobs", context: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
    """Return status and error of a GET with these headers."""
    place = url.rpartition("/")[2]
    client = http.client.HTTPConnection(place, timeout=10)
    if context is not None:
        client = http.client.HTTPSConnection(place, timeout=10, context=context)
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        document = json.loads(answer.read())
        return answer.status, document.get("error", "") if isinstance(document, dict) else ""
    finally:
        client.close()


def raw(url: str, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> tuple[int, str]:
    """Return status and text of a request whose path goes out exactly as it is."""
    client = http.client.HTTPConnection(url.rpartition("/")[2], timeout=10)
    try:
        client.request(method, path, headers=dict(headers or {}), body=body)
        answer = client.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        client.close()


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"Authorization": f"Bearer {token}"}


def test_only_tokens_of_the_file_are_let_in_and_they_rotate_without_a_restart(
    service: Callable[..., str], tmp_path: Path
) -> None:
    """None, a wrong one, another scheme; an old and a new one together; then the new one alone."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{FIRST}\n")
    url = service(SURESCALE_HTTP_TOKEN_FILE=str(tokens))
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "the service")  # without a token: probes have none
    assert ask(url)[0] == 401
    for wrong in (bearer("wrong"), bearer(""), bearer(FIRST[:-1]), {"Authorization": f"Basic {FIRST}"}, {"Authorization": FIRST}):
        assert ask(url, **wrong) == (401, "a token is required: Authorization: Bearer TOKEN")
    assert ask(url, **bearer(FIRST))[0] == 200
    tokens.write_text(f"{FIRST}\n{SECOND}\n")
    assert [ask(url, **bearer(token))[0] for token in (FIRST, SECOND)] == [200, 200]
    tokens.write_text(f"{SECOND}\n")
    assert [ask(url, **bearer(token))[0] for token in (FIRST, SECOND)] == [401, 200]
    tokens.unlink()
    assert ask(url, **bearer(SECOND)) == (503, "the tokens cannot be read now")


def test_a_name_that_is_not_ours_is_refused(service: Callable[..., str]) -> None:
    """A page in a browser that makes its own name lead here reads nothing; our own names hold."""
    url = service(SURESCALE_HTTP_HOSTS="state.example.org, other.example.org")
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "the service")
    for host in (
        "attacker.example",
        "attacker.example:8070",
        "",
        "127.0.0.1.attacker.example",
        "[::1].example",
        "::1",
        "[state]",
    ):
        assert ask(url, Host=host)[0] in (400, 421), host
    for own in ("127.0.0.1:1", "[::1]:8070", "localhost", "state", "State.Example.org:8070"):
        assert ask(url, Host=own)[0] == 200, own


def test_no_path_leads_out_and_nothing_oversized_is_taken(service: Callable[..., str]) -> None:
    """Neither to a file of the machine, nor past the token; and the service goes on."""
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "the service")
    out = "../" * 12 + "etc/passwd"
    paths = [f"/page/{out}", f"/{out}", "/page//etc/passwd", f"/page/{quote(out, safe='')}", "/page/%2e%2e%2f%2e%2e%2fdecide.py"]
    paths += ["/page/%00", f"/jobs/{quote(out, safe='')}", f"/jobs/sim/{out}", "/page/" + "a" * 4_000]
    for path in paths:
        status, text = raw(url, "GET", path)
        assert (status in (400, 404), "root:" in text) == (True, False), path
    assert raw(url, "GET", "/jobs/" + "a" * 100_000)[0] == 400
    assert raw(url, "GET", "/jobs", {"X-Large": "a" * 100_000})[0] == 400
    assert raw(url, "POST", "/jobs/sim/clicks/pause", {}, b"x" * 5_000_000)[0] in (401, 403, 404, 405, 413)
    assert ask(url)[0] == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed")
def test_tls_with_a_certificate_that_rotates(service: Callable[..., str], tmp_path: Path) -> None:
    """Plain HTTP is refused, as is an authority that did not sign; an expired certificate is not believed by clients."""
    make_certificates(tmp_path)
    served, key = tmp_path / "served.pem", tmp_path / "served-key.pem"
    shutil.copy(tmp_path / "broker.pem", served)
    shutil.copy(tmp_path / "broker-key.pem", key)
    url = service(SURESCALE_HTTP_CERTIFICATE_FILE=str(served), SURESCALE_HTTP_KEY_FILE=str(key))
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    def answers() -> bool:
        try:
            return ask(url, "/health", trusting)[0] == 200
        except OSError:
            return False

    wait_until(answers, 60, "the service over TLS")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(url, context=ssl.create_default_context(cafile=str(tmp_path / "other-ca.pem")))
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(url)
    expired = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-extfile", "broker.ext", "-not_before", "20200101000000Z"]
    signed = ["openssl", "x509", "-req", "-in", "broker.csr", "-out", "expired.pem", *expired, "-not_after", "20200102000000Z"]
    if subprocess.run(signed, cwd=tmp_path, capture_output=True, check=False).returncode != 0:
        signed = ["openssl", "x509", "-req", "-in", "broker.csr", "-out", "expired.pem", *expired[:6], "-days", "-1"]
        subprocess.run(signed, cwd=tmp_path, capture_output=True, check=True)
    shutil.copy(tmp_path / "expired.pem", served)

    def is_expired() -> bool:
        try:
            return ask(url, "/health", trusting)[0] == 0
        except ssl.SSLCertVerificationError as error:
            return "expired" in str(error)

    wait_until(is_expired, 20, "the new certificate")
    served.write_text("half a")
    shutil.copy(tmp_path / "broker.pem", served)
    wait_until(answers, 20, "the certificate that is good again")


@pytest.mark.parametrize("content", ["", "short", "\xff"])
def test_a_file_without_tokens_is_refused_at_the_start(content: str, settings: PipelineSettings, tmp_path: Path) -> None:
    """Rather than let nobody in, or everybody."""
    from surescale.contracts.errors import SettingsError
    from surescale.services.state.access import Tokens

    (tmp_path / "tokens").write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingsError, match="SURESCALE_HTTP_TOKEN_FILE"):
        Tokens(str(tmp_path / "tokens"))


def test_keda_is_answered_where_it_has_a_port(service: Callable[..., str]) -> None:
    """Of a process as a pod runs it; what it is told, a test of its own says."""
    port = free_port()
    url = service(SURESCALE_KEDA_PORT=str(port))
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "the service")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/externalscaler.ExternalScaler/GetMetrics")(b"", timeout=PATIENT_S)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
