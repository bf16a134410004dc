"""The client of the API server: where it is, what proves who we are, and what may come in place of an answer."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.kubernetes import client as client_module
from surescale.engines.kubernetes.client import KubernetesClient, client_of
from surescale.engines.kubernetes.errors import (
    ApiRefused,
    ApiUnavailable,
    Conflict,
    KubernetesError,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotKubernetes,
)
from surescale.engines.kubernetes.target import Target
from surescale.engines.settings import ClusterSettings
from tests.support.role_settings import role_settings
from tests.support.secure_broker import make_certificates
from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

TARGET = Target("shop", "parse")
SCALE = json.dumps({"kind": "Scale", "metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {}, "status": {}}).encode()


def said(status: int, message: str) -> StubResponse:
    """Return an answer as the API server gives it."""
    return StubResponse(
        status, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}).encode()
    )


@pytest.fixture
def given() -> dict[str, StubResponse]:
    """What the server answers next."""
    return {"now": StubResponse(body=SCALE)}


@pytest.fixture
def server(given: dict[str, StubResponse]) -> Iterator[StubServer]:
    """A server that answers what a test wants."""
    with answering(lambda asked: given["now"]) as found:
        yield found


RBAC = 'deployments.apps "parse" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps"'


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (said(401, "Unauthorized"), NotAuthenticated, "answers 401 Unauthorized; set SURESCALE_KUBERNETES_TOKEN_FILE"),
        (said(403, RBAC), NotAllowed, f"{RBAC}; give its account this right, compose/kubernetes/scaling has all"),
        (said(403, 'admission webhook "x" denied the request:\n no'), ApiRefused, 'is refused: admission webhook "x" denied the'),
        (said(404, 'deployments.apps "parse" not found'), NotFound, 'deployments.apps "parse" not found'),
        (said(409, "the object has been modified"), Conflict, "the object has been modified"),
        (said(422, "spec.replicas: Invalid value: -1"), ApiRefused, "is refused: spec.replicas: Invalid value: -1"),
        (said(429, "too many requests"), ApiUnavailable, "answers 429: too many requests"),
        (said(500, "etcdserver: request timed out"), ApiUnavailable, "answers 500: etcdserver: request timed out"),
        (StubResponse(502, b"bad gateway"), ApiUnavailable, "answers 502"),
        (
            StubResponse(200, b"<html>", {"Content-Type": "text/html"}),
            NotKubernetes,
            "set SURESCALE_KUBERNETES_URL to the address of",
        ),
        (
            StubResponse(403, b"<html>", {"Content-Type": "text/html"}),
            NotKubernetes,
            "answers 403 with text/html that is not an answer",
        ),
        (
            StubResponse(404, b"404 page not found\n", {"Content-Type": "text/plain"}),
            NotFound,
            "no such kind of object; install its",
        ),
        (
            StubResponse(404, b"<html>", {"Content-Type": "text/html"}),
            NotKubernetes,
            "answers 404 with text/html that is not an answer",
        ),
        (StubResponse(302, b"", {"Location": "https://login"}), NotKubernetes, "answers 302"),
        (StubResponse(200, b"[]"), NotKubernetes, "that is not an answer of Kubernetes"),
        (StubResponse(200, b'{"metadata":{},"spec":{"replicas":-1}}'), NotKubernetes, "that is not an answer of Kubernetes"),
    ],
)
def test_what_comes_in_place_of_an_answer_is_one_line(
    server: StubServer, given: dict[str, StubResponse], answer: StubResponse, kind: type[KubernetesError], words: str
) -> None:
    """It names the request, or the right, and the fix."""
    given["now"] = answer
    with pytest.raises(KubernetesError) as problem:
        KubernetesClient(server.url).scale(TARGET)
    assert type(problem.value) is kind
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_scale_of_zero_is_read(server: StubServer) -> None:
    """The API leaves it out."""
    scale = KubernetesClient(server.url).scale(TARGET)
    assert (scale.spec.replicas, scale.status.selector, scale.metadata.resource_version) == (0, "", "7")


def test_a_write_carries_the_version_that_was_read_and_our_name(server: StubServer) -> None:
    """Both are what others tell us by."""
    client = KubernetesClient(server.url)
    client.set_scale(TARGET, client.scale(TARGET), 3)
    put = server.asked[-1]
    assert (put.method, put.path) == ("PUT", "/apis/apps/v1/namespaces/shop/deployments/parse/scale?fieldManager=surescale")
    written = json.loads(put.body)
    assert (written["metadata"]["resourceVersion"], written["spec"]) == ("7", {"replicas": 3})


def test_a_list_without_end_is_given_up(server: StubServer, given: dict[str, StubResponse]) -> None:
    """A proxy that always says that there is more must not hold the actuator."""
    given["now"] = StubResponse(body=b'{"metadata": {"continue": "again"}, "items": null}')
    with pytest.raises(ApiUnavailable, match="more than 20000 objects"):
        KubernetesClient(server.url).pods("shop", "app=parse")


def test_a_page_of_objects_that_are_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write some into a namespace must not keep all others of it from being read."""
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 10_000)
    large = json.dumps({"metadata": {"annotations": {"a": "x" * 500}}})

    def answer(asked: StubRequest) -> StubResponse:
        page = {"metadata": {"continue": "more" if "continue=" not in asked.path else ""}, "items": "HERE"}
        count = int(parse_qs(urlsplit(asked.path).query)["limit"][0])
        return StubResponse(body=json.dumps(page).replace('"HERE"', f"[{','.join([large] * count)}]").encode())

    with answering(answer) as server:
        assert len(KubernetesClient(server.url).pods("shop", "app=parse")) == 2 * 16
        assert len(server.asked) == 3


def test_of_many_pods_nothing_is_kept_that_nobody_reads(server: StubServer, given: dict[str, StubResponse]) -> None:
    """Who wrote which field is most of a pod, and whoever makes pods may annotate each with 256 KB."""
    fields = {"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:{number}": {} for number in range(1_000)}}
    pod = {"metadata": {"name": "p", "annotations": {"a": "x" * 100_000}, "managedFields": [fields]}, "status": {}}
    given["now"] = StubResponse(body=json.dumps({"metadata": {}, "items": [pod]}).encode())
    (found,) = KubernetesClient(server.url).pods("shop", "app=parse")
    assert found.metadata.name == "p"
    assert len(str(found)) < 2_000


def test_nobody_there_is_away() -> None:
    """As is a server that restarts."""
    with pytest.raises(ApiUnavailable, match="Connection refused"):
        KubernetesClient("http://127.0.0.1:1").scale(TARGET)


# --- where it is ------------------------------------------------------------------------------------------------------------

KUBERNETES = {"engine": "kafka", "actuator": "kubernetes", "groups_file": "g"}


def test_a_pod_finds_its_own_cluster(tmp_path: Path) -> None:
    """Address from the environment; token and authorities from the account's folder. The token may change."""
    make_certificates(tmp_path)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "ca.pem").read_bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker-key.pem")
    with answering(lambda asked: StubResponse(body=SCALE), context) as server:
        port = server.url.rpartition(":")[2]
        environment = {"KUBERNETES_SERVICE_HOST": "localhost", "KUBERNETES_SERVICE_PORT": port}
        client = client_of(
            role_settings(ClusterSettings, **KUBERNETES).part(KubernetesSettings), environment=environment, in_pod=tmp_path
        )
        for token in ("first", "second"):
            (tmp_path / "token").write_text(token)
            client.scale(TARGET)
            assert server.asked[-1].headers["Authorization"] == f"Bearer {token}"
        (tmp_path / "token").unlink()
        with pytest.raises(NotAuthenticated, match=r"SURESCALE_KUBERNETES_TOKEN_FILE: .*token cannot be read"):
            client.scale(TARGET)


def test_outside_a_pod_the_address_must_be_set() -> None:
    """The line says to what."""
    with pytest.raises(SettingsError, match="SURESCALE_KUBERNETES_URL: not set, and this is not a pod of a cluster; set the"):
        client_of(role_settings(ClusterSettings, **KUBERNETES).part(KubernetesSettings), environment={})


def test_a_file_without_authorities_ends_the_start(tmp_path: Path) -> None:
    """The message names the setting."""
    (tmp_path / "ca.pem").write_text("no certificate")
    settings = role_settings(
        ClusterSettings, **KUBERNETES, kubernetes_url="https://k", kubernetes_ca_file=str(tmp_path / "ca.pem")
    )
    with pytest.raises(SettingsError, match="SURESCALE_KUBERNETES_CA_FILE"):
        client_of(settings.part(KubernetesSettings))
