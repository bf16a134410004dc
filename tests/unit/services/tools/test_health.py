"""``surescale run health``: one line says what answers on a port, no matter what it is."""

import socket
import threading
from collections.abc import Iterator

import pytest

from surescale.runtime.http import is_ok
from surescale.services.tools.health import Unhealthy, ask


@pytest.fixture
def stranger() -> Iterator[int]:
    """The port of a server that answers whatever comes with words of its own, as Redis does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"-ERR unknown command 'GET'\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def test_a_port_that_speaks_no_http_is_said_so(stranger: int) -> None:
    """One readable error with the address, no trace of the HTTP client's."""
    with pytest.raises(Unhealthy, match=rf"no health document at http://127.0.0.1:{stranger}/health: .*ERR unknown command"):
        ask(stranger)


def test_a_role_behind_a_strangers_port_is_not_ready(stranger: int) -> None:
    """A supervisor that waits for a role goes on waiting."""
    assert not is_ok(f"http://127.0.0.1:{stranger}/health")
