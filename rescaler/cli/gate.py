"""`surescale dev gate`: runs one gate over a list of events, from a JSON document to a JSON document.

The gate starts at time 0. Nothing waits: times are those of the document.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import click

from surescale.rescaler import gate_settings
from surescale.rescaler.cli import documents
from surescale.rescaler.cli.documents import Document
from surescale.rescaler.fields import Complaint, Fields
from surescale.rescaler.gate import Entries, Gate, Mode, Target


class EventType(StrEnum):
    """What can happen to a gate."""

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
    """Return warnings, phases and transitions of the run that ``document`` describes. Raises `Refused`."""
    complaints: list[Complaint] = []
    fields = Fields(document, "", complaints)
    mode = fields.word("mode", Mode)
    params = fields.child("params").value
    targets = _targets(fields)
    current = _current(fields, mode, targets)
    slots = fields.integer("slots")
    events = _events(fields, targets)
    last_ms = events[-1].at_ms if events else 0
    end_ms = fields.integer("end", last_ms, minimum=last_ms)
    documents.check(complaints)
    settings, warnings = gate_settings.resolve(params)

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


def _targets(fields: Fields) -> dict[str, Target]:
    found = fields.child("targets", required=True)
    targets = {}
    for fragment in found.value:
        bounds = found.child(fragment)
        lower = bounds.integer("lower", minimum=1)
        targets[fragment] = Target(lower, bounds.integer("upper", minimum=lower))
    if fields.value.get("targets") == {}:
        fields.complain("targets", "must name at least one fragment")
    return targets


def _current(fields: Fields, mode: Mode, targets: dict[str, Target]) -> dict[str, int] | None:
    noted = len(fields.complaints)
    members = fields.child("current", required=mode is not Mode.WAITING)
    if mode is Mode.WAITING:
        if members.value:
            fields.complain("current", "must be empty or absent while waiting")
        return None
    current = {fragment: members.integer(fragment, minimum=1) for fragment in members.value}
    if len(fields.complaints) == noted and set(current) != set(targets):
        fields.complain("current", "must name the same fragments as targets")
    return current


def _events(fields: Fields, targets: dict[str, Target]) -> list[Event]:
    events: list[Event] = []
    for index, value in enumerate(fields.items("events", required=True)):
        place = f"events[{index}]"
        each = Fields(value, place, fields.complaints, {"field": place})
        event = _event(each, events[-1].at_ms if events else 0)
        if event.targets is not None and set(event.targets) != set(targets):
            each.complain("targets", "must name the same fragments as at the start")
        events.append(event)
    return events


def _event(fields: Fields, earliest_ms: int) -> Event:
    at_ms = fields.integer("t", minimum=earliest_ms)
    noted = len(fields.complaints)
    kind = fields.word("type", EventType)
    if len(fields.complaints) > noted:  # what else it needs depends on its type
        return Event(at_ms, kind)
    if kind is EventType.SLOTS:
        return Event(at_ms, kind, slots=fields.integer("slots"))
    if kind is EventType.TARGET:
        return Event(at_ms, kind, targets=_targets(fields))
    if kind is EventType.RESCALED:
        return Event(at_ms, kind, ok=fields.boolean("ok"))
    return Event(at_ms, kind)


@click.command("gate")
@documents.file_argument
def command(file: BinaryIO) -> None:
    """Run one gate over a list of events.

    Answers when a job may rescale, and with what parallelism. Reads one JSON document from FILE, or from standard input, and
    prints one. Exit code 0, or 2 with an error code in the answer.
    """
    documents.answering(run, file)
