"""Where an HTTP API listens."""

import asyncio
import contextlib
import json
import logging
import math
import socket
import zlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from surescale.contracts.errors import SettingsError
from surescale.runtime.http_answers import HEADERS
from surescale.runtime.listen import HalfRequests, listen, runner_of


def test_a_port_that_is_taken_is_one_line_with_the_option() -> None:
    """And not the operating system's number alone."""

    async def serve(port: int) -> None:
        runner = web.AppRunner(web.Application())
        await runner.setup()
        try:
            await listen(runner, "127.0.0.1", port, option="--port", half_requests=HalfRequests())
        finally:
            await runner.cleanup()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"^--port: cannot listen on 127\.0\.0\.1:{port} \(.+\); name another one$"):
            asyncio.run(serve(port))


HALVES = [b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET /", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nX: "]


@pytest.mark.parametrize("half", HALVES, ids=["nothing", "no end", "a line", "the second one"])
def test_a_connection_on_which_no_whole_request_comes_is_ended(half: bytes) -> None:
    """The first request or a later one; one that is being answered is left alone, however long that takes."""

    async def run() -> None:
        half_requests, slow = HalfRequests(), asyncio.Event()

        async def answer(request: web.Request) -> web.Response:
            if request.path == "/slow":
                await slow.wait()
            return web.Response(text="whole")

        app = web.Application(middlewares=[half_requests.middleware])
        app.router.add_get("/{any:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await listen(runner, "127.0.0.1", 0, option="--port", half_requests=half_requests)
        port = runner.addresses[0][1]
        ends_late = asyncio.create_task(half_requests.end_late(runner, within_s=0.2))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        slow_reader, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        slow_writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        writer.write(half)
        said = await reader.read()  # to the end
        assert said.count(b"whole") == half.count(b"\r\n\r\n")
        slow.set()
        assert (await slow_reader.read()).endswith(b"whole")
        for each in (writer, slow_writer):
            each.close()
        ends_late.cancel()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_request_whose_body_does_not_come_is_ended() -> None:
    """Its headers do not make it a whole one; one with all of its body is left alone, however long its answer takes."""

    async def run() -> None:
        half_requests, slow = HalfRequests(), asyncio.Event()

        async def answer(request: web.Request) -> web.Response:
            await request.read()
            await slow.wait()
            return web.Response(text="whole")

        app = web.Application(middlewares=[half_requests.middleware])
        app.router.add_post("/", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await listen(runner, "127.0.0.1", 0, option="--port", half_requests=half_requests)
        port = runner.addresses[0][1]
        ends_late = asyncio.create_task(half_requests.end_late(runner, within_s=0.2))
        whole_reader, whole_writer = await asyncio.open_connection("127.0.0.1", port)
        whole_writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        assert await reader.read() == b""
        slow.set()
        assert (await whole_reader.read()).endswith(b"whole")
        for each in (writer, whole_writer):
            each.close()
        ends_late.cancel()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_more_connections_than_there_is_room_for_take_the_place_of_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those on which nobody is answered: a whole request gets its answer, an answer under way is not cut off."""
    monkeypatch.setattr("surescale.runtime.listen.resource.getrlimit", lambda _: (40, 40))

    async def run() -> None:
        half_requests, asked, slow = HalfRequests(), asyncio.Event(), asyncio.Event()

        async def answer(request: web.Request) -> web.Response:
            if request.path == "/slow":
                asked.set()
                await slow.wait()
            return web.Response(text="whole")

        app = web.Application(middlewares=[half_requests.middleware])
        app.router.add_get("/{any:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await listen(runner, "127.0.0.1", 0, option="--port", half_requests=half_requests)
        port = runner.addresses[0][1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        await asked.wait()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
        other_writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await other_reader.read()).endswith(b"whole")
        for oldest, _ in idle[:40]:
            assert await oldest.read() == b""
        slow.set()
        assert (await reader.read()).endswith(b"whole")
        for each in (writer, other_writer, *(one for _, one in idle)):
            each.close()
        await runner.cleanup()

    asyncio.run(asyncio.wait_for(run(), 30))


@contextlib.asynccontextmanager
async def served_large_answers(half_requests: HalfRequests, **limits: float) -> AsyncIterator[int]:
    """Serve answers that no socket buffer holds, and short ones under ``/short``; yield the port."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"short" if request.path == "/short" else bytes(2**24))

    async with served(web.get("/{any:.*}", answer), half_requests, **limits) as port:
        yield port


@contextlib.asynccontextmanager
async def served(route: web.RouteDef, half_requests: HalfRequests, **limits: float) -> AsyncIterator[int]:
    """Serve one route; yield the port."""
    app = web.Application(middlewares=[half_requests.middleware])
    app.add_routes([route])
    runner = runner_of(app)
    await runner.setup()
    await listen(runner, "127.0.0.1", 0, option="--port", half_requests=half_requests)
    ends_late = asyncio.create_task(half_requests.end_late(runner, **limits))
    try:
        yield runner.addresses[0][1]
    finally:
        ends_late.cancel()
        await runner.cleanup()


async def who_reads_nothing(port: int) -> socket.socket | None:
    """A client that asks for a large answer, and takes no more of it than its own buffer holds; None if there is no room."""
    loop, client = asyncio.get_running_loop(), socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", port))
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        if await loop.sock_recv(client, 1):
            return client
    client.close()
    return None


async def asked_shortly(port: int) -> bytes:
    """The answer to a short request; empty if the connection was not taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /short HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_an_answer_that_its_reader_does_not_take_is_ended() -> None:
    """Whoever takes it gets the whole of it, though a little at a time."""

    async def run() -> None:
        async with served_large_answers(HalfRequests(), within_s=20.0, taken_within_s=1.0) as port:
            client = await who_reads_nothing(port)
            assert client is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert len(await reader.read()) > 2**24
            writer.close()
            # The system still passes on what it had taken, then there is no more.
            with contextlib.closing(client), contextlib.suppress(ConnectionResetError):
                await asyncio.sleep(1.5)
                taken = 0
                while piece := await asyncio.get_running_loop().sock_recv(client, 2**16):
                    taken += len(piece)
                assert taken < 2**24

    asyncio.run(asyncio.wait_for(run(), 30))


def test_readers_that_take_no_answer_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and though they have not been ended yet."""
    monkeypatch.setattr("surescale.runtime.listen.resource.getrlimit", lambda _: (40, 40))
    monkeypatch.setattr("surescale.runtime.listen.SLOW_AFTER_S", math.inf)

    async def run() -> None:
        async with served_large_answers(HalfRequests(), within_s=4.0) as port:
            slow = list[socket.socket]()
            while (client := await who_reads_nothing(port)) is not None:
                slow.append(client)
            assert await asked_shortly(port) == b""
            monkeypatch.setattr("surescale.runtime.listen.SLOW_AFTER_S", 0.1)
            while b"short" not in await asked_shortly(port):
                await asyncio.sleep(0.1)
            for each in slow:
                each.close()

    asyncio.run(asyncio.wait_for(run(), 15))


MALFORMED = [
    b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: \x1b[2J\x00\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


def test_malformed_requests_cost_a_line_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a traceback: anybody may send any number of them."""
    log = logging.getLogger("aiohttp.server")
    monkeypatch.setattr(log, "filters", [])

    async def run() -> None:
        async with served_large_answers(HalfRequests()) as port:
            for sent in MALFORMED:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                await reader.read()
                writer.close()

    asyncio.run(asyncio.wait_for(run(), 30))
    (line,) = [record for record in caplog.records if record.name == log.name]
    assert line.getMessage().startswith("1 malformed request so far, the last one: ")
    assert (line.levelname, line.exc_info, "\n" in line.getMessage()) == ("WARNING", None, False)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_body_is_never_unpacked(encoding: str) -> None:
    """Nobody of ours sends one, and of a few bytes it makes as many as its sender likes."""
    packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    packed = packer.compress(bytes(2**20)) + packer.flush()
    head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    seen = list[bytes]()

    async def answer(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response(text="read")

    async def run() -> None:
        async with served(web.post("/", answer), HalfRequests()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + packed)
            await reader.readuntil(b"read")
            writer.close()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert seen == [packed]


TOKEN = b"Bearer a-token-of-sixteen-or-more"
LEAKS = [
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: " + TOKEN + b"\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n Authorization: " + TOKEN + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization " + TOKEN + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: " + TOKEN * 1_000 + b"\r\n\r\n",
    b"GET /" + TOKEN.replace(b" ", b"") * 1_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    TOKEN + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + TOKEN + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: " + TOKEN + b"\r\n\r\n",
]


@pytest.mark.parametrize("sent", [*(each for each in MALFORMED if b"gzip" not in each), *LEAKS])
def test_what_aiohttp_answers_itself_looks_like_all_else(caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    """In JSON and with the headers of every answer; neither it nor the log repeats what may be a token."""

    async def run() -> None:
        async with served_large_answers(HalfRequests()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
            assert json.loads(body)["error"].startswith("malformed request: ")
            lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            assert {name: lines[name] for name in HEADERS} == HEADERS
            assert lines["Content-Type"] == "application/json"
            assert b"sixteen" not in body

    asyncio.run(asyncio.wait_for(run(), 30))
    assert "sixteen" not in caplog.text


@pytest.mark.parametrize(("headers", "status"), [(b"Expect: cookies\r\n", 417), (b"", 500)])
def test_what_never_reaches_the_application_or_breaks_it_looks_like_all_else(headers: bytes, status: int) -> None:
    """An expectation is refused before any middleware; a mistake of ours comes after all of them."""

    async def run() -> None:
        async def breaks(_: web.Request) -> web.Response:
            raise ValueError("a mistake")

        async with served(web.get("/", breaks), HalfRequests()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + headers + b"\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert int(head.split()[1]) == status
            assert set(json.loads(body)) == {"error"}
            assert all(f"{name}: {value}".encode() in head for name, value in HEADERS.items())

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_mistake_of_ours_still_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Each: a person must find it."""

    async def run() -> None:
        async def breaks(_: web.Request) -> web.Response:
            raise ValueError("a mistake")

        async with served(web.get("/", breaks), HalfRequests()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert b" 500 " in await reader.readline()
            writer.close()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert [record.exc_info is not None for record in caplog.records if record.name == "aiohttp.server"] == [True]
