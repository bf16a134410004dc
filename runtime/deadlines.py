"""Reads a socket until a point in time, however slowly the other side sends. Imports next to nothing: commands start fast."""

import io
import math
import socket
import time
from typing import Any


class DeadlineReader(io.RawIOBase):
    """Reads a socket until a point in time of ``time.monotonic``; a timeout of the socket alone starts again with every byte."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline_s: float, silent_s: float = math.inf) -> None:
        """Read ``raw``, which reads ``sock``; closed together with it. ``silent_s``: most seconds without a byte."""
        super().__init__()
        self.deadline_s = deadline_s
        self._socket, self._raw, self._silent_s = sock, raw, silent_s

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Wait for bytes, no longer than until the deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(min(left_s, self._silent_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close what is read."""
        self._raw.close()
        super().close()
