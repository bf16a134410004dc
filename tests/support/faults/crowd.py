"""Connections that ask nothing, or half: ``python -m tests.support.faults.crowd PORT ADDRESS IDLE HALF SECONDS``.

A process of its own, since neither a process nor an address has room for all. It ends with 0 once the server has ended every one
of them, and with 1 if it has not within these seconds.
"""

import contextlib
import resource
import selectors
import socket
import sys
import time

from surescale.runtime.ports import LOOPBACK

CONNECT_WITHIN_S = 20.0
HALF_A_REQUEST = b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n"


def main(port: int, address: str, idle: int, half: int, seconds: float) -> int:
    """Open them from an address, and wait for their end."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(idle + half):
            client = stack.enter_context(socket.create_connection((LOOPBACK, port), CONNECT_WITHIN_S, (address, 0)))
            with contextlib.suppress(ConnectionError):  # others have taken its place
                if number >= idle:
                    client.sendall(HALF_A_REQUEST)
            selector.register(client, selectors.EVENT_READ)
        until_s, left = time.monotonic() + seconds, idle + half
        while left and time.monotonic() < until_s:
            for key, _ in selector.select(0.5):
                selector.unregister(key.fileobj)
                left -= 1
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
