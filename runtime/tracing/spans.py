"""What a role needs to trace its work, and the tracer of a role that traces nothing."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol, Self

from surescale.runtime.tracing.context import Headers, TraceContext

Value = str | bool | int | float
Attributes = Mapping[str, Value]
Kind = Literal["internal", "consumer", "producer", "client"]


class Span(Protocol):
    """One piece of work. As a context manager it ends with its block, and an exception makes it fail."""

    @property
    def context(self) -> TraceContext | None:
        """Its place in the trace; None if nothing is traced."""
        ...

    def headers(self) -> Headers:
        """Return the headers of a record that follows from this work; none if nothing is traced."""
        ...

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def event(self, name: str, attributes: Attributes) -> None:
        """Add something that happened at this moment."""
        ...

    def fail(self, why: str) -> None:
        """Say that the work failed."""
        ...

    def end(self, at_ns: int | None = None) -> None:
        """End it, now or at this wall time; a span that never ends is not exported."""
        ...

    def request(self, name: str, attributes: Attributes) -> "Span":
        """Begin the span of a request that this work makes; one that traces nothing, unless this is a call of a client."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class Tracer(Protocol):
    """Begins the spans of one role. Thread-safe."""

    @property
    def is_on(self) -> bool:
        """Something is traced."""
        ...

    def begin(
        self,
        name: str,
        parent: TraceContext | None = None,
        *,
        kind: Kind = "internal",
        attributes: Attributes | None = None,
        began_ns: int | None = None,
    ) -> Span:
        """Begin a span: below ``parent``, or as the first of a new trace.

        ``began_ns``: wall time at which it began, if not now.
        """
        ...

    def close(self) -> None:
        """Export what has ended, as far as the receiver takes it within a moment."""
        ...


class _NoSpan:
    """A piece of work that nobody traces."""

    context: TraceContext | None = None

    def headers(self) -> Headers:
        """Return none."""
        return []

    def note(self, attributes: Attributes) -> None:
        """Do nothing."""

    def event(self, name: str, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, why: str) -> None:
        """Do nothing."""

    def end(self, at_ns: int | None = None) -> None:
        """Do nothing."""

    def request(self, name: str, attributes: Attributes) -> Span:
        """Return the span of work that nobody traces."""
        return NO_SPAN

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Let the exception pass."""


class _NoTracer:
    """Traces nothing."""

    is_on = False

    def begin(
        self,
        name: str,
        parent: TraceContext | None = None,
        *,
        kind: Kind = "internal",
        attributes: Attributes | None = None,
        began_ns: int | None = None,
    ) -> Span:
        """Return the span of work that nobody traces."""
        return NO_SPAN

    def close(self) -> None:
        """Do nothing."""


NO_SPAN: Span = _NoSpan()
NO_TRACER: Tracer = _NoTracer()


_AT_WORK: ContextVar[Span] = ContextVar("at_work", default=NO_SPAN)


def span_at_work() -> Span:
    """Return the span of the work that this thread or coroutine is at: log lines name it, and requests are below it."""
    return _AT_WORK.get()


@contextmanager
def at_work(span: Span) -> Iterator[None]:
    """Be at the work of a span, which does not end here."""
    token = _AT_WORK.set(span)
    try:
        yield
    finally:
        _AT_WORK.reset(token)
