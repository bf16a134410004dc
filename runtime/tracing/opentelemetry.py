"""The tracer over OpenTelemetry's SDK. The one module that imports it; `runtime.tracing.setup` does so only when asked."""

import logging
import random
import uuid
from contextlib import ExitStack
from typing import Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_NAMESPACE, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from surescale.runtime.backoff import Throttle
from surescale.runtime.threads import background
from surescale.runtime.tracing.context import Headers, TraceContext
from surescale.runtime.tracing.spans import NO_SPAN, Attributes, Kind, Span, at_work

_log = logging.getLogger("surescale.traces")
CLOSE_WITHIN_S = 3.0
SAY_EVERY_S = 60.0  # between two lines about a receiver that does not take spans
_KINDS = {
    "internal": SpanKind.INTERNAL,
    "consumer": SpanKind.CONSUMER,
    "producer": SpanKind.PRODUCER,
    "client": SpanKind.CLIENT,
}


class OpenTelemetryTracer:
    """Spans of one role, exported in batches by a thread of the SDK. A full queue drops spans; it never makes work wait.

    It has a provider of its own: several roles may share a process.
    """

    is_on = True

    def __init__(self, role: str, exporter: str) -> None:
        """``exporter``: ``otlp`` or ``console``."""
        from importlib.metadata import version
        from os import environ

        told = Resource.create().attributes  # of this process, and of OTEL_RESOURCE_ATTRIBUTES, which wins
        own = {SERVICE_NAMESPACE: "surescale", SERVICE_INSTANCE_ID: str(uuid.uuid4()), SERVICE_VERSION: version("surescale")}
        own = {name: value for name, value in own.items() if name not in told}
        if not environ.get(OTEL_SERVICE_NAME):
            own[SERVICE_NAME] = f"surescale-{role}"
        resource = Resource.create({"surescale.role": role, **own})
        self._provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_exporter(exporter)))
        self._tracer = self._provider.get_tracer("surescale", version("surescale"))
        _throttle_complaints()

    def begin(
        self,
        name: str,
        parent: TraceContext | None = None,
        *,
        kind: Kind = "internal",
        attributes: Attributes | None = None,
        began_ns: int | None = None,
    ) -> Span:
        """Begin a span; see ``runtime.tracing.spans.Tracer``."""
        found = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(NonRecordingSpan(_span_context(parent))) if parent else Context(),
            kind=_KINDS[kind],
            attributes=dict(attributes or {}),
            start_time=began_ns,
        )
        return _OpenTelemetrySpan(found, self if kind == "client" else None)

    def close(self) -> None:
        """Export what has ended, in a thread that is left behind if the receiver hangs."""
        ending = background(self._shut_down, "traces-end")
        ending.start()
        ending.join(CLOSE_WITHIN_S)

    def _shut_down(self) -> None:
        try:
            self._provider.shutdown()
        except Exception as error:  # the role's work is done; traces are no reason to end it as failed
            _log.warning("the last traces may be lost: %s", error)


class _OpenTelemetrySpan:
    """A span of the SDK."""

    def __init__(self, span: trace.Span, tracer: OpenTelemetryTracer | None = None) -> None:
        """``tracer``: begins the spans of its requests; None: they have none."""
        self._span, self._tracer, self._work = span, tracer, ExitStack()
        made = span.get_span_context()
        self._context = TraceContext(made.trace_id, made.span_id, made.trace_flags.sampled)

    @property
    def context(self) -> TraceContext | None:
        """Its place in the trace."""
        return self._context

    def headers(self) -> Headers:
        """Return the headers of a record that follows from this work."""
        return self._context.headers()

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(dict(attributes))

    def event(self, name: str, attributes: Attributes) -> None:
        """Add something that happened at this moment."""
        self._span.add_event(name, dict(attributes))

    def fail(self, why: str) -> None:
        """Say that the work failed."""
        self._span.set_status(Status(StatusCode.ERROR, why))

    def end(self, at_ns: int | None = None) -> None:
        """End it, now or at this wall time."""
        self._span.end(at_ns)

    def request(self, name: str, attributes: Attributes) -> Span:
        """Begin the span of a request; see ``runtime.tracing.spans.Span``."""
        return NO_SPAN if self._tracer is None else self._tracer.begin(name, self._context, kind="client", attributes=attributes)

    def __enter__(self) -> Self:
        self._work.enter_context(at_work(self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End it; an exception is named and passes."""
        self._work.close()
        if error is not None:
            self.fail(f"{type(error).__name__}: {error}")
        self.end()


class _Ids(IdGenerator):
    """Ids from the operating system: the SDK's own take from the generator that a program may have seeded."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def generate_span_id(self) -> int:
        """Return an id that is not 0."""
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        """Return an id that is not 0."""
        return self._random.getrandbits(128) or 1


def _span_context(at: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if at.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(at.trace_id, at.span_id, is_remote=True, trace_flags=flags)


def _exporter(name: str) -> SpanExporter:
    if name == "console":
        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class _Throttle(logging.Filter):
    """Passes one line of the SDK's about a receiver that takes nothing, then one a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._seldom = Throttle(SAY_EVERY_S)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        return not record.name.startswith("opentelemetry") or self._seldom.is_time()


def _throttle_complaints() -> None:
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, _Throttle) for each in handler.filters):
            handler.addFilter(_Throttle())
