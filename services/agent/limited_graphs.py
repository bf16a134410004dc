"""Runs the graphs of a package in a process of their own, with limits of memory and time: a huge graph ends that process alone.

The runtime's own means are not enough: it looks at `RunOptions.terminate` between operators only, and limits no memory that an
operator takes. The child gets its graphs and inputs through a pipe, as msgpack; nothing is unpickled.
"""

from __future__ import annotations

import os
import resource
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from policies.onnx_sessions import GraphStopped, cannot_be_run, open_sessions, runtime_errors

Array = npt.NDArray[np.float32]

STARTS_MAX = 3
"""After so many ends a package stays unusable: each may have cost the time of `Limits.seconds`."""
START_SECONDS = 60.0
"""For importing the runtime and opening the graphs, besides `Limits.seconds`."""
_LENGTH = struct.Struct("<Q")
_KINDS = frozenset({"float32", "float64", "int64", "int32", "bool"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a graph may take."""

    seconds: float
    memory_mb: int
    """Of address space, beyond what the runtime takes before it opens a graph."""

    def open(self, graphs: Sequence[bytes]) -> list[LimitedSession]:
        """Return a session per graph in a process of their own (a ``policies.onnx_sessions.Opener``).

        Raises:
            GraphStopped: see `LimitedGraphs`.
        """
        opened = LimitedGraphs(graphs, self)
        return [LimitedSession(opened, number) for number in range(len(graphs))]


class _Tensor(msgspec.Struct, array_like=True):
    kind: str
    shape: tuple[int, ...]
    data: bytes


class _Start(msgspec.Struct):
    graphs: tuple[bytes, ...]
    seconds: float
    memory_mb: int


class _Run(msgspec.Struct):
    graph: int
    inputs: dict[str, _Tensor]


class _Done(msgspec.Struct):
    outputs: tuple[_Tensor, ...] = ()
    error: str = ""


class LimitedGraphs:
    """The process of one package. It is started again after an end, `STARTS_MAX` times in all."""

    def __init__(self, graphs: Sequence[bytes], limits: Limits) -> None:
        """Open the graphs.

        Raises:
            GraphStopped: they cannot be opened, or not within the limits.
        """
        self._start, self._limits = _Start(tuple(graphs), limits.seconds, limits.memory_mb), limits
        self._lock, self._starts = threading.Lock(), 0
        self._child: subprocess.Popen[bytes] | None = None
        with self._lock:
            self._opened()

    def run(self, graph: int, inputs: Mapping[str, Array]) -> list[Array]:
        """Return all outputs of a graph.

        Raises:
            GraphStopped: it took too long or too much memory, or the runtime refused.
        """
        with self._lock:
            child = self._opened()
            tensors = {name: _packed(value) for name, value in inputs.items()}
            done = self._asked(child, _Run(graph, tensors), self._limits.seconds)
        if done.error:
            raise GraphStopped(done.error)
        return [_unpacked(tensor) for tensor in done.outputs]

    def _opened(self) -> subprocess.Popen[bytes]:
        if self._child is not None:
            return self._child
        if self._starts >= STARTS_MAX:
            raise GraphStopped(f"its process was stopped {STARTS_MAX} times, and is not started again")
        self._starts += 1
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")}  # no secrets
        self._child = child = subprocess.Popen(
            [sys.executable, "-m", "services.agent.limited_graphs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        weakref.finalize(self, _ended, child)
        done = self._asked(child, self._start, self._limits.seconds + START_SECONDS)
        if done.error:
            self._end()
            raise GraphStopped(done.error)
        return child

    def _asked(self, child: subprocess.Popen[bytes], question: msgspec.Struct, seconds: float) -> _Done:
        until_s = time.monotonic() + seconds
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            _write_within(child.stdin, msgspec.msgpack.encode(question), until_s)
            return msgspec.msgpack.decode(_read_within(child.stdout, until_s), type=_Done)
        except TimeoutError:
            self._end()
            raise GraphStopped(f"it took more than {seconds:g} s and was stopped") from None
        except (EOFError, OSError, msgspec.MsgspecError):
            self._end()
            raise GraphStopped(f"its process ended: it takes more than {self._limits.memory_mb} MB, or crashed") from None

    def _end(self) -> None:
        if self._child is not None:
            _ended(self._child)
        self._child = None


@dataclass(frozen=True, slots=True)
class LimitedSession:
    """One graph of a `LimitedGraphs`, used like an ``onnxruntime.InferenceSession``."""

    graphs: LimitedGraphs
    number: int

    def run(self, output_names: None, inputs: Mapping[str, Array], /) -> Sequence[Array]:
        """Return all outputs of the graph.

        Raises:
            GraphStopped: see `LimitedGraphs.run`.
        """
        return self.graphs.run(self.number, inputs)


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()


def _packed(value: npt.NDArray[np.generic]) -> _Tensor:
    array = np.ascontiguousarray(value)
    return _Tensor(array.dtype.name, tuple(array.shape), array.tobytes())


def _unpacked(tensor: _Tensor) -> Array:
    if tensor.kind not in _KINDS:
        raise ValueError(f"a graph answered values of type {tensor.kind}")
    values: Array = np.frombuffer(tensor.data, dtype=tensor.kind).reshape(tensor.shape)
    return values


def _write_within(pipe: object, message: bytes, until_s: float) -> None:
    descriptor = pipe.fileno()  # type: ignore[attr-defined]
    os.set_blocking(descriptor, False)
    left = memoryview(_LENGTH.pack(len(message)) + message)
    while left:
        wait_s = until_s - time.monotonic()
        if wait_s <= 0 or not select.select([], [descriptor], [], wait_s)[1]:
            raise TimeoutError
        left = left[os.write(descriptor, left) :]


def _read_within(pipe: object, until_s: float) -> bytes:
    descriptor = pipe.fileno()  # type: ignore[attr-defined]
    got, length = bytearray(), _LENGTH.size
    has_length = False
    while len(got) < length:
        wait_s = until_s - time.monotonic()
        if wait_s <= 0 or not select.select([descriptor], [], [], wait_s)[0]:
            raise TimeoutError
        part = os.read(descriptor, min(length - len(got), 1 << 20))
        if not part:
            raise EOFError
        got += part
        if not has_length and len(got) == _LENGTH.size:
            (length,) = _LENGTH.unpack(got)
            got, has_length = bytearray(), True
    return bytes(got)


# The child


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the other end closes the pipe."""
    errors = runtime_errors()
    start = msgspec.msgpack.decode(_read(questions), type=_Start)
    taken = _address_space()
    resource.setrlimit(resource.RLIMIT_AS, (taken + start.memory_mb * 2**20,) * 2)
    try:
        sessions = open_sessions(start.graphs)
    except errors as error:
        _write(answers, _Done(error=cannot_be_run(error)))
        return
    _write(answers, _Done())
    while True:
        asked = msgspec.msgpack.decode(_read(questions), type=_Run)
        # Whoever asked may have died meanwhile: then nobody would stop an endless run.
        used = resource.getrusage(resource.RUSAGE_SELF)
        allowed_s = int(used.ru_utime + used.ru_stime + 2 * start.seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (allowed_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            found = sessions[asked.graph].run(None, {name: _unpacked(value) for name, value in asked.inputs.items()})
            _write(answers, _Done(outputs=tuple(_packed(np.asarray(value)) for value in found)))
        except errors as error:
            _write(answers, _Done(error=cannot_be_run(error)))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def _read(pipe: BinaryIO) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    got = pipe.read(count)
    if len(got) < count:
        sys.exit(0)
    return got


def _write(pipe: BinaryIO, done: _Done) -> None:
    message = msgspec.msgpack.encode(done)
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
