"""A proxy that passes everything on until it is told to hurt: a fault that does not come about would prove nothing."""

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from surescale.runtime.ports import LOOPBACK, free_port
from tests.support.faults.proxy import Link, Proxies
from tests.support.waiting import wait_until


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets."""

    def handle(self) -> None:
        """Answer until the other side leaves."""
        while received := self.request.recv(1024):
            self.request.sendall(received)


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """Proxies that run."""
    with Proxies() as found:
        yield found


@pytest.fixture
def link(proxies: Proxies) -> Iterator[Link]:
    """A link to a server that sends back what it gets."""
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield proxies.add(Link("to-echo", free_port(), server.server_address[1]))
        server.shutdown()


def connected(link: Link) -> socket.socket:
    """A connection through the link, as soon as it listens."""

    def attempt() -> socket.socket | None:
        try:
            return socket.create_connection((LOOPBACK, link.port), timeout=5)
        except OSError:
            return None

    found = wait_until(attempt, 10, "the proxy")
    assert found is not None
    return found


def answer(client: socket.socket, timeout_s: float = 5.0) -> bytes:
    """What comes back for one word; nothing if the connection is broken."""
    client.settimeout(timeout_s)
    try:
        client.sendall(b"word")
        return client.recv(1024)
    except ConnectionError:
        return b""


def test_a_whole_link_passes_everything_on(link: Link) -> None:
    """What is sent through it comes back."""
    with connected(link) as client:
        assert answer(client) == b"word"


def test_a_cut_link_breaks_connections_and_refuses_new_ones_until_it_is_restored(proxies: Proxies, link: Link) -> None:
    """Both the connection that is there and those that come are closed."""
    with connected(link) as before:
        assert answer(before) == b"word"
        proxies.cut(link)
        assert answer(before) == b""
    with connected(link) as meanwhile:
        assert answer(meanwhile) == b""
    assert link.refused >= 1
    link.restore()
    with connected(link) as after:
        assert answer(after) == b"word"


def test_a_hanging_link_says_nothing_and_closes_nothing(link: Link) -> None:
    """The answer comes when the link is restored, on the same connection."""
    with connected(link) as client:
        link.is_hanging = True
        with pytest.raises(TimeoutError):
            answer(client, 0.3)
        link.restore()
        client.settimeout(5)
        assert client.recv(1024) == b"word"


def test_a_lying_link_answers_in_place_of_the_server(link: Link) -> None:
    """The server never sees what was sent."""
    with connected(link) as first:
        assert answer(first) == b"word"
    link.answer = b"a lie"
    with connected(link) as client:
        assert answer(client) == b"a lie"
