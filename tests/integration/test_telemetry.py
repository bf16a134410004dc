"""One trace from a window to the applied change, through real processes on a real broker, as a receiver of OTLP sees it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    DECISIONS,
    RESCALER_STATE,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    SNAPSHOTS,
    TopicNames,
    actuator_group,
    agent_group,
    rescaler_group,
)
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.tracing.context import Headers, TraceContext, context_of
from tests.conftest import KafkaForTests
from tests.support.agent_pipeline import AgentPipeline
from tests.support.builders import row
from tests.support.controller_world import JOB, START_MS, decision, job
from tests.support.fake_engine import FakeEngine
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.rescaler_pipeline import Pipeline, is_active, opened, reader, served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
T0 = START_MS
HOSTILE = (b"", b"00-zz-zz-00", b"\xff" * 1_000_000, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")
"""Values of ``traceparent`` that are no place in a trace."""


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    """Where spans go."""
    with otlp_receiver() as made:
        yield made


@pytest.fixture
def pipeline(kafka: KafkaForTests, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """A pipeline of its own whose processes send spans to the receiver."""
    for name, value in receiver.environment().items():
        monkeypatch.setenv(name, value)
    engine = FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(
            bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), engine_url=url, pipeline_clock=True
        )
        with opened(settings, engine) as made:
            yield made


def windows() -> list[bytes]:
    """The minutes before the first decision: task map of the job is asked for more than it can do."""
    history = WindowHistory(JOB, 60)
    rows = {
        "source": row(records_in=12_000, records_out=12_000, busy_ms=100),
        "map": row(records_in=6_000, records_out=6_000, busy_ms=120_000, parallelism=2, queued_records_last=6_000),
        "join": row(records_in=6_000, records_out=6_000, busy_ms=60_000, parallelism=2),
        "sink": row(records_in=6_000, busy_ms=100),
    }
    return [encode_window(history.close(end * MINUTE_MS, rows, job())) for end in range(1, T0 // MINUTE_MS + 1)]


def send(pipeline: Pipeline, topic: str, key: str, value: bytes, headers: Headers) -> None:
    """Write one record with headers."""
    pipeline.client.produce(TopicNames(pipeline.settings.topic_prefix)(topic), key=key, value=value, headers=dict(headers))
    assert pipeline.client.flush(20) == 0


def headers_on(pipeline: Pipeline, topic: str) -> list[TraceContext | None]:
    """Where the records of a topic are in their traces."""
    log = reader(pipeline.settings, topic)
    try:
        return [context_of(record.headers()) for record in log.read_to_end()]
    finally:
        log.close()


def test_one_trace_leads_from_a_window_to_the_applied_change(
    pipeline: Pipeline, receiver: OtlpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agent and rescaler are two processes; every span has the right one above it, and every record says where it belongs."""
    monkeypatch.setenv("SURESCALE_CLUSTER", "sim")
    of_agent = PipelineSettings(
        bootstrap=pipeline.settings.bootstrap, topic_prefix=pipeline.settings.topic_prefix, policy="target-utilisation"
    )
    agents = AgentPipeline(of_agent, tmp_path)
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    agents.start()
    window = TraceContext(0x5E, 0x7A)  # as Spark would have handed it on
    try:
        for raw in windows():
            send(pipeline, SNAPSHOTS, JOB, raw, window.headers())
        wait_until(lambda: pipeline.statuses() == ["accepted"], 60, "the acceptance")
        pipeline.clock(T0 + 2 * MINUTE_MS)
        wait_until(lambda: pipeline.statuses() == ["accepted", "applied"], 20, "the end of the rescale")
        reports = {span.attributes["surescale.status"]: span for span in receiver.wait_for("rescaler.report", 2)}
        receiver.wait_for("actuator.command")
    finally:
        agents.stop()
    (decided,), (request,) = receiver.named("agent.decide"), receiver.named("engine.request")
    assert (decided.trace_id, decided.parent_id) == (f"{0x5E:032x}", f"{0x7A:016x}")
    assert {span.trace_id for span in receiver.spans} == {decided.trace_id}, "of the other windows nothing is told"
    for part in ("measure", "policy", "guardrails"):
        assert [receiver.parent_of(span) for span in receiver.named(f"agent.{part}")] == [decided]
    receiver.spans[:] = [replace(span, parent_id="") if span is decided else span for span in receiver.spans]
    assert receiver.line_of(reports["applied"]) == ["agent.decide", "rescaler.decision", "rescaler.command", "rescaler.report"]
    assert receiver.line_of(request)[2:] == ["rescaler.command", "actuator.command", "engine.request"]
    assert receiver.line_of(receiver.named("rescaler.placement")[0])[1:] == ["rescaler.decision", "rescaler.placement"]
    (gate,), (work,) = receiver.named("rescaler.gate"), receiver.named("actuator.command")
    assert (gate.attributes["surescale.outcome"], gate.attributes["surescale.waited_for"]) == ("commanded", "")
    assert (work.events, work.is_error) == (("accepted", "applied"), False)
    assert decided.attributes["surescale.decision_id"] == work.attributes["surescale.decision_id"]
    assert {span.service for span in receiver.spans} == {"surescale-agent", "surescale-rescaler"}
    full, prefix = TopicNames(pipeline.settings.topic_prefix), pipeline.settings.topic_prefix
    for name, operation, topic, group in (
        ("agent.decide", "process", SNAPSHOTS, agent_group(prefix)),
        ("rescaler.decision", "process", DECISIONS, rescaler_group(prefix, "sim")),
        ("rescaler.command", "send", RESCHEDULE_COMMANDS, None),
        ("actuator.command", "process", RESCHEDULE_COMMANDS, actuator_group(prefix, "sim")),
        ("rescaler.report", "send", RESCHEDULE_EVENTS, None),
    ):
        about = {key: value for key, value in receiver.named(name)[0].attributes.items() if key.startswith("messaging.")}
        assert about.pop("messaging.consumer.group.name", None) == group
        assert about == {
            "messaging.system": "kafka",
            "messaging.operation.type": operation,
            "messaging.operation.name": operation,
            "messaging.destination.name": full(topic),
        }
    for topic in (DECISIONS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS):
        assert {at.trace_id for at in headers_on(pipeline, topic) if at is not None} == {0x5E}
        assert None not in headers_on(pipeline, topic)


def test_an_act_that_waits_keeps_its_trace_over_a_crash(pipeline: Pipeline, receiver: OtlpReceiver) -> None:
    """It waits for the cooldown; the rescaler that commands it is not the one that took it up.

    Before it come decisions with headers as anybody may write them: each is answered as always, and begins a trace.
    """
    first, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    holds = [decision(T0 - (9 - minute) * MINUTE_MS) for minute in range(len(HOSTILE))]
    for hold, header in zip(holds, HOSTILE, strict=True):
        send(pipeline, DECISIONS, "sim", encode(hold), [("traceparent", header), ("baggage", header)])
    begun = receiver.wait_for("rescaler.decision", len(holds))
    assert {(span.parent_id, span.is_error) for span in begun} == {("", False)}
    assert [pipeline.said(hold) for hold in holds] == [[("held", "hold")]] * len(holds)
    pipeline.decide(decision(T0, {"map": 4}))
    wait_until(lambda: pipeline.statuses() == ["accepted"], 20, "the acceptance")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: pipeline.statuses() == ["accepted", "applied"], 20, "the end of the rescale")
    waits, place = decision(T0 + 2 * MINUTE_MS, {"map": 3}), TraceContext(0xC0, 0xFE)
    send(pipeline, DECISIONS, "sim", encode(waits), place.headers())
    wait_until(lambda: pipeline.said(waits) == [("pending", "cooldown")], 20, "the promise")
    receiver.wait_for("rescaler.decision", len(holds) + 2)
    first.kill()
    first.wait()
    assert 0xC0 in {at.trace_id for at in headers_on(pipeline, RESCALER_STATE) if at is not None}
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the second rescaler")
    pipeline.clock(T0 + 3 * MINUTE_MS)
    wait_until(lambda: ("commanded", "desired") in pipeline.said(waits), 20, "the second command")
    gate, command = receiver.wait_for("rescaler.gate", 2)[-1], receiver.wait_for("rescaler.command", 2)[-1]
    above = receiver.parent_of(gate)
    assert (above.name, above.parent_id) == ("rescaler.decision", f"{0xFE:016x}")
    assert (receiver.parent_of(gate), gate.trace_id) == (receiver.parent_of(command), f"{0xC0:032x}")
    assert gate.ended_ns > gate.began_ns
