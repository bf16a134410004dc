"""Opens ONNX graphs on one thread, with the same bits every time, and words what goes wrong with them. Knows no policy."""

from collections.abc import Sequence
from typing import Any

from policies.package import PackageRejected

NO_NUMBER = "the model answered a value that is not a number"
SAID_MAX = 160  # characters of a runtime's error that a reason keeps

Errors = tuple[type[Exception], ...]


def open_graphs(name: str, graphs: Sequence[bytes]) -> tuple[list[Any], Errors]:
    """Return an ``onnxruntime.InferenceSession`` per graph of the package ``name``, and the errors that running them may raise.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        raise PackageRejected("onnxruntime is not installed: pip install 'surescale[onnx]'") from None
    kinds = (kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))
    # Beside the runtime's own: what numpy raises where a graph answers in another shape or kind than it should.
    errors: Errors = (*kinds, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # its errors are raised as well, and the reason keeps them
    try:
        sessions = [onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]) for graph in graphs]
    except errors as error:
        raise PackageRejected(f"{name}: {cannot_be_run(error)}") from None
    return sessions, errors


def cannot_be_run(error: Exception) -> str:
    """Return the reason that an error of the runtime is: its first line, shortened."""
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return f"the model cannot be run: {first[:SAID_MAX]}"
