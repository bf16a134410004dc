"""Spans over the real SDK and the real exporter, to a real receiver."""

import json
import logging
import time
from importlib import import_module
from pkgutil import iter_modules

import opentelemetry.semconv._incubating.attributes as still_in_development
import opentelemetry.semconv.attributes as stable
import pytest

from surescale.runtime.http import NoAnswer
from surescale.runtime.http_pool import ConnectionPool
from surescale.runtime.logs import JsonLines
from surescale.runtime.ports import free_port
from surescale.runtime.tracing import conventions
from surescale.runtime.tracing.context import TraceContext, context_of
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.tracing.spans import at_work
from tests.support.http_server import Handler, serving
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> OtlpReceiver:
    """A receiver that this process's tracers send to."""
    with otlp_receiver() as made:
        for name, value in made.environment().items():
            monkeypatch.setenv(name, value)
        yield made  # type: ignore[misc]


def test_spans_arrive_with_name_parent_attributes_and_times(receiver: OtlpReceiver) -> None:
    """A place that came in a header is the parent, and the header of a span leads to it."""
    above, tracer = TraceContext(0xA, 0xB), tracer_of("agent")
    with tracer.begin("agent.decide", above, attributes={"surescale.job": "sim/clicks"}, began_ns=5) as span:
        below = tracer.begin("agent.policy", context_of(span.headers()), began_ns=7)
        below.event("fallback", {"why": "x"})
        below.end(9)
    tracer.close()
    (decide,), (policy,) = receiver.named("agent.decide"), receiver.named("agent.policy")
    assert (decide.service, decide.trace_id, decide.parent_id) == ("surescale-agent", f"{0xA:032x}", f"{0xB:016x}")
    assert (policy.trace_id, policy.parent_id) == (decide.trace_id, decide.span_id)
    assert (policy.began_ns, policy.ended_ns, policy.events) == (7, 9, ("fallback",))
    assert (decide.attributes["surescale.job"], decide.began_ns) == ("sim/clicks", 5)
    assert not decide.is_error


def test_an_exception_makes_a_span_fail_and_passes(receiver: OtlpReceiver) -> None:
    """The span ends and is exported."""
    tracer = tracer_of("rescaler")
    with pytest.raises(ValueError, match="no"), tracer.begin("rescaler.command"):
        raise ValueError("no")
    tracer.close()
    assert receiver.named("rescaler.command")[0].is_error


def test_a_trace_that_somebody_does_not_sample_is_not_exported(receiver: OtlpReceiver) -> None:
    """Its header is handed on as it is."""
    tracer = tracer_of("agent")
    with tracer.begin("agent.decide", TraceContext(1, 2, is_sampled=False)) as span:
        handed_on = context_of(span.headers())
    with tracer.begin("agent.other"):
        pass
    tracer.close()
    assert handed_on is not None
    assert (handed_on.trace_id, handed_on.is_sampled) == (1, False)
    assert [each.name for each in receiver.spans] == ["agent.other"]


def test_a_receiver_that_is_gone_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand spans more than the queue holds are begun and ended; closing gives up within its time."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tracer = tracer_of("agent")
    for _ in range(12_048):
        tracer.begin("agent.decide").end()
    began_s = time.monotonic()
    tracer.close()
    assert time.monotonic() - began_s < 30


def known_names() -> set[str]:
    """Return the attributes of the semantic conventions that the installed package has."""
    rooms = [(room.__name__, each.name) for room in (stable, still_in_development) for each in iter_modules(room.__path__)]
    modules = [import_module(".".join(place)) for place in rooms]
    return {value for module in modules for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_what_spans_say_of_kafka_and_http_has_the_names_of_the_conventions() -> None:
    """As the installed package has them; kinds of operations too."""
    said = [conventions.sent("t"), conventions.processed("t", "g"), conventions.requested("GET", "http", "h", 1, "/")]
    names = {conventions.ERROR_TYPE, conventions.STATUS_CODE}.union(*said)
    assert names - known_names() == set()
    kinds = import_module("opentelemetry.semconv._incubating.attributes.messaging_attributes").MessagingOperationTypeValues
    assert {each["messaging.operation.type"] for each in said[:2]} <= {kind.value for kind in kinds}


def test_a_resource_says_which_instance_of_which_service_it_is(receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says wins."""
    for told in ("", "service.namespace=shop,service.instance.id=agent-7"):
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", told)
        tracer = tracer_of("agent")
        tracer.begin("agent.decide").end()
        tracer.close()
    ours, theirs = (span.resource for span in receiver.named("agent.decide"))
    assert (ours["service.name"], ours["service.namespace"]) == ("surescale-agent", "surescale")
    assert ours["service.version"]
    assert len(ours["service.instance.id"]) == len("16f9be47-da13-4dcd-9a2f-2583e20f0370")
    assert (theirs["service.namespace"], theirs["service.instance.id"]) == ("shop", "agent-7")


def test_requests_of_a_clients_call_are_spans_below_it(receiver: OtlpReceiver) -> None:
    """With the names of the conventions; nothing of a query, which may hold a token. Looks within other work have none."""

    class Answers(Handler):
        def do_GET(self) -> None:
            self.reply(200 if self.path.startswith("/jobs") else 404)

    tracer = tracer_of("rescaler")
    with serving(Answers) as url:
        pool = ConnectionPool(url)
        with tracer.begin("actuator.command") as work:
            assert pool.ask("GET", "/looked", timeout_s=20).status == 404
            with tracer.begin("engine.request", work.context, kind="client"):
                assert pool.ask("GET", "/jobs?token=secret", timeout_s=20).status == 200
                assert pool.ask("GET", "/gone", timeout_s=20).status == 404
                with pytest.raises(NoAnswer):
                    ConnectionPool(f"http://127.0.0.1:{free_port()}").ask("GET", "/", timeout_s=20)
        assert pool.ask("GET", "/jobs", timeout_s=20).status == 200
    tracer.close()
    (call,) = receiver.named("engine.request")
    good, gone, refused = sorted(receiver.named("GET"), key=lambda span: span.began_ns)
    assert {receiver.parent_of(span).span_id for span in (good, gone, refused)} == {call.span_id}
    host, port = url.removeprefix("http://").split(":")
    assert good.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "server.address": host,
        "server.port": int(port),
        "url.full": f"{url}/jobs",
    }
    assert not good.is_error
    assert (gone.attributes["error.type"], gone.attributes["http.response.status_code"], gone.is_error) == ("404", 404, True)
    assert (refused.attributes["error.type"], refused.is_error) == ("NoAnswer", True)


def test_a_line_of_the_log_names_the_work_that_it_is_written_in(receiver: OtlpReceiver) -> None:
    """Also where the span goes on behind it; outside of any there is no name."""
    tracer = tracer_of("rescaler")

    def line() -> dict[str, str]:
        record = logging.LogRecord("surescale.rescaler", logging.WARNING, "", 0, "waiting", (), None)
        found: dict[str, str] = json.loads(JsonLines("rescaler").format(record))
        return {name: found[name] for name in ("trace_id", "span_id") if name in found}

    assert line() == {}
    with tracer.begin("rescaler.decision") as outer:
        with tracer.begin("rescaler.command", outer.context):
            inner = line()
        after = line()
    long = tracer.begin("actuator.command")
    with at_work(long):
        during = line()
    assert line() == {}
    long.end()
    tracer.close()
    names = ("rescaler.command", "rescaler.decision", "actuator.command")
    expected = [{"trace_id": span.trace_id, "span_id": span.span_id} for name in names for span in receiver.named(name)]
    assert [inner, after, during] == expected
