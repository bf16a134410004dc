"""The traces that go through the rescaler: from a decision's record to the report on its last command.

    agent.decide ─▶ rescaler.decision ─┬─▶ rescaler.gate        from the decision until its last outcome
                                       ├─▶ rescaler.placement   each plan made for it
                                       └─▶ rescaler.command ─┬─▶ actuator.command ─▶ engine.request, engine.withdraw
                                                             └─▶ rescaler.report  each report on it

A decision may wait for hours, and its rescaler may be another process by then: its place in the trace is a header of the record
that remembers its last outcome.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.steps import Timed, untimed
from surescale.contracts.topics import (
    DECISIONS,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    TopicNames,
    actuator_group,
    rescaler_group,
)
from surescale.rescaler.control.effects import Effects, StateRecord
from surescale.runtime.tracing.context import GivenHeaders, Headers, TraceContext, context_of
from surescale.runtime.tracing.conventions import processed, sent
from surescale.runtime.tracing.spans import NO_SPAN, NO_TRACER, Attributes, Span, Tracer

KEPT_MAX = 10_000
"""Decisions, and commands, whose place is remembered; the oldest is forgotten first."""
_NS_PER_MS = 1_000_000
T = TypeVar("T")


class HandledDecision(NamedTuple):
    """A decision of the round under way, and the headers of its record."""

    decision: Decision
    headers: GivenHeaders


@dataclass(slots=True)
class _Place:
    """Where a decision is in its trace."""

    context: TraceContext
    since_ns: int
    """Wall time at which the rescaler took it up; after a restart, of its last outcome."""
    waited_for: list[str] = field(default_factory=list)


class Traces:
    """Spans of one active rescaler and its actuator. Without a tracer nothing is kept, and every question has an empty answer."""

    def __init__(self, tracer: Tracer = NO_TRACER, topic_prefix: str = "", cluster: str = "") -> None:
        """``topic_prefix`` and ``cluster``: of the pipeline, for the names of topics and groups."""
        self._tracer, topic = tracer, TopicNames(topic_prefix)
        self._decides_on = processed(topic(DECISIONS), rescaler_group(topic_prefix, cluster))
        self._works_on = processed(topic(RESCHEDULE_COMMANDS), actuator_group(topic_prefix, cluster))
        self._commands_to, self._reports_to = sent(topic(RESCHEDULE_COMMANDS)), sent(topic(RESCHEDULE_EVENTS))
        self._decisions: dict[str, _Place] = {}
        self._commands: dict[str, TraceContext] = {}
        self._parts: list[tuple[str, str, int, int]] = []
        self._read = deque[tuple[str, TraceContext]](maxlen=KEPT_MAX)  # by the actuator's thread

    @property
    def timed(self) -> Timed:
        """What the pure core tells of the parts of its work."""
        return self._part if self._tracer.is_on else untimed

    def restore(self, kind: str, of: str, headers: GivenHeaders, at_ms: int) -> None:
        """Take up where a decision is from the headers of a record of the memory, appended at a wall time."""
        context = context_of(headers) if self._tracer.is_on and kind == "request" else None
        if context is not None:
            _keep(self._decisions, of, _Place(context, at_ms * _NS_PER_MS))

    @contextlib.contextmanager
    def round(self, handled: list[HandledDecision], effects: Effects, began_ns: int) -> Iterator[None]:
        """Begin the spans of a round that is about to be written; they end when the block does, failed if it raises."""
        parts, self._parts = self._parts, []
        if not self._tracer.is_on:
            yield
            return
        while self._read:
            _keep(self._commands, *self._read.popleft())
        with contextlib.ExitStack() as spans:
            decided = {each.decision.decision_id: spans.enter_context(self._decision(each, began_ns)) for each in handled}
            for command in effects.commands:
                self._ensure_place(command, spans, began_ns)
            for outcome in effects.outcomes:
                self._outcome(outcome, decided)
            for part, of, part_began_ns, part_ended_ns in parts:
                if of in self._decisions:
                    span = self._tracer.begin(f"rescaler.{part}", self._decisions[of].context, began_ns=part_began_ns)
                    span.end(part_ended_ns)
            for command in effects.commands:
                spans.enter_context(self._command(command, began_ns))
            for progress in effects.progress:
                spans.enter_context(self._report(progress, began_ns))
            yield

    def headers_of(self, message: Outcome | RescheduleCommand | Progress | StateRecord) -> Headers:
        """Return the headers of a record of the round under way."""
        if not self._tracer.is_on:
            return []
        if isinstance(message, RescheduleCommand | Progress):
            context = self._commands.get(message.command_id)
            return context.headers() if context is not None else []
        of = message.decision_id if isinstance(message, Outcome) else _decision_of(message)
        return self._decisions[of].context.headers() if of in self._decisions else []

    def work(self, command: RescheduleCommand, headers: GivenHeaders) -> Span:
        """Return the span of carrying out a command, below the command's own. For the actuator's thread."""
        if not self._tracer.is_on:
            return NO_SPAN
        above = context_of(headers)
        if above is not None:
            self._read.append((command.command_id, above))
        about = {**_about(command), **self._works_on}
        return self._tracer.begin("actuator.command", above, kind="consumer", attributes=about)

    def call(self, name: str, work: Span) -> Span:
        """Return the span of one call to an engine. For the actuator's thread."""
        return self._tracer.begin(name, work.context, kind="client")

    @property
    def is_on(self) -> bool:
        """Something is traced."""
        return self._tracer.is_on

    def _decision(self, handled: HandledDecision, began_ns: int) -> Span:
        decision = handled.decision
        attributes: Attributes = {
            "surescale.job": decision.job,
            "surescale.decision_id": decision.decision_id,
            "surescale.action": decision.action,
            **self._decides_on,
        }
        above = context_of(handled.headers)
        span = self._tracer.begin("rescaler.decision", above, kind="consumer", attributes=attributes, began_ns=began_ns)
        if decision.decision_id not in self._decisions:  # a decision that comes twice is answered once
            self._place(decision.decision_id, span, began_ns)
        return span

    def _ensure_place(self, command: RescheduleCommand, spans: contextlib.ExitStack, began_ns: int) -> None:
        """Begin a trace for an act of the rescaler's own, or for one whose place is not known."""
        if command.decision_id not in self._decisions:
            about = {"surescale.job": command.job, "surescale.decision_id": command.decision_id}
            span = spans.enter_context(self._tracer.begin("rescaler.act", None, attributes=about, began_ns=began_ns))
            self._place(command.decision_id, span, began_ns)

    def _place(self, decision_id: str, span: Span, since_ns: int) -> None:
        if span.context is not None:
            _keep(self._decisions, decision_id, _Place(span.context, since_ns))

    def _outcome(self, outcome: Outcome, decided: Mapping[str, Span]) -> None:
        """Tell of an outcome; the last one of an act that waited, or that was commanded, ends its gate."""
        place = self._decisions.get(outcome.decision_id)
        about: Attributes = {"surescale.outcome": outcome.status, "surescale.reason": outcome.reason}
        decided.get(outcome.decision_id, NO_SPAN).note(about)
        if place is None:
            return
        if outcome.status == "pending":
            if outcome.reason not in place.waited_for:
                place.waited_for.append(outcome.reason)
        elif place.waited_for or outcome.status == "commanded":
            gate = self._tracer.begin("rescaler.gate", place.context, attributes=about, began_ns=place.since_ns)
            gate.note({"surescale.job": outcome.job, "surescale.waited_for": ", ".join(place.waited_for)})
            gate.end()

    def _command(self, command: RescheduleCommand, began_ns: int) -> Span:
        place = self._decisions.get(command.decision_id)
        above = place.context if place is not None else None
        about = {**_about(command), **self._commands_to}
        span = self._tracer.begin("rescaler.command", above, kind="producer", attributes=about, began_ns=began_ns)
        if span.context is not None:
            _keep(self._commands, command.command_id, span.context)
        return span

    def _report(self, progress: Progress, began_ns: int) -> Span:
        about: Attributes = {
            "surescale.job": progress.job,
            "surescale.command_id": progress.command_id,
            "surescale.status": progress.status,
            "surescale.duration_ms": progress.duration_ms,
            **self._reports_to,
        }
        above = self._commands.get(progress.command_id)
        span = self._tracer.begin("rescaler.report", above, kind="producer", attributes=about, began_ns=began_ns)
        if progress.status == "failed":
            span.fail(f"{progress.code}: {progress.detail}")
        return span

    @contextlib.contextmanager
    def _part(self, part: str, of: str) -> Iterator[None]:
        began_ns = time.time_ns()
        yield
        self._parts.append((part, of, began_ns, time.time_ns()))


def _keep(kept: dict[str, T], key: str, value: T) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


def _decision_of(changed: StateRecord) -> str:
    record = changed.record
    return record.id if record is not None and record.kind == "request" else ""


def _about(command: RescheduleCommand) -> Attributes:
    return {
        "surescale.job": command.job,
        "surescale.decision_id": command.decision_id,
        "surescale.command_id": command.command_id,
        "surescale.action": command.action,
        "surescale.advice": command.advice,
        "surescale.tasks.changed": len(command.changes),
    }
