"""Where the gate of a decision's job stands now, as far as it is still about that decision. From the rescaler's own record."""

from collections.abc import Mapping
from typing import Any

import msgspec

from contracts.messages import Decision, RescalerRecord
from contracts.settings import RoadSettings
from contracts.topics import RESCALER_STATE
from services.road_topics import everything, parsed

Document = dict[str, Any]


def gate_now(settings: RoadSettings, decision: Decision) -> Document | None:
    """Return phase and waiting of the gate, None when it is about another decision by now."""
    memory = None
    for record in parsed(everything(settings, [RESCALER_STATE])[RESCALER_STATE], RescalerRecord):
        if record.kind == "job" and record.id == decision.job:
            memory = record
    return None if memory is None else about(msgspec.json.decode(memory.body), decision.decision_id)


def about(body: Mapping[str, Any], decision_id: str) -> Document | None:
    """Return what the rescaler's memory of a job says of one decision.

    >>> about({"gate": {"phase": "idle"}, "pending": None, "outstanding": {"decision_id": "d", "command_id": "c"}}, "d")
    {'phase': 'idle', 'waits_because': None, 'wakes_up_ms': None, 'carries_out': 'c'}
    """
    pending, outstanding, gate = (body.get(name) or {} for name in ("pending", "outstanding", "gate"))
    if decision_id not in (pending.get("decision_id"), outstanding.get("decision_id")):
        return None
    waits = pending if pending.get("decision_id") == decision_id else {}
    return {
        "phase": gate.get("phase"),
        "waits_because": waits.get("reason"),
        "wakes_up_ms": waits.get("until_ms"),
        "carries_out": outstanding.get("command_id") if outstanding.get("decision_id") == decision_id else None,
    }
