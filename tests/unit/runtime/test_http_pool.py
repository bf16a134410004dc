"""Kept connections, against a small real server."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from surescale.runtime.http import NoAnswer, ask
from surescale.runtime.http_pool import Answer, ConnectionPool
from tests.support.stub_server import StubRequest, StubResponse, answering


def ok(_: StubRequest) -> StubResponse:
    """Answer an empty document."""
    return StubResponse()


def get(connections: ConnectionPool, path: str = "/", **more: float) -> Answer:
    """Ask for a path."""
    return connections.ask("GET", path, timeout_s=5, **more)  # type: ignore[arg-type]  # bytes_max only


def test_requests_share_a_connection() -> None:
    """Three requests, one after the other, come from one port."""
    with answering(ok) as server:
        connections = ConnectionPool(server.url)
        for _ in range(3):
            assert get(connections).status == 200
        connections.close()
    assert len({asked.client for asked in server.asked}) == 1


def test_a_socket_of_this_machine_is_asked_in_the_same_way(tmp_path: Path) -> None:
    """Over a kept connection, too; a socket that nobody listens on gives no answer."""
    path, said = tmp_path / "engine.sock", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
    heard: list[bytes] = []

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for _ in range(2):
                heard.append(connection.recv(4_096).partition(b"\r\n")[0])
                connection.sendall(said)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        connections = ConnectionPool(f"unix://{path}")
        assert [get(connections, f"/{number}").body for number in range(2)] == [b"{}", b"{}"]
        thread.join()
        connections.close()
    assert heard == [b"GET /0 HTTP/1.1", b"GET /1 HTTP/1.1"]
    with pytest.raises(NoAnswer, match="Connection refused"):
        get(connections)


def test_a_connection_that_was_closed_in_between_is_replaced() -> None:
    """The server closes after each answer without saying so; no request fails, none is sent twice."""
    with answering(lambda asked: StubResponse(closes=True)) as server:
        connections = ConnectionPool(server.url)
        for number in range(3):
            assert connections.ask("POST", f"/{number}", b"{}", timeout_s=5).status == 200
            wait_for_close(connections)
        connections.close()
    assert [asked.path for asked in server.asked] == ["/0", "/1", "/2"]


def wait_for_close(connections: ConnectionPool) -> None:
    """Wait until the other end has closed the kept connection: it is readable then."""
    (kept,) = connections._idle
    kept.sock.settimeout(5)
    assert kept.sock.recv(1, socket.MSG_PEEK) == b""


@pytest.mark.parametrize(("method", "tries"), [("GET", 2), ("PUT", 2), ("POST", 1)])
def test_what_a_kept_connection_loses_is_repeated_but_no_post(method: str, tries: int) -> None:
    """The server hangs up on the second request of a connection, after it has read it."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_hang_up_on_the_second, args=(listener, seen), daemon=True).start()
        connections = ConnectionPool(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert get(connections).status == 200
        if tries == 2:
            assert connections.ask(method, "/again", timeout_s=5).status == 200
        else:
            with pytest.raises(NoAnswer):
                connections.ask(method, "/again", timeout_s=5)
        connections.close()
    assert len(seen) == 1 + tries


def _hang_up_on_the_second(listener: socket.socket, seen: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            seen.append(connection.recv(4_096))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            if len(seen) == 1:
                seen.append(connection.recv(4_096))


def test_a_status_that_is_no_success_is_an_answer() -> None:
    """Status, reason, type, redirect and body are there."""
    headers = {"Content-Type": "text/html; charset=utf-8", "Location": "/login"}
    with answering(lambda asked: StubResponse(302, b"<html>", headers)) as server:
        answer = get(ConnectionPool(server.url))
    assert answer == Answer(302, "Found", "text/html", "/login", b"<html>")


def test_a_path_of_the_address_comes_first() -> None:
    """As it is behind a proxy."""
    with answering(ok) as server:
        get(ConnectionPool(server.url + "/flink/"), "/overview")
    assert server.asked[0].path == "/flink/overview"


def test_an_answer_has_a_limit_of_bytes() -> None:
    """One more byte than allowed is no answer, and the connection is not used again."""
    with answering(lambda asked: StubResponse(body=b"x" * 11)) as server:
        connections = ConnectionPool(server.url)
        with pytest.raises(NoAnswer, match="longer than 10 bytes"):
            get(connections, bytes_max=10)
        assert get(connections, bytes_max=11).body == b"x" * 11
        connections.close()
    assert len({asked.client for asked in server.asked}) == 2


def test_the_whole_answer_has_a_deadline() -> None:
    """Bytes that trickle in do not put it off."""
    release = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4_096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                while not release.wait(0.05):
                    connection.sendall(b"x")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="timed out"):
            ConnectionPool(f"http://127.0.0.1:{listener.getsockname()[1]}").ask("GET", "/", timeout_s=0.4)
        took_s = time.monotonic() - began
        release.set()
        thread.join(5)
    assert 0.3 < took_s < 3


def test_a_closed_port_is_no_answer() -> None:
    """The reason is the system's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NoAnswer, match="Connection refused"):
        get(ConnectionPool(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    "ask_for",
    [
        lambda: ConnectionPool("http://engine").ask("GET", "/", timeout_s=60.0),
        lambda: ask("http://engine/", timeout_s=60.0),
    ],
)
def test_the_addresses_of_a_host_share_the_time(monkeypatch: pytest.MonkeyPatch, ask_for: Callable[[], object]) -> None:
    """Whoever answers for its name chooses how many there are; none of them keeps the last one from being asked."""
    waited: list[float] = []

    def resolve(_host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{number}", port)) for number in range(10)]

    def say_nothing(_address: tuple[str, int], timeout_s: float, *_: object) -> socket.socket:
        waited.append(timeout_s)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", say_nothing)
    with pytest.raises(NoAnswer, match="timed out"):
        ask_for()
    assert len(waited) == 10
    assert all(0 < share_s <= 60.0 / (10 - number) for number, share_s in enumerate(waited))
