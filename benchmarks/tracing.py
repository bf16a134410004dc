"""`surescale dev bench tracing`: what traces cost, off and on, beside the decision that they describe."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click

from benchmarks.machine import conditions, conditions_line
from surescale.runtime import options
from surescale.runtime.tracing.context import context_of
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.tracing.spans import Tracer

SPANS_PER_DECISION = 4  # of an agent: its own, and measure, policy, guardrails
_HEADER = [("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
_ATTRIBUTES = {"surescale.job": "sim/clicks", "surescale.decision_id": "sim/clicks@0/sure", "surescale.action": "act"}


@dataclass(frozen=True, slots=True)
class TracingCost:
    """Processor time of all threads, the exporter's too, per decision's worth of spans."""

    decisions: int
    off_us: float
    on_us: float


def measure(decisions: int) -> TracingCost:
    """Begin and end the spans of so many decisions, without a tracer and with one whose receiver takes everything."""
    off = tracer_of("agent", {})
    off_us = _processor_us(lambda: _spans(off, decisions)) / decisions
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        on = _tracer_to(f"http://127.0.0.1:{server.server_port}")
        return TracingCost(decisions, off_us, _processor_us(lambda: _to_the_end(on, decisions)) / decisions)
    finally:
        server.shutdown()
        server.server_close()


def _tracer_to(url: str) -> Tracer:
    import os

    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = url  # the exporter reads it itself
    return tracer_of("agent")


def _to_the_end(tracer: Tracer, decisions: int) -> None:
    _spans(tracer, decisions)
    tracer.close()


def _spans(tracer: Tracer, decisions: int) -> None:
    for done in range(decisions):
        with tracer.begin("agent.decide", context_of(_HEADER), kind="consumer", attributes=_ATTRIBUTES) as span:
            for part in ("agent.measure", "agent.policy", "agent.guardrails"):
                tracer.begin(part, span.context).end()
            span.headers()
        if tracer.is_on and done % 256 == 255:
            time.sleep(0.02)  # the queue drops what comes faster than it is exported


def _processor_us(work: Callable[[], None]) -> float:
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) * 1e6


class _Sink(BaseHTTPRequestHandler):
    """Takes every request; its own time counts too, which makes the figure an upper bound."""

    def do_POST(self) -> None:
        """Read it, and say that it was taken."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@click.command("tracing")
@click.option("--decisions", type=click.IntRange(min=1), default=5_000, show_default=True, help="Decisions' worth of spans.")
@options.as_json
def command(decisions: int, as_json: bool) -> None:
    """What traces cost an agent, off and on.

    Prints processor time for the spans of one decision.
    """
    taken_under, found = conditions(0), measure(decisions)
    if as_json:
        click.echo(json.dumps({"conditions": taken_under, **asdict(found)}, indent=2))
        return
    click.echo(conditions_line(taken_under))
    click.echo(f"spans of one decision of an agent ({SPANS_PER_DECISION}), over {decisions:,} decisions:")
    click.echo(f"  off: {found.off_us:.1f} us    on, exported by OTLP: {found.on_us:.0f} us")
