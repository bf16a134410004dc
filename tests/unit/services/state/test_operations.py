"""Who may change something over HTTP, and in which form: everything that is refused before Kafka is asked."""

import asyncio
import fcntl
import io
import json
import os
import termios
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from surescale.contracts import foreign_files
from surescale.contracts.errors import SettingsError
from surescale.services.job_settings.advice import NoOpenAdvice
from surescale.services.job_settings.snapshot import RequestReused, UnknownName, VersionConflict
from surescale.services.state import access, api
from surescale.services.state.access import Caller, Tokens, Unreadable, is_loopback, is_same_site
from surescale.services.state.api import make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument, OperationDocument
from surescale.services.state.http import operations, stream
from surescale.services.state.http.operations import BODY_BYTES_MAX, OPERATIONS, WAITING_MAX
from surescale.services.state.operate import OperationRequest
from surescale.services.state.read.queries import Queries
from tests.support.waiting import PATIENT_S

READER, ANA, ANA_NEW, BEN = (f"{name}-token-of-sixteen-or-more" for name in ("reader", "ana", "ana-new", "ben"))
PAUSE = "/jobs/sim/clicks/pause"
DONE = OperationDocument(
    target="sim/clicks", done="paused", written=True, repeated=False, version=1, by="ana", at_ms=1, paused=""
)
Body = Callable[[TestClient[Any, Any], list[OperationRequest]], Awaitable[None]]


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    """A reader, and two who may operate."""
    (tmp_path / "read").write_text(f"{READER}\n")
    (tmp_path / "operate").write_text(f"ana {ANA}\nana {ANA_NEW}\n\nben.b@example {BEN}\n")
    return Tokens(str(tmp_path / "read"), str(tmp_path / "operate"))


def served(body: Body, tokens: Tokens, ends: Exception | None = None) -> list[OperationRequest]:
    """Run a test with a client; return what was to be carried out. ``ends``: how carrying out ends."""
    taken: list[OperationRequest] = []

    def execute(asked: OperationRequest) -> OperationDocument:
        taken.append(asked)
        if ends is not None:
            raise ends
        return DONE

    async def run() -> None:
        queries = Queries(connect("redis://nowhere"), "")
        app = make_app(
            queries,
            lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0),
            redis_url="",
            tokens=tokens,
            execute=execute,
        )
        async with asyncio.timeout(60), TestClient(TestServer(app)) as client:
            await body(client, taken)

    asyncio.run(run())
    return taken


async def post(client: TestClient[Any, Any], path: str = PAUSE, sent: object = None, **headers: str) -> tuple[int, str]:
    """Return status and error of a POST; a header that is empty is left out, ``_`` in names stands for ``-``."""
    given = {"Authorization": f"Bearer {ANA}", "Content-Type": "application/json", "Idempotency-Key": "k1"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = sent if isinstance(sent, bytes) else json.dumps({"why": "audit"} if sent is None else sent).encode()
    skipped = ["Content-Type"] if not given["Content-Type"] else []
    async with client.post(
        path, data=data, headers={name: value for name, value in given.items() if value}, skip_auto_headers=skipped
    ) as answer:
        document = await answer.json()
        return answer.status, document.get("error", "")


def test_a_request_is_taken_with_its_author_and_all_that_it_says(tokens: Tokens) -> None:
    """The author is the token's name, whatever the body says; the page of our own address is let in."""

    async def body(client: TestClient[Any, Any], taken: list[OperationRequest]) -> None:
        own = f"http://{client.host}:{client.port}"
        sent = {"why": "release", "direction": "up", "for": "2h", "version": 7}
        assert await post(client, sent=sent, Origin=own, Sec_Fetch_Site="same-origin") == (200, "")
        assert await post(client, "/clusters/sim/resume", {}, Authorization=f"bearer {BEN}") == (200, "")
        assert await post(client, "/jobs/sim/clicks/approve", {"decision_id": "sim/clicks@0/sure"}) == (200, "")

    pause, resume, approve = served(body, tokens)
    assert (pause.scope, pause.by, pause.key) == ("sim/clicks", "ana", "k1")
    assert (pause.body.why, pause.body.direction, pause.body.lasting, pause.body.until, pause.body.version) == (  # type: ignore[union-attr]
        "release", "up", "2h", None, 7,
    )  # fmt: skip
    assert (resume.scope, resume.by) == ("sim/*", "ben.b@example")
    assert approve.body.decision_id == "sim/clicks@0/sure"  # type: ignore[union-attr]
    assert len({each.request for each in (pause, resume, approve)}) == 3


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({"Authorization": ""}, 401, "a token is required"),
        ({"Authorization": f"Bearer {ANA[:-1]}"}, 401, "a token is required"),
        ({"Authorization": f"Basic {ANA}"}, 401, "a token is required"),
        ({"Authorization": "", "Cookie": f"token={ANA}"}, 401, "a token is required"),
        ({"Authorization": f"Bearer {READER}"}, 403, "this token may not operate"),
        ({"Origin": "https://attacker.example"}, 403, "Origin"),
        ({"Origin": "null"}, 403, "Origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "Origin"),
        ({"Sec-Fetch-Site": "same-site"}, 403, "Origin"),
        ({"Host": "attacker.example", "Origin": "https://attacker.example"}, 421, "SURESCALE_HTTP_HOSTS"),
        ({"Host": "localhost/attacker.example"}, 421, "SURESCALE_HTTP_HOSTS"),
        ({"Host": "localhost attacker.example"}, 421, "SURESCALE_HTTP_HOSTS"),
        ({"Host": "attacker%2eexample"}, 421, "SURESCALE_HTTP_HOSTS"),
        ({"Content-Type": "text/plain"}, 415, "application/json"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "application/json"),
        ({"Content-Type": ""}, 415, "application/json"),
        ({"Idempotency-Key": ""}, 400, "Idempotency-Key"),
        ({"Idempotency-Key": "a#b"}, 400, "Idempotency-Key"),
        ({"Idempotency-Key": "k" * 129}, 400, "Idempotency-Key"),
        ({"Idempotency-Key": "two words"}, 400, "Idempotency-Key"),
    ],
)
def test_who_may_not_or_not_in_this_form_is_refused(tokens: Tokens, headers: dict[str, str], status: int, words: str) -> None:
    """In one line that names the header; nothing is carried out."""

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        code, error = await post(client, **headers)
        assert (code, words in error, "\n" in error) == (status, True, False), error

    assert served(body, tokens) == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_compressed_is_refused(tokens: Tokens, encoding: str) -> None:
    """Whether or not it is what it says: a little of it may be much."""

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        headers = {"Authorization": f"Bearer {ANA}", "Content-Type": "application/json", "Idempotency-Key": "k1"}
        encoded = headers | {"Content-Encoding": encoding}
        async with client.post(PAUSE, data=io.BytesIO(b"no such thing"), headers=encoded) as answer:
            assert (answer.status, "Content-Encoding" in (await answer.json())["error"]) == (415, True)

    assert served(body, tokens) == []


@pytest.mark.parametrize(
    ("path", "sent", "status", "words"),
    [
        (PAUSE, b"", 400, "no JSON"),
        (PAUSE, b"{", 400, "no JSON"),
        (PAUSE, b"\xff{}", 400, "no JSON"),
        (PAUSE, b"[" * 4_000, 422, "object"),
        (PAUSE, b'{"why": "' + b"a" * BODY_BYTES_MAX + b'"}', 413, ""),
        (PAUSE, {}, 422, "why"),
        (PAUSE, {"why": ""}, 422, "why"),
        (PAUSE, {"why": "a" * 257}, 422, "why"),
        (PAUSE, {"why": "audit", "direction": "sideways"}, 422, "direction"),
        (PAUSE, {"why": "audit", "by": "somebody else"}, 422, "by"),
        (PAUSE, {"why": "audit", "version": -1}, 422, "version"),
        (PAUSE, {"why": "audit", "version": "1"}, 422, "version"),
        ("/jobs/sim/clicks/resume", {"why": "audit"}, 422, "why"),
        ("/jobs/sim/clicks/approve", {}, 422, "decision_id"),
        (f"{PAUSE}?by=ben", {"why": "audit"}, 400, "by: this path takes no parameters"),
        ("/jobs/sim/clicks/stop", {}, 404, "no such path"),
    ],
)
def test_a_body_that_says_something_else_is_refused(tokens: Tokens, path: str, sent: object, status: int, words: str) -> None:
    """Unknown fields too: a field that is misspelt must not be left out in silence."""

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        code, error = await post(client, path, sent)
        assert (code, words in error, "\n" in error) == (status, True, False), error

    assert served(body, tokens) == []


def test_a_body_that_does_not_come_is_given_up(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is not held for ever by whoever has a token."""
    monkeypatch.setattr(operations, "BODY_WITHIN_S", 0.2)

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        reader, writer = await asyncio.open_connection(client.host, client.port)
        head = [f"POST {PAUSE} HTTP/1.1", f"Host: {client.host}", f"Authorization: Bearer {ANA}", "Idempotency-Key: k"]
        head += ["Content-Type: application/json", "Content-Length: 20", "", '{"wh']
        writer.write("\r\n".join(head).encode())
        assert b" 408 " in await reader.readline()
        writer.close()

    assert served(body, tokens) == []


@pytest.mark.parametrize(
    ("ends", "status", "words"),
    [
        (UnknownName("JOB: there is no job 'sim/clicks'"), 404, "there is no job"),
        (NoOpenAdvice("none is open"), 409, "none is open"),
        (VersionConflict("its settings have version 8"), 409, "version 8"),
        (RequestReused("take a new one"), 422, "take a new one"),
        (SettingsError("--until and --for both say when the pause ends"), 422, "until and for both say when"),
        (ConnectionError("Kafka at b:9092 does not answer"), 503, "Kafka at b:9092"),
    ],
)
def test_how_it_ends_has_a_status_of_its_own(tokens: Tokens, ends: Exception, status: int, words: str) -> None:
    """With the words of the command line, whose options are fields here."""

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        code, error = await post(client)
        assert (code, words in error) == (status, True), error

    assert len(served(body, tokens, ends)) == 1


def test_without_tokens_that_may_operate_the_service_only_reads(tmp_path: Path) -> None:
    """Also where everybody may read; with such tokens, reading stays open and changing does not."""
    (tmp_path / "operate").write_text(f"ana {ANA}\n")

    async def only_reads(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        code, error = await post(client)
        assert (code, error[:24]) == (403, "this service only reads;")
        async with client.get("/access") as answer:
            assert await answer.json() == {"name": "", "may_operate": False, "operable": False}

    async def operable(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        assert (await post(client, Authorization=""))[0] == 401
        assert (await post(client, Authorization=f"Bearer {READER}"))[0] == 403
        for token, told in (("", ""), (ANA, "ana")):
            async with client.get("/access", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert await answer.json() == {"name": told, "may_operate": bool(told), "operable": True}

    assert served(only_reads, Tokens()) == []
    assert served(operable, Tokens("", str(tmp_path / "operate"))) == []


def test_requests_wait_for_one_another_and_too_many_do_not(tokens: Tokens) -> None:
    """A bounded number waits; who goes away while it is carried out has asked all the same."""
    going, most = [0], [0]

    def slow(_: OperationRequest) -> OperationDocument:
        going[0] += 1
        most[0] = max(most[0], going[0])
        release.acquire()
        going[0] -= 1
        return DONE

    release = threading.Semaphore(0)

    async def run() -> None:
        app = make_app(
            Queries(connect("redis://nowhere"), ""),
            lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0),
            redis_url="",
            tokens=tokens,
            execute=slow,
        )
        async with asyncio.timeout(60), TestClient(TestServer(app)) as client:
            asked = [asyncio.create_task(post(client)) for _ in range(WAITING_MAX + 1)]
            try:
                first = await next(asyncio.as_completed(asked))
            finally:
                release.release(WAITING_MAX + 1)
            assert first[0] == 503
            assert sorted([code for code, _ in await asyncio.gather(*asked)]) == [200] * WAITING_MAX + [503]

    asyncio.run(run())
    assert most == [1]


def test_a_client_with_many_event_streams_makes_room_for_others(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its oldest one ends, as long as it has more than who asks."""
    monkeypatch.setattr(stream, "STREAMS_MAX", 3)

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        async def listens(token: str) -> ClientResponse:
            return await client.get("/events", headers={"Authorization": f"Bearer {token}"})

        of_ana = [await listens(ANA) for _ in range(3)]
        assert (await listens(ANA)).status == 503
        assert (await listens(BEN)).status == 200
        async with asyncio.timeout(PATIENT_S):
            await of_ana[0].read()  # it has an end
        assert (await listens(BEN)).status == 503  # two of one and one of the other are fair
        assert not any(each.content.at_eof() for each in of_ana[1:])

    served(body, tokens)


def test_a_file_of_tokens_that_says_nothing_holds_up_nobody_who_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that no longer answers: who asks with a token waits for it, all for the same look; probes do not."""
    monkeypatch.setattr(foreign_files, "SILENT_S", foreign_files.WHOLE_S)
    path = tmp_path / "read"
    path.write_text(READER)
    asked = list[bool]()

    class Counted(Tokens):
        @property
        def has_files(self) -> bool:
            asked.append(True)
            return super().has_files

    tokens, looks = Counted(str(path)), list[str]()
    path.unlink()
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR)  # a writer that says nothing

    def noted(file: str | Path) -> bytes:
        looks.append(str(file))
        return foreign_files.contents(file)

    monkeypatch.setattr(access, "contents", noted)

    async def body(client: TestClient[Any, Any], _: list[OperationRequest]) -> None:
        async def status_of(path: str) -> int:
            async with client.get(path, headers={"Authorization": f"Bearer {READER}"}) as answer:
                return answer.status

        waiting = [asyncio.create_task(status_of("/openapi.json")) for _ in range(20)]
        while len(asked) < len(waiting):
            await asyncio.sleep(0.01)
        assert await status_of("/health") == 200
        assert not any(each.done() for each in waiting)
        os.write(held, READER.encode())
        while fcntl.ioctl(held, termios.FIONREAD, bytes(4)) != bytes(4):  # what nobody has read goes with the last end
            await asyncio.sleep(0.01)
        os.close(held)
        assert set(await asyncio.gather(*waiting)) == {200}

    served(body, tokens)
    assert len(looks) == 1


def test_tokens_have_names_and_rotate(tmp_path: Path) -> None:
    """Old and new one hold together. What is half written lets nobody in who was not; readers go on."""
    readers, operators = tmp_path / "read", tmp_path / "operate"
    readers.write_text(READER)
    operators.write_text(f"ana {ANA}\n")
    tokens = Tokens(str(readers), str(operators))
    assert tokens.caller(f"Bearer {ANA}") == Caller("ana", may_operate=True)
    assert tokens.caller(f"Bearer {READER}") == Caller()
    assert tokens.caller(f"Bearer ana {ANA}") is tokens.caller(f"Bearer {ANA_NEW}") is None
    operators.write_text(f"ana {ANA}\nana {ANA_NEW}\n")
    assert {tokens.caller(f"Bearer {token}") for token in (ANA, ANA_NEW)} == {Caller("ana", may_operate=True)}
    operators.write_text(f"ana {ANA_NEW}\nben\n")
    with pytest.raises(Unreadable):
        tokens.caller(f"Bearer {ANA}")
    assert tokens.caller(f"Bearer {READER}") == Caller()
    operators.unlink()
    with pytest.raises(Unreadable):
        tokens.caller(f"Bearer {ANA_NEW}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "write a name and a token a line"),
        (ANA, "line 1: write a name and a token"),
        ("ana short", "at least 16 characters"),
        (f"ana {ANA}\na/b {BEN}", "line 2"),
        (f"ana {ANA} more", "line 1"),
        (f"{'a' * 65} {ANA}", "at most 64"),
        (f"ana {ANA}\nben {ANA}", "line 2: another name has the same token"),
    ],
)
def test_a_wrong_file_is_refused_at_the_start_without_a_piece_of_it(tmp_path: Path, content: str, words: str) -> None:
    """The line says what to write; no token stands in it."""
    (tmp_path / "operate").write_text(content)
    with pytest.raises(SettingsError, match="SURESCALE_HTTP_OPERATE_TOKEN_FILE") as refused:
        Tokens("", str(tmp_path / "operate"))
    assert words in str(refused.value)
    assert "token-of-sixteen" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "origin", "site", "is_same"),
    [
        ("127.0.0.1:8070", None, None, True),
        ("127.0.0.1:8070", "http://127.0.0.1:8070", "same-origin", True),
        ("state.example.org", "https://State.example.org", None, True),  # TLS ends at a proxy
        ("127.0.0.1:8070", None, "none", True),
        ("127.0.0.1:8070", "http://127.0.0.1:8071", None, False),
        ("127.0.0.1:8070", "http://127.0.0.1", None, False),
        ("127.0.0.1:8070", "null", None, False),
        ("127.0.0.1:8070", "", None, False),
        ("", "", None, False),
        ("127.0.0.1:8070", "http://127.0.0.1:8070", "same-site", False),
    ],
)
def test_what_a_browser_tells_of_the_page(host: str, origin: str | None, site: str | None, is_same: bool) -> None:
    """Another port of the same machine is another site."""
    assert is_same_site(host, origin, site) is is_same


@pytest.mark.parametrize(
    ("host", "is_own"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("state", False)]
)
def test_loopback_is_this_machine_alone(host: str, is_own: bool) -> None:
    """A name leads wherever somebody else says."""
    assert is_loopback(host) is is_own


def test_every_operation_is_a_path_below_what_it_changes() -> None:
    """So that a proxy in front can let through reading alone, by the method."""
    assert {(each.of, each.path.rpartition("/")[2]) for each in OPERATIONS} == {
        ("job", "pause"), ("job", "resume"), ("job", "approve"), ("cluster", "pause"), ("cluster", "resume"),
    }  # fmt: skip


def test_wrong_tokens_are_slowed_counted_and_keep_nobody_else_waiting(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They take turns; when too many wait, the next is sent away at once. Those without a token, and right ones, do not wait."""
    monkeypatch.setattr(api, "WRONG_TOKEN_S", 3_600.0)
    monkeypatch.setattr(api, "WRONG_TOKENS_WAIT_MAX", 3)

    async def body(client: TestClient[Any, Any], taken: list[OperationRequest]) -> None:
        async def ask(**headers: str) -> int:
            async with client.get("/access", headers=headers) as answer:
                return answer.status

        asked = [asyncio.create_task(ask(Authorization=f"Bearer wrong-{number}")) for number in range(4)]
        done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == [429]
        assert await ask() == 401
        assert await ask(Authorization=f"Bearer {READER}") == 200
        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()

    served(body, tokens)
    said = [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()]
    assert said == ["1 wrong token so far, the last one from 127.0.0.1"]
