"""Spans over the real SDK and the real exporter, to a real receiver."""

import time

import pytest

from surescale.runtime.tracing.context import TraceContext, context_of
from surescale.runtime.tracing.setup import tracer_of
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
