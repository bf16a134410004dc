"""Free loopback ports, below the range that the kernel uses for outgoing connections.

A killed server must be able to come back on its port. In the kernel's range, a client that keeps trying to connect may get that
port as its own source port, connect to itself, and keep the server out.

Between the choice of a port and the server that listens on it lie seconds. So that two pipelines that start at once do not
choose the same one, a process keeps what it chose by locking one byte a port of a file that all processes of a user share.
"""

import fcntl
import os
import random
import socket
import tempfile
from functools import cache

LOOPBACK = "127.0.0.1"
PORT_FIRST, PORT_LAST = 20_000, 29_999
_TRIES = 200


def free_ports(count: int) -> tuple[int, ...]:
    """Return this many different ports on which nothing listens now, and that no other call of this user's processes returned.

    Raises:
        OSError: there are no such ports.
    """
    held: list[socket.socket] = []
    generator = random.SystemRandom()
    try:
        for _ in range(_TRIES):
            if len(held) == count:
                break
            try:
                held.append(_bind(_reserved(generator.randint(PORT_FIRST, PORT_LAST))))
            except OSError:
                continue
        if len(held) < count:
            raise OSError(f"no {count} free loopback ports between {PORT_FIRST} and {PORT_LAST}")
        return tuple(int(each.getsockname()[1]) for each in held)
    finally:
        for each in held:
            each.close()


def free_port() -> int:
    """Return one port on which nothing listens now."""
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    """Return whether a server could bind this loopback port now."""
    try:
        _bind(port).close()
    except OSError:
        return False
    return True


def accepts_connections(port: int) -> bool:
    """Return whether somebody listens on this loopback port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _reserved(port: int) -> int:
    """Return a port that is this process's from now on until it ends.

    Raises:
        OSError: it was chosen before, here or by another process.
    """
    if port in _chosen:
        raise OSError(f"port {port} was chosen before")
    shared = _shared_file(os.getpid())
    if shared is not None:
        fcntl.lockf(shared, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    _chosen.add(port)
    return port


_chosen: set[int] = set()


@cache
def _shared_file(process: int) -> int | None:
    """Open the file for a process; such locks end when a process closes it anywhere, so it stays open.

    None where there can be no such file; chance has to do then.
    """
    try:
        path = os.path.join(tempfile.gettempdir(), f"surescale-ports-{os.getuid()}")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _bind(port: int) -> socket.socket:
    candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # As servers do: lingering connections of the previous owner do not make a port taken.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        candidate.bind((LOOPBACK, port))
        # Two sockets may share a bound port while neither listens; listening is what makes it ours.
        candidate.listen(1)
    except OSError:
        candidate.close()
        raise
    return candidate
