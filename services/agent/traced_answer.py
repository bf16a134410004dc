"""The trace of one answer: the agent's own span, below the window's, with the parts of the work below it."""

import contextlib
import time
from collections.abc import Iterator

from contracts.decisions import Decision
from contracts.steps import Timed, untimed
from runtime.tracing.context import GivenHeaders, context_of
from runtime.tracing.spans import Attributes, Span, Tracer


class TracedAnswer:
    """Times the parts while nobody knows yet whether anything is due; spans are made only for an answer.

    Of ten windows nine ask for nothing, and cost one look at the clock.
    """

    def __init__(self, tracer: Tracer, headers: GivenHeaders) -> None:
        """``headers``: of the window's record."""
        self._tracer, self._headers = tracer, headers
        self._parts: list[tuple[str, int, int]] = []
        self._began_ns = time.time_ns() if tracer.is_on else 0

    @property
    def timed(self) -> Timed:
        """What receives the beginning and end of each part of the work."""
        return self._part if self._tracer.is_on else untimed

    def of(self, decision: Decision) -> Span:
        """Return the span of a decision that was made just now; the caller ends it when Kafka has the record."""
        if not self._tracer.is_on:
            return self._tracer.begin("agent.decide")
        policy, acts = decision.policy, decision.action == "act"
        about: Attributes = {
            "surescale.job": decision.job,
            "surescale.decision_id": decision.decision_id,
            "surescale.action": decision.action,
            "surescale.policy": policy.name,
            "surescale.policy.asked": policy.asked or policy.name,
            "surescale.span_end_ms": decision.span_end_ms,
            "surescale.tasks": len(decision.tasks),
            "surescale.tasks.changed": sum(task.desired != task.current for task in decision.tasks) if acts else 0,
        }
        span = self._begun(about)
        if policy.fallback_reason is not None:
            span.event("fallback", {"surescale.fallback_reason": policy.fallback_reason})
        for name, began_ns, ended_ns in self._parts:
            part = self._tracer.begin(f"agent.{name}", span.context, began_ns=began_ns)
            part.end(ended_ns)
        return span

    def refused(self, why: str) -> Span:
        """Return the span of a window that cannot be read."""
        span = self._begun({})
        span.fail(why)
        return span

    def _begun(self, about: Attributes) -> Span:
        above = context_of(self._headers) if self._tracer.is_on else None
        return self._tracer.begin("agent.decide", above, kind="consumer", attributes=about, began_ns=self._began_ns)

    @contextlib.contextmanager
    def _part(self, name: str, _of: str) -> Iterator[None]:
        began_ns = time.time_ns()
        yield
        self._parts.append((name, began_ns, time.time_ns()))
