"""What a client shows and checks when it connects: authorities, certificate, token."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.errors import FlinkUnavailable, NotAuthorized
from surescale.runtime.access import Access, TokenUnreadable
from tests.support.secure_broker import make_certificates
from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

OVERVIEW = b'{"flink-version": "2.3.0", "taskmanagers": 1, "slots-total": 4, "slots-available": 2}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a server and of a client, and two authorities."""
    made = tmp_path_factory.mktemp("certificates")
    make_certificates(made)
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[StubServer]:
    """A server that asks for a client's certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "broker.pem", folder / "broker-key.pem")
    with answering(lambda asked: StubResponse(body=OVERVIEW), context) as answers:
        yield answers


def files(folder: Path, **names: str) -> Access:
    """Return an access by files of the folder."""
    return Access(**{name: str(folder / file) for name, file in names.items()})


def test_a_server_is_trusted_by_its_authority_and_knows_its_client(folder: Path, server: StubServer) -> None:
    """Over one kept connection."""
    client = FlinkClient(server.url, files(folder, ca_file="ca.pem", certificate_file="client.pem", key_file="client-key.pem"))
    assert [client.overview().slots_available for _ in range(2)] == [2, 2]
    client.close()
    assert len({asked.client for asked in server.asked}) == 1


@pytest.mark.parametrize(
    "names",
    [
        {"ca_file": "other-ca.pem", "certificate_file": "client.pem", "key_file": "client-key.pem"},
        {"ca_file": "ca.pem"},
        {},
    ],
)
def test_without_the_right_files_nothing_is_said(folder: Path, server: StubServer, names: dict[str, str]) -> None:
    """Another authority, no certificate, no files at all."""
    with pytest.raises(FlinkUnavailable):
        FlinkClient(server.url, files(folder, **names)).overview()
    assert server.asked == []


def test_a_key_that_does_not_fit_is_named_at_the_start(folder: Path) -> None:
    """With the settings."""
    with pytest.raises(SettingsError, match="SURESCALE_ENGINE_CA_FILE, _CERTIFICATE_FILE, _KEY_FILE"):
        files(folder, certificate_file="client.pem", key_file="ca-key.pem").context()


@pytest.mark.parametrize(
    ("text", "header"),
    [("abc\n", "Bearer abc"), ("Basic dXNlcjpwYXNz\n", "Basic dXNlcjpwYXNz")],
)
def test_a_token_is_sent_as_it_stands_in_the_file_now(tmp_path: Path, text: str, header: str) -> None:
    """A rotated one counts from the next request on."""
    token = tmp_path / "token"
    token.write_text("old")
    with answering(lambda asked: StubResponse(body=OVERVIEW)) as server:
        client = FlinkClient(server.url, Access(token_file=str(token)))
        client.overview()
        token.write_text(text)
        client.overview()
        client.close()
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer old", header]


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff\xfe"])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: bytes) -> None:
    """And nothing is asked without one."""
    token = tmp_path / "token"
    token.write_bytes(content)
    with pytest.raises(TokenUnreadable, match="SURESCALE_ENGINE_TOKEN_FILE"):
        Access(token_file=str(token)).headers()


def test_a_token_that_is_refused_is_no_absence(tmp_path: Path) -> None:
    """Neither token nor answer is in the message."""

    def refuse(asked: StubRequest) -> StubResponse:
        return StubResponse(401, b"no")

    token = tmp_path / "token"
    token.write_text("hunter2")
    with answering(refuse) as server, pytest.raises(NotAuthorized) as problem:
        FlinkClient(server.url, Access(token_file=str(token))).overview()
    assert "hunter2" not in str(problem.value)
    assert "SURESCALE_ENGINE_TOKEN_FILE" in str(problem.value)
