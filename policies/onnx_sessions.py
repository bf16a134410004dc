"""Opens ONNX graphs on one thread, with bit-identical results, and turns their errors into reasons. Knows no policy."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from surescale.policies.onnx_graph import check_graph
from surescale.policies.package import PackageRejected

NO_NUMBER = "the model answered a value that is not a number"
_CANNOT = "the model cannot be run: "
SAID_MAX = 160  # characters of a runtime error kept in a reason

Errors = tuple[type[Exception], ...]


class Session(Protocol):
    """What is used of an ``onnxruntime.InferenceSession``, which is imported only when a package is opened."""

    def run(self, output_names: None, inputs: Mapping[str, npt.NDArray[np.float32]], /) -> Sequence[npt.NDArray[np.float32]]:
        """Return all outputs of the graph."""
        ...


Opener = Callable[[Sequence[bytes]], Sequence[Session]]
"""Returns a session per graph; raises what `runtime_errors` lists."""


class GraphStopped(Exception):
    """An opener with limits has stopped a graph, or what ran it has ended."""


def open_graphs(name: str, graphs: Sequence[bytes], opener: Opener | None = None) -> tuple[Sequence[Session], Errors]:
    """Return a session per graph of the package ``name``, and the errors that running them may raise.

    ``opener``: None runs them in this process, without limits (`open_sessions`).

    Raises:
        PackageRejected: onnxruntime is not installed, a graph has loops or branches, or it does not load.
    """
    try:
        errors = runtime_errors()
    except ImportError:
        raise PackageRejected("onnxruntime is not installed: pip install 'surescale[onnx]'") from None
    for graph in graphs:
        try:
            check_graph(graph)
        except PackageRejected as problem:
            raise PackageRejected(f"{name}: {problem}") from None
    try:
        return (opener or open_sessions)(graphs), errors
    except errors as error:
        raise PackageRejected(f"{name}: {cannot_be_run(error)}") from None


def runtime_errors() -> Errors:
    """Return the errors that opening or running a graph may raise.

    Raises:
        ImportError: onnxruntime is not installed.
    """
    report_to_nobody()
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    # Besides the runtime's own: what numpy raises when a graph answers in the wrong shape or type.
    return (*kinds, GraphStopped, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError)


def open_sessions(graphs: Sequence[bytes]) -> list[Session]:
    """Return a session per graph in this process; raises what `runtime_errors` lists."""
    report_to_nobody()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # do not log errors: they are raised too
    return [onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]) for graph in graphs]


def report_to_nobody() -> None:
    """Keep onnxruntime from reporting to its makers, as it does by itself since 1.29; it looks once, when it is imported."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def cannot_be_run(error: Exception) -> str:
    """Return the reason that stands for a runtime error: its first line, shortened."""
    first, *_ = str(error).splitlines() or [type(error).__name__]
    if first.startswith(_CANNOT):
        first = first[len(_CANNOT) :]  # said by the process that ran it
    return f"{_CANNOT}{first[:SAID_MAX]}"
