"""What KEDA is told over gRPC: by a real client over loopback, from a view in a real Redis, whose bytes are KEDA's own."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import shutil
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec import Raw
from msgspec.structs import replace

from surescale.contracts import foreign_files, topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import Quiet
from surescale.contracts.rescaler_state import Condition, JobSummary, RescalerRecord
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.runtime.ports import free_port
from surescale.services.state.connection import connect
from surescale.services.state.keda import server
from surescale.services.state.keda.answers import Target, target_of
from surescale.services.state.keda.messages import SERVICE
from surescale.services.state.keda.server import METRIC, ExternalScaler
from surescale.services.state.read.queries import Queries
from surescale.services.state.settings import StateSettings
from surescale.services.state.write.operations import Operation, condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import ViewStore
from tests.support.builders import JOB, topology, window_at
from tests.support.protobuf import field
from tests.support.secure_broker import make_certificates
from tests.support.view_pipeline import decision
from tests.support.waiting import PATIENT_S

PREFIX = "keda-"
DECIDED = 60 * MINUTE_MS
LOG = logging.getLogger("test")


def running(job: str, minute: int, fixed: str = "") -> Iterator[tuple[str, str, bytes]]:
    """Yield what is known of a job whose newest figures are of a minute; ``fixed``: why its sizes are."""
    tasks = tuple(replace(spec, fixed=fixed) for spec in topology().tasks)
    found = replace(topology(), job=job, at_ms=DECIDED, tasks=tasks)
    yield topics.JOB_TOPOLOGY, job, encode(found)
    yield topics.SNAPSHOTS, job, encode_window(dataclasses.replace(window_at(minute), job=job, topology=found))


def resting(waiting: int, at_ms: int = DECIDED, why: str = "") -> Iterator[tuple[str, str, bytes]]:
    """Yield what is known of a job that surescale took to rest."""
    quiet = Quiet(since_ms=None, waiting=waiting, why=why)
    found = replace(topology(), job="sim/rests", at_ms=at_ms, version=2, state="resting", quiet=quiet)
    rests = Condition(type="Available", status=True, reason="AtRest", message="", last_transition_ms=0, observed_generation=0)
    summary = JobSummary(conditions=(rests,))
    memory = RescalerRecord(cluster="sim", kind="job", id="sim/rests", at_ms=1, body=Raw(b"{}"), summary=summary)
    yield topics.JOB_TOPOLOGY, "sim/rests", encode(found)
    yield topics.RESCALER_STATE, "sim/job/sim/rests", encode(memory)


def everything() -> Iterator[tuple[str, str, bytes]]:
    """Yield records of a job that runs, and of one each that is silent, new, of fixed size, ended, and at rest."""
    yield from running(JOB, 60)
    yield topics.DECISIONS, "sim", encode(decision(6))
    yield from running("sim/silent", 30)
    yield topics.DECISIONS, "sim", encode(decision(3, job="sim/silent"))
    yield from running("sim/new", 60)
    yield from running("sim/threes", 60, "4 workers are 12 members")
    yield topics.DECISIONS, "sim", encode(decision(12, job="sim/threes"))
    yield topics.JOB_TOPOLOGY, "sim/ended", encode(replace(topology(), job="sim/ended", state="finished"))
    yield topics.DECISIONS, "sim", encode(decision(6, job="sim/ended"))
    yield from resting(0)


class View:
    """A view in a real Redis that takes records, and queries on it a moment after the newest ones."""

    def __init__(self, url: str) -> None:
        self.client, self._offset = connect(url), 0
        self.store = ViewStore(self.client, PREFIX)
        self.store.flush()
        assert self.store.begin({("decisions", 0): 0}, None)
        self.queries = Queries(self.client, PREFIX, lambda: DECIDED + 5_000)

    def take(self, records: Iterator[tuple[str, str, bytes]]) -> None:
        """Show these records."""
        operations: list[Operation] = []
        for topic, key, value in records:
            self._offset += 1
            operations += project(Record(topic, 0, self._offset, key.encode(), value, DECIDED))
        at = {("decisions", 0): 0}
        assert self.store.write(condensed(operations), at, at)


@pytest.fixture
def view(redis_url: str) -> Iterator[View]:
    """That view, with every job."""
    made = View(redis_url)
    made.take(everything())
    yield made
    made.store.flush()
    made.client.close()


def reference(**metadata: str) -> bytes:
    """Return a ScaledObjectRef as KEDA sends it: name, namespace, and a map, which is a list of pairs."""
    pairs = (field(3, field(1, key) + field(2, value)) for key, value in metadata.items())
    return field(1, "orders") + field(2, "shop") + b"".join(pairs)


ASKED = reference(scalerAddress="surescale:8075", job=JOB, task="map")


@contextlib.asynccontextmanager
async def serving(view: View, **given: Any) -> AsyncIterator[int]:
    """Serve, and give the port."""
    scaler = ExternalScaler(StateSettings(**given), view.queries, LOG)
    port = await scaler.start()
    try:
        yield port
    finally:
        await scaler.stop()


async def ask(port: int, method: str, sent: bytes, credentials: Any = None, *, waits: bool = False) -> bytes:
    """Return the bytes of an answer; ``waits``: for a connection, if there is no room for one yet."""
    place = f"localhost:{port}"
    opened = grpc.aio.secure_channel(place, credentials) if credentials else grpc.aio.insecure_channel(place)
    async with opened as channel:
        call = channel.unary_unary(f"/externalscaler.ExternalScaler/{method}")
        answer: bytes = await call(sent, timeout=PATIENT_S, wait_for_ready=waits)
        return answer


def answered(view: View, method: str, sent: bytes) -> bytes:
    """Return the bytes of an answer to one call."""

    async def once() -> bytes:
        async with serving(view) as port:
            return await ask(port, method, sent)

    return asyncio.run(once())


def refused(view: View, method: str, sent: bytes) -> tuple[str, str]:
    """Return code and words of a refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        answered(view, method, sent)
    return error.value.code().name, error.value.details() or ""


def size(number: int) -> bytes:
    """Return a GetMetricsResponse: one value, as a whole number and as a double."""
    double = bytes((3 << 3 | 1,)) + struct.pack("<d", number)
    return field(1, field(1, METRIC) + field(2, number) + double)


def test_the_figure_is_the_size_that_was_decided_and_the_target_is_one(view: View) -> None:
    """So the HorizontalPodAutoscaler asks for as many pods as the figure says; older KEDA reads the whole numbers."""
    assert answered(view, "GetMetrics", field(1, ASKED) + field(2, METRIC)) == size(3)
    assert answered(view, "GetMetricSpec", ASKED) == size(1)
    assert answered(view, "IsActive", ASKED) == field(1, 1)


@pytest.mark.parametrize(
    ("metadata", "code", "words"),
    [
        ({"task": "map"}, "INVALID_ARGUMENT", "metadata: job: '' is no name of a job; write CLUSTER/NAME"),
        ({"job": "orders", "task": "map"}, "INVALID_ARGUMENT", "metadata: job: 'orders' is no name of a job; write CLUSTER/NAME"),
        ({"job": "a/b/c", "task": "map"}, "INVALID_ARGUMENT", "metadata: job: 'a/b/c' is no name of a job; write CLUSTER/NAME"),
        (
            {"job": f"sim/{'n' * 60_000}", "task": "map"},
            "INVALID_ARGUMENT",
            "metadata: job: 'sim/nnn",
        ),  # more than a refusal may hold
        ({"job": JOB}, "INVALID_ARGUMENT", f"metadata: task: missing; write the name of one of {JOB}'s tasks"),
        ({"job": JOB, "Task": "map"}, "INVALID_ARGUMENT", f"metadata: task: missing; write the name of one of {JOB}'s tasks"),
        ({"job": "sim/nobody", "task": "map"}, "NOT_FOUND", "no job 'sim/nobody' is known; known: "),
        ({"job": JOB, "task": "mop"}, "NOT_FOUND", f"no task of {JOB} 'mop' is known; known: map"),
        ({"job": JOB, "task": "source"}, "NOT_FOUND", "known: map"),  # which may not change its size
        ({"job": "sim/silent", "task": "map"}, "FAILED_PRECONDITION", "sim/silent: no figures for 30 min"),
        ({"job": "sim/new", "task": "map"}, "FAILED_PRECONDITION", "sim/new: nothing has been decided on task 'map' yet"),
        ({"job": "sim/ended", "task": "map"}, "FAILED_PRECONDITION", "sim/ended: it has ended"),
        ({"job": "sim/threes", "task": "map"}, "FAILED_PRECONDITION", "sim/threes: task 'map': 4 workers are 12 members"),
    ],
)
def test_without_a_figure_there_is_an_error_that_says_why(view: View, metadata: dict[str, str], code: str, words: str) -> None:
    """No figure is no 0: KEDA keeps the size then, or does what its fallback says."""
    found = refused(view, "GetMetrics", field(1, reference(**metadata)))
    assert (found[0], words in found[1], "\n" in found[1]) == (code, True, False), found


@pytest.mark.parametrize("sent", [b"\xff\xff", field(1, b"\x80"), field(1, 7), b"\x0a\x7f", b"\x0a" * 100_000])
def test_what_is_no_request_ends_its_call_and_nothing_else(view: View, sent: bytes) -> None:
    """The next one is answered."""

    async def one_after_the_other() -> bytes:
        async with serving(view) as port:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await ask(port, "GetMetrics", sent)
            assert error.value.code() is not grpc.StatusCode.OK
            return await ask(port, "GetMetrics", field(1, ASKED))

    assert asyncio.run(one_after_the_other()) == size(3)


@pytest.mark.parametrize("job", ["sim/silent", "sim/new", "sim/ended"])
def test_a_job_of_which_nothing_is_known_stays_active(view: View, job: str) -> None:
    """KEDA would take it to its minimum, which may be no pod at all."""
    assert answered(view, "IsActive", reference(job=job, task="map")) == field(1, 1)


def test_a_job_at_rest_is_not_active_until_something_may_wait(view: View) -> None:
    """A record, partitions of which it is not known, or a look that is old."""
    sent = reference(job="sim/rests", task="map")
    assert answered(view, "IsActive", sent) == b""
    for known in (resting(1), resting(0, why="partition 3 has no leader"), resting(0, at_ms=DECIDED - 5 * MINUTE_MS)):
        view.take(known)
        assert answered(view, "IsActive", sent) == field(1, 1)


def test_a_job_at_rest_stays_so_without_the_rescaler_where_keda_can_wake_it(view: View) -> None:
    """No decision on it is answered any more, and nothing waits."""
    view.take(running("sim/rests", 60))
    view.take(iter([(topics.DECISIONS, "sim", encode(decision(5, job="sim/rests")))]))
    view.take(resting(0))
    assert view.queries.overview("sim/rests").status == "stalled"
    sent = reference(job="sim/rests", task="map")
    assert answered(view, "IsActive", sent) == b""
    view.take(resting(1))
    assert answered(view, "IsActive", sent) == field(1, 1)


def test_a_stream_says_when_that_changes(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once how it is, and then no more than the changes."""
    monkeypatch.setattr(server, "LOOK_EVERY_S", 0.05)

    async def followed() -> list[bytes]:
        async with serving(view) as port, grpc.aio.insecure_channel(f"localhost:{port}") as channel:
            method = channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive")
            stream = method(reference(job="sim/rests", task="map"), timeout=PATIENT_S)
            said = [await stream.read()]
            for waiting in (1, 0):
                view.take(resting(waiting))
                said.append(await stream.read())
            return said

    assert asyncio.run(followed()) == [b"", field(1, 1), b""]


def test_an_operator_of_many_scaled_objects_is_answered_while_each_has_a_stream(view: View) -> None:
    """All over one connection, as KEDA does with push triggers."""
    many = 500

    async def crowded() -> tuple[set[bytes], bytes]:
        async with serving(view) as port, grpc.aio.insecure_channel(f"localhost:{port}") as channel:
            method = channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive")
            streams = [method(ASKED, timeout=PATIENT_S) for _ in range(many)]
            said = set(await asyncio.gather(*(stream.read() for stream in streams)))
            answer = await channel.unary_unary("/externalscaler.ExternalScaler/GetMetrics")(field(1, ASKED), timeout=PATIENT_S)
            for stream in streams:
                stream.cancel()
            return said, answer

    assert asyncio.run(crowded()) == ({field(1, 1)}, size(3))


def test_while_redis_is_away_there_is_no_figure_but_still_a_target(view: View) -> None:
    """KEDA leaves a trigger out of its HorizontalPodAutoscaler that cannot say its target."""
    view.queries = Queries(connect(f"redis://127.0.0.1:{free_port()}/0"), PREFIX)
    code, words = refused(view, "GetMetrics", field(1, ASKED))
    assert (code, words.startswith("the view in Redis cannot be read now: ")) == ("UNAVAILABLE", True)
    assert answered(view, "GetMetricSpec", ASKED) == size(1)


def test_with_tls_only_who_shows_a_certificate_of_the_authority_is_answered(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the server's certificate has changed; a broken one leaves that of before in force."""
    monkeypatch.setattr(server, "LOOK_EVERY_S", 0.05)
    make_certificates(tmp_path)
    (tmp_path / "other").mkdir()
    make_certificates(tmp_path / "other")
    files = {name: tmp_path / f"{name}.pem" for name in ("broker", "broker-key", "ca", "client", "client-key")}
    given = {
        "http_certificate_file": str(files["broker"]),
        "http_key_file": str(files["broker-key"]),
        "keda_client_ca_file": str(files["ca"]),
    }

    def client(ca: Path, *own: Path) -> Any:
        key, certificate = (path.read_bytes() for path in own) if own else (None, None)
        return grpc.ssl_channel_credentials(ca.read_bytes(), key, certificate)

    mine = client(files["ca"], files["client-key"], files["client"])
    other = tmp_path / "other"
    strangers = (
        None,
        client(files["ca"]),
        client(files["ca"], other / "client-key.pem", other / "client.pem"),
        client(other / "ca.pem", files["client-key"], files["client"]),
    )

    async def asked() -> None:
        async with serving(view, **given) as port:
            assert await ask(port, "GetMetrics", field(1, ASKED), mine) == size(3)
            for stranger in strangers:
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await ask(port, "GetMetrics", field(1, ASKED), stranger)
                assert error.value.code() is grpc.StatusCode.UNAVAILABLE
            files["broker"].write_text("no certificate")
            assert await ask(port, "GetMetrics", field(1, ASKED), mine) == size(3)
            for name in ("broker", "broker-key"):
                shutil.copy(other / f"{name}.pem", files[name])
            changed = client(other / "ca.pem", files["client-key"], files["client"])
            async with asyncio.timeout(PATIENT_S):
                while (answer := await answer_if_any(port, changed)) is None:
                    await asyncio.sleep(0.02)
            assert answer == size(3)

    asyncio.run(asked())


def test_an_operator_has_a_connection_for_each_certificate_that_its_scaled_objects_name(view: View, tmp_path: Path) -> None:
    """KEDA keeps them all, from one address; one that shows none of the authority takes nobody's place."""
    make_certificates(tmp_path)
    ca, certificate, key = ((tmp_path / f"{name}.pem").read_bytes() for name in ("ca", "client", "client-key"))
    given = {
        "http_certificate_file": str(tmp_path / "broker.pem"),
        "http_key_file": str(tmp_path / "broker-key.pem"),
        "keda_client_ca_file": str(tmp_path / "ca.pem"),
    }
    options = (("grpc.use_local_subchannel_pool", 1),)  # else all channels have one connection

    async def crowded() -> set[bytes]:
        async with serving(view, **given) as port, contextlib.AsyncExitStack() as opened:
            said = set[bytes]()
            for _ in range(3 * server.OF_EACH_MAX):
                credentials = grpc.ssl_channel_credentials(ca, key, certificate)
                channel = grpc.aio.secure_channel(f"localhost:{port}", credentials, options)
                await opened.enter_async_context(channel)
                stream = channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive")(ASKED, timeout=PATIENT_S)
                said.add(await stream.read())
            return said

    assert asyncio.run(crowded()) == {field(1, 1)}


async def answer_if_any(port: int, credentials: Any) -> bytes | None:
    """Return an answer, None if the server does not show the certificate that the client believes."""
    try:
        return await ask(port, "GetMetrics", field(1, ASKED), credentials)
    except grpc.aio.AioRpcError:
        return None


def test_a_certificate_on_a_disk_that_says_nothing_holds_up_no_connection(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it have ever more threads wait for it."""
    make_certificates(tmp_path)
    certificate = tmp_path / "broker.pem"
    monkeypatch.setattr(server, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(foreign_files, "WHOLE_S", 0.2)
    given = {"http_certificate_file": str(certificate), "http_key_file": str(tmp_path / "broker-key.pem")}
    credentials = grpc.ssl_channel_credentials((tmp_path / "ca.pem").read_bytes())

    def looks() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "a look at a file"]

    async def asked(pipe: Path) -> None:
        async with serving(view, **given) as port, asyncio.timeout(PATIENT_S):
            os.replace(pipe, certificate)  # whoever opens it waits
            while not looks():
                await asyncio.sleep(0.01)
            for _ in range(30):
                assert await ask(port, "GetMetrics", field(1, ASKED), credentials) == size(3)
                assert len(looks()) <= 1
                await asyncio.sleep(0.02)

    os.mkfifo(tmp_path / "pipe")
    asyncio.run(asked(tmp_path / "pipe"))
    certificate.open("wb").close()  # lets go who waits
    for each in looks():
        each.join()


@pytest.mark.parametrize("name", ["x" * 120, "absent"])
def test_without_room_for_the_private_socket_there_is_one_line(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A path of a socket has 107 letters at most. Nothing is left behind."""
    folder = tmp_path / name
    if name != "absent":
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(SettingsError, match=r"^SURESCALE_KEDA_PORT: needs a socket in .*; set TMPDIR to a short path") as refused:
        asyncio.run(ExternalScaler(StateSettings(), view.queries, LOG).start())
    assert "\n" not in str(refused.value)
    assert not folder.exists() or not list(folder.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_that_is_used(
    view: View, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what is somebody else's by its contents, or has only just begun."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = {name: tmp_path / f"surescale-keda-{name}" for name in ("used", "begun", "file")}
    left = tmp_path / "surescale-keda-left"
    for folder in (kept["used"], kept["begun"], left):
        folder.mkdir()
    (kept["file"]).write_text("mine")
    with socket.socket(socket.AF_UNIX) as used, socket.socket(socket.AF_UNIX) as killed:
        used.bind(str(kept["used"] / "socket"))
        used.listen()
        killed.bind(str(left / "socket"))
        killed.listen()
        killed.close()
        assert (left / "socket").is_socket()
        assert answered(view, "IsActive", ASKED) == field(1, 1)
    assert sorted(tmp_path.iterdir()) == sorted(kept.values())


def test_nobody_reaches_the_server_but_through_the_door(view: View) -> None:
    """Other users of the machine reach every loopback port: there is no second one, and no file that they could open."""

    def listening(kind: str, state: str) -> set[str]:
        """Return where this process listens, as the kernel writes it."""
        mine = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
        rows = [line.split() for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
        of, inode, place = (3, 9, 1) if kind.startswith("tcp") else (3, 6, 7)
        return {row[place] for row in rows if row[of] == state and f"socket:[{row[inode]}]" in mine}

    async def opened() -> None:
        before = listening("tcp", "0A") | listening("tcp6", "0A")
        async with serving(view) as port:
            after = listening("tcp", "0A") | listening("tcp6", "0A")
            assert {each.partition(":")[2] for each in after - before} == {f"{port:04X}"}
            (inner,) = map(Path, listening("unix", "00010000"))
            assert stat.S_IMODE(inner.parent.stat().st_mode) == 0o700
        assert not inner.parent.exists()

    asyncio.run(opened())


def test_connections_that_say_nothing_end_and_there_are_not_more_than_a_number(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take the descriptors that Kafka and Redis need."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(server, "GREETS_WITHIN_S", 2.0)

    async def greeted(reader: asyncio.StreamReader) -> bool:
        """Say whether the server says anything before it ends a connection."""
        try:
            return bool(await reader.read())
        except ConnectionError:
            return False

    async def crowded() -> tuple[int, bytes]:
        async with serving(view) as port, asyncio.timeout(PATIENT_S):
            crowd = [await asyncio.open_connection("localhost", port) for _ in range(20)]
            let_in = sum([await greeted(reader) for reader, _ in crowd])
            answer = await ask(port, "GetMetrics", field(1, ASKED), waits=True)
            for _, writer in crowd:
                writer.close()
            return let_in, answer

    let_in, answer = asyncio.run(crowded())
    assert (0 < let_in < 20, answer) == (True, size(3))


def test_one_address_cannot_take_all_connections(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it keeps them: here by saying hello. Another one is let in, and so is this one once it has left."""
    monkeypatch.setattr(server, "OF_EACH_MAX", 3)
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))

    async def is_let_in(port: int, address: str) -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(hello)
        try:
            return bool(await reader.read(1)), writer
        except ConnectionError:
            return False, writer

    async def crowded() -> None:
        async with serving(view) as port, asyncio.timeout(PATIENT_S):
            crowd = [await is_let_in(port, "127.0.0.1") for _ in range(10)]
            assert [is_in for is_in, _ in crowd] == [True] * 3 + [False] * 7
            assert (await is_let_in(port, "127.0.0.2"))[0]
            for _, writer in crowd:
                writer.close()
            while not (await is_let_in(port, "127.0.0.1"))[0]:
                await asyncio.sleep(0.02)

    asyncio.run(crowded())


def test_one_address_cannot_take_all_calls(view: View) -> None:
    """By halves of them, for which the server would wait for ever: whoever comes from elsewhere is answered."""

    def half_calls(number: int) -> bytes:
        """Return the headers of calls whose messages never come."""
        path, kind = f"/{SERVICE}/GetMetrics".encode(), b"application/grpc"
        given = ((b":path", path), (b":authority", b"x"), (b"content-type", kind), (b"te", b"trailers"))
        named = b"".join(b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value for name, value in given)
        headers = b"\x83\x86" + named  # POST, http
        frames = (len(headers).to_bytes(3) + bytes((1, 4)) + (2 * each + 1).to_bytes(4) + headers for each in range(number))
        return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)) + b"".join(frames)

    async def crowded() -> bytes:
        async with serving(view) as port, asyncio.timeout(PATIENT_S):
            crowd = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(30)]
            for reader, writer in crowd:
                with contextlib.suppress(ConnectionError):
                    writer.write(half_calls(2_000))
                    await writer.drain()
                    await reader.read(1)
            return await ask(port, "GetMetrics", field(1, ASKED))

    assert asyncio.run(crowded()) == size(3)


def test_calls_that_wait_for_the_view_hold_up_no_other_work(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the HTTP API, however many calls there are: here it is what lets them go on."""
    goes_on, let_go, asked = threading.Event(), list[bool](), list[Target]()

    def noted(metadata: Mapping[str, str]) -> Target:
        asked.append(target_of(metadata))
        return asked[-1]

    class Slow(Queries):
        def overview(self, job: str) -> Any:
            let_go.append(goes_on.wait(PATIENT_S / 4))
            return super().overview(job)

    view.queries = Slow(view.client, PREFIX, lambda: DECIDED + 5_000)
    monkeypatch.setattr(server, "target_of", noted)

    async def crowded() -> list[bytes]:
        async with serving(view) as port, asyncio.timeout(PATIENT_S):
            calls = [asyncio.create_task(ask(port, "GetMetrics", field(1, ASKED))) for _ in range(50)]
            while len(asked) < len(calls):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(goes_on.set)
            return await asyncio.gather(*calls)

    assert set(asyncio.run(crowded())) == {size(3)}
    assert let_go == [True] * 50


def test_a_call_is_still_answered_when_the_service_ends_meanwhile(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at every rollout; nobody new is let in."""
    monkeypatch.setattr(server, "END_WITHIN_S", PATIENT_S)
    goes_on, asked = threading.Event(), threading.Event()

    class Slow(Queries):
        def overview(self, job: str) -> Any:
            asked.set()
            goes_on.wait(PATIENT_S)
            return super().overview(job)

    view.queries = Slow(view.client, PREFIX, lambda: DECIDED + 5_000)

    async def ended() -> bytes:
        scaler = ExternalScaler(StateSettings(), view.queries, LOG)
        port = await scaler.start()
        call = asyncio.create_task(ask(port, "GetMetrics", field(1, ASKED)))
        await asyncio.to_thread(asked.wait, PATIENT_S)
        stops = asyncio.create_task(scaler.stop())
        with contextlib.suppress(ConnectionError):
            while True:
                _, late = await asyncio.open_connection("127.0.0.1", port)
                late.close()
        goes_on.set()
        answer = await call
        await stops
        return answer

    assert asyncio.run(ended()) == size(3)


def test_a_port_that_is_taken_is_one_line(view: View) -> None:
    """Also by another scaler, which would take half of the calls."""

    async def twice() -> None:
        async with serving(view) as port:
            with pytest.raises(SettingsError, match=rf"SURESCALE_KEDA_PORT: 127\.0\.0\.1:{port} cannot be opened; choose"):
                await ExternalScaler(StateSettings(keda_port=port), view.queries, LOG).start()

    asyncio.run(twice())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"keda_port": 70_000}, "SURESCALE_KEDA_PORT: 70000 is not a port"),
        ({"keda_client_ca_file": "ca.pem"}, "SURESCALE_KEDA_CLIENT_CA_FILE: needs TLS; set SURESCALE_HTTP_CERTIFICATE_FILE"),
        ({"keda_port": 8075, "http_token_file": "tokens"}, "and KEDA sends none; set SURESCALE_KEDA_CLIENT_CA_FILE"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], words: str) -> None:
    """A port without tokens would read what the API guards by them."""
    with pytest.raises(SettingsError, match=words):
        StateSettings(**given)


@pytest.mark.parametrize("missing", ["http_certificate_file", "keda_client_ca_file"])
def test_a_file_that_cannot_be_used_is_one_line(view: View, tmp_path: Path, missing: str) -> None:
    """Before the port opens."""
    make_certificates(tmp_path)
    given: dict[str, Any] = {
        "http_certificate_file": str(tmp_path / "broker.pem"),
        "http_key_file": str(tmp_path / "broker-key.pem"),
        "keda_client_ca_file": str(tmp_path / "ca.pem"),
    }
    for broken in (tmp_path / "absent.pem", tmp_path / "empty.pem"):
        (tmp_path / "empty.pem").touch()
        with pytest.raises(SettingsError, match=r"^SURESCALE_HTTP_CERTIFICATE_FILE, .*cannot be used .*; set them to PEM files$"):
            ExternalScaler(StateSettings(**{**given, missing: str(broken)}), view.queries, LOG)
