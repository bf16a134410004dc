"""`surescale gate`: runs one gate over a list of events, from a JSON document to a JSON document.

The gate is created at time 0. What it does not do: wait; times are those of the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import click

from rescaler import gate_settings
from rescaler.commands import documents
from rescaler.commands.documents import Document, Fields
from rescaler.gate import Entries, Gate, Mode, Target


class EventType(StrEnum):
    """What may happen to a gate."""

    SLOTS = "slots"
    TARGET = "target"
    CHECKPOINT_COMPLETED = "checkpoint_completed"
    CHECKPOINT_FAILED = "checkpoint_failed"
    TRIGGER = "trigger"
    RESCALED = "rescaled"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the document."""

    at_ms: int
    type: EventType
    targets: dict[str, Target] | None = None
    slots: int | None = None
    ok: bool = False


def run(document: Document) -> Document:
    """Warnings, phases and transitions of the run that ``document`` describes. Raises `Refused`."""
    fields = Fields(document, "the document")
    mode = fields.word("mode", Mode)
    settings, warnings = gate_settings.resolve(dict(fields.members("params", default_empty=True)))
    targets = _targets(fields, field="targets")
    current = _current(fields, mode, targets)
    slots = fields.integer("slots", minimum=0)
    events = _events(fields, targets)
    last_ms = events[-1].at_ms if events else 0
    end_ms = fields.integer("end", minimum=last_ms, default=last_ms)

    gate, first = Gate.start(settings, mode=mode, targets=targets, slots=slots, current=current, now_ms=0)
    entries = list(first)
    for event in events:
        entries += _deliver(gate, event)
    entries += gate.advance(end_ms)
    return {
        "warnings": [{"name": w.name, "use": w.use, "effect": w.effect} for w in warnings],
        "phases": [{"t": entry.at_ms, "mode": entry.mode, "phase": entry.phase} for entry in entries],
        "transitions": [
            {"t": done.at_ms, "reason": done.reason, "cause": done.cause, "parallelism": done.parallelism}
            for done in (entry.transition for entry in entries)
            if done is not None
        ],
    }


def _deliver(gate: Gate, event: Event) -> Entries:
    if event.type is EventType.TRIGGER:
        return gate.on_trigger(event.at_ms)
    if event.type is EventType.RESCALED:
        return gate.on_rescaled(event.ok, event.at_ms)
    if event.type in (EventType.SLOTS, EventType.TARGET):
        return gate.on_change(targets=event.targets, slots=event.slots, now_ms=event.at_ms)
    return gate.on_checkpoint(completed=event.type is EventType.CHECKPOINT_COMPLETED, now_ms=event.at_ms)


def _targets(fields: Fields, *, field: str) -> dict[str, Target]:
    targets = {}
    for fragment, value in fields.members("targets"):
        bounds = Fields(value, f"the target of {fragment!r}", field=field)
        lower = bounds.integer("lower", minimum=1)
        targets[fragment] = Target(lower, bounds.integer("upper", minimum=lower))
    if not targets:
        documents.invalid("targets must name at least one fragment", field=field)
    return targets


def _current(fields: Fields, mode: Mode, targets: dict[str, Target]) -> dict[str, int] | None:
    members = dict(fields.members("current", default_empty=mode is Mode.WAITING))
    if mode is Mode.WAITING:
        if members:
            documents.invalid("current must be empty or absent while waiting", field="current")
        return None
    values = Fields(members, "current", field="current")
    current = {fragment: values.integer(fragment, minimum=1) for fragment in members}
    if set(current) != set(targets):
        documents.invalid("current must name the same fragments as targets", field="current")
    return current


def _events(fields: Fields, targets: dict[str, Target]) -> list[Event]:
    events: list[Event] = []
    for index, value in enumerate(fields.items("events")):
        place = f"events[{index}]"
        event = _event(Fields(value, place, field=place), place, events[-1].at_ms if events else 0)
        if event.targets is not None and set(event.targets) != set(targets):
            documents.invalid(f"{place}: targets must name the same fragments as at the start", field=place)
        events.append(event)
    return events


def _event(fields: Fields, place: str, earliest_ms: int) -> Event:
    at_ms = fields.integer("t", minimum=earliest_ms)
    kind = fields.word("type", EventType)
    if kind is EventType.SLOTS:
        return Event(at_ms, kind, slots=fields.integer("slots", minimum=0))
    if kind is EventType.TARGET:
        return Event(at_ms, kind, targets=_targets(fields, field=place))
    if kind is EventType.RESCALED:
        return Event(at_ms, kind, ok=fields.boolean("ok"))
    return Event(at_ms, kind)


@click.command("gate")
def command() -> None:
    """Run one gate over events: JSON on standard input, JSON on standard output.

    Answers when a job may rescale, and with what parallelism. Exit code 0, or 2 with an error code.
    """
    documents.answering(run)
