"""Runs the graphs of a package in a process of their own, with limits of memory and time: a huge graph ends that process alone.

The runtime's own means are not enough: it looks at `RunOptions.terminate` between operators only, and limits no memory that an
operator takes. The child gets its graphs and inputs through a pipe, as msgpack; nothing is unpickled.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.errors import UNREADABLE
from surescale.policies.onnx_sessions import GraphStopped, Opener, cannot_be_run, open_sessions, runtime_errors
from surescale.runtime.beats import allowed
from surescale.runtime.graph_limits import MEMORY_MB, SECONDS
from surescale.runtime.pipes import Child, limit_memory, limit_time, read_message, write_message

Array = npt.NDArray[np.float32]

STARTS_MAX = 3
"""After so many ends a package stays unusable: each may have cost the time of `Limits.seconds`."""
START_SECONDS = 60.0
"""For importing the runtime and opening the graphs, besides `Limits.seconds`."""
_KINDS = frozenset({"float32", "float64", "int64", "int32", "bool"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a graph may take."""

    seconds: float = SECONDS
    memory_mb: int = MEMORY_MB

    def open(self, graphs: Sequence[bytes]) -> list[LimitedSession]:
        """Return a session per graph in a process of their own (a ``policies.onnx_sessions.Opener``).

        Raises:
            GraphStopped: see `LimitedGraphs`.
        """
        opened = LimitedGraphs(graphs, self)
        return [LimitedSession(opened, number) for number in range(len(graphs))]


def opener_for(folder: str) -> Opener | None:
    """Return what opens the packages of a policy folder for a tool: within the usual limits, unless they ship with surescale."""
    return Limits().open if folder else None


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
        self._child: Child | None = None
        with self._lock:
            self._open()

    def run(self, graph: int, inputs: Mapping[str, Array]) -> list[Array]:
        """Return all outputs of a graph.

        Raises:
            GraphStopped: it took too long or too much memory, or the runtime refused.
        """
        with self._lock:
            child = self._open()
            tensors = {name: _packed(value) for name, value in inputs.items()}
            done = self._ask(child, _Run(graph, tensors), self._limits.seconds)
        if done.error:
            raise GraphStopped(done.error)
        return [_unpacked(tensor) for tensor in done.outputs]

    def _open(self) -> Child:
        if self._child is not None:
            return self._child
        if self._starts >= STARTS_MAX:
            raise GraphStopped(f"its process was stopped {STARTS_MAX} times, and is not started again")
        self._starts += 1
        self._child = child = Child("surescale.runtime.limited_graphs")
        weakref.finalize(self, child.end)
        done = self._ask(child, self._start, self._limits.seconds + START_SECONDS)
        if done.error:
            self._end()
            raise GraphStopped(done.error)
        return child

    def _ask(self, child: Child, question: msgspec.Struct, seconds: float) -> _Done:
        try:
            with allowed(seconds):
                return msgspec.msgpack.decode(child.ask(msgspec.msgpack.encode(question), seconds), type=_Done)
        except TimeoutError:
            self._end()
            raise GraphStopped(f"it took more than {seconds:g} s and was stopped") from None
        except (EOFError, OSError, *UNREADABLE):
            self._end()
            raise GraphStopped(f"its process ended: it takes more than {self._limits.memory_mb} MB, or crashed") from None

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
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


def _packed(value: npt.NDArray[np.generic]) -> _Tensor:
    array = np.ascontiguousarray(value)
    return _Tensor(array.dtype.name, tuple(array.shape), array.tobytes())


def _unpacked(tensor: _Tensor) -> Array:
    if tensor.kind not in _KINDS:
        raise ValueError(f"a graph answered values of type {tensor.kind}")
    values: Array = np.frombuffer(tensor.data, dtype=tensor.kind).reshape(tensor.shape)
    return values


# The child


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the other end closes the pipe."""
    errors = runtime_errors()
    start = msgspec.msgpack.decode(read_message(questions), type=_Start)
    limit_memory(start.memory_mb)
    try:
        sessions = open_sessions(start.graphs)
    except errors as error:
        _answer(answers, _Done(error=cannot_be_run(error)))
        return
    _answer(answers, _Done())
    while True:
        asked = msgspec.msgpack.decode(read_message(questions), type=_Run)
        limit_time(start.seconds)
        try:
            found = sessions[asked.graph].run(None, {name: _unpacked(value) for name, value in asked.inputs.items()})
            _answer(answers, _Done(outputs=tuple(_packed(np.asarray(value)) for value in found)))
        except errors as error:
            _answer(answers, _Done(error=cannot_be_run(error)))


def _answer(pipe: BinaryIO, done: _Done) -> None:
    write_message(pipe, msgspec.msgpack.encode(done))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
