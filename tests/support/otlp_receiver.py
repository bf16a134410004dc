"""A receiver of OTLP over HTTP: decodes what exporters send and keeps the spans."""

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from tests.support.http_server import Handler, serving
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it came over the wire."""

    resource: dict[str, Any]
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    events: tuple[str, ...]
    is_error: bool
    began_ns: int
    ended_ns: int

    @property
    def service(self) -> str:
        """The service that sent it."""
        return str(self.resource["service.name"])


@dataclass
class OtlpReceiver:
    """What arrived at ``/v1/traces``."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Variables that send a role's spans here, at once."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def named(self, name: str) -> list[ReceivedSpan]:
        """Spans of one name."""
        return [span for span in list(self.spans) if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        """Wait until this many spans of a name have come."""
        wait_until(lambda: len(self.named(name)) >= count, 60, f"{count} spans {name}")
        return self.named(name)

    def parent_of(self, span: ReceivedSpan) -> ReceivedSpan:
        """The span above; fails if it has not come."""
        (found,) = (each for each in self.spans if (each.trace_id, each.span_id) == (span.trace_id, span.parent_id))
        return found

    def line_of(self, span: ReceivedSpan) -> list[str]:
        """Names from the first span of the trace down to this one."""
        return [*(self.line_of(self.parent_of(span)) if span.parent_id else []), span.name]


@contextlib.contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver on a free port."""
    receiver = OtlpReceiver()

    class Traces(Handler):
        def do_POST(self) -> None:
            body = self.body()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                receiver.spans.extend(spans_of(ExportTraceServiceRequest.FromString(body)))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.reply(200 if self.path == "/v1/traces" else 404, answer, "application/x-protobuf")

    with serving(Traces) as receiver.url:
        yield receiver


def spans_of(request: Any) -> Iterator[ReceivedSpan]:
    """The spans of one request."""
    for resource in request.resource_spans:
        of_resource = plain(resource.resource.attributes)
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield ReceivedSpan(
                resource=of_resource,
                name=span.name,
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex(),
                attributes=plain(span.attributes),
                events=tuple(event.name for event in span.events),
                is_error=span.status.code == 2,
                began_ns=span.start_time_unix_nano,
                ended_ns=span.end_time_unix_nano,
            )


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as they are in Python."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
