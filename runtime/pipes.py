"""A child process that answers messages through its pipes, and the limit of time that its parent gives each answer.

A message is its length (8 bytes, little-endian) and that many bytes.
"""

import os
import resource
import select
import struct
import subprocess
import sys
import time
from typing import BinaryIO

_LENGTH = struct.Struct("<Q")


class Child:
    """A process that runs one of our modules. It gets no settings, since passwords are among them."""

    def __init__(self, module: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],  # -P: a folder of that name beside us is none of ours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def ask(self, question: bytes, seconds: float) -> bytes:
        """Return the answer to a message.

        Raises:
            TimeoutError: it took longer than ``seconds``; the process is of no use any more.
            EOFError, OSError: the process has ended.
        """
        until_s = time.monotonic() + seconds
        _write_within(self._process.stdin, question, until_s)
        return _read_within(self._process.stdout, until_s)

    def kill(self) -> None:
        """Kill the process from another thread: whoever waits for its answer learns that it has ended."""
        self._process.kill()

    def end(self) -> None:
        """End the process and close its pipes."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


def _write_within(pipe: object, message: bytes, until_s: float) -> None:
    descriptor = pipe.fileno()  # type: ignore[attr-defined]
    os.set_blocking(descriptor, False)
    left = memoryview(_LENGTH.pack(len(message)) + message)
    while left:
        _await(descriptor, select.POLLOUT, until_s)
        left = left[os.write(descriptor, left) :]


def _read_within(pipe: object, until_s: float) -> bytes:
    descriptor = pipe.fileno()  # type: ignore[attr-defined]
    got, length = bytearray(), _LENGTH.size
    has_length = False
    while len(got) < length:
        _await(descriptor, select.POLLIN, until_s)
        part = os.read(descriptor, min(length - len(got), 1 << 20))
        if not part:
            raise EOFError
        got += part
        if not has_length and len(got) == _LENGTH.size:
            (length,) = _LENGTH.unpack(got)
            got, has_length = bytearray(), True
    return bytes(got)


def _await(descriptor: int, event: int, until_s: float) -> None:
    """Wait until a pipe is ready, or its other end closed. ``select.select`` would refuse a descriptor above 1023."""
    waiting = select.poll()
    waiting.register(descriptor, event)
    wait_s = until_s - time.monotonic()
    if wait_s <= 0 or not waiting.poll(1_000.0 * wait_s):
        raise TimeoutError


# In the child


def read_message(pipe: BinaryIO) -> bytes:
    """Return the parent's next message; the process ends when the parent has closed the pipe."""
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def write_message(pipe: BinaryIO, message: bytes) -> None:
    """Answer the parent."""
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def limit_memory(megabytes: int) -> None:
    """Limit the address space of this process to what it takes now and so much more."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + megabytes * 2**20,) * 2)


def limit_time(seconds: float) -> None:
    """Limit the processor time from now on: if the parent has died, nobody else would stop an endless answer."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed_s = int(used.ru_utime + used.ru_stime + 2 * seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (allowed_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    got = pipe.read(count)
    if len(got) < count:
        sys.exit(0)
    return got
