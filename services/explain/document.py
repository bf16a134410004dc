"""One decision with everything around it as a plain document: what ``--json`` prints and the screen is made from. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from contracts.messages import Decision
from services.explain.lookup import Aftermath
from services.explain.recompute import Recomputed

ANCHORS_SHOWN = 3
NEIGHBOURS_SHOWN = 3

Document = dict[str, Any]


def document(decision: Decision, aftermath: Aftermath, *, gate: Mapping[str, Any] | None = None) -> Document:
    """Return the decision in full, in the order in which it came about."""
    return {
        "decision_id": decision.decision_id,
        "job": decision.job,
        "span_end_ms": decision.span_end_ms,
        "action": decision.action,
        "reason": decision.reason,
        "policy": msgspec.to_builtins(decision.policy),
        "seed": decision.seed,
        "settings_version": decision.settings_version,
        "topology_version": decision.topology_version,
        "window": {
            "window_id": decision.window_id,
            "completeness": decision.completeness,
            "minutes_known": decision.minutes_known,
            "load_records_per_minute": decision.load_records_per_minute,
            "closed_append_ms": decision.closed_append_ms,
            "reached_wall_ms": decision.reached_wall_ms,
        },
        "tasks": msgspec.to_builtins(decision.tasks),
        "outcomes": msgspec.to_builtins(aftermath.outcomes),
        "gate_now": dict(gate) if gate else None,
        "commands": msgspec.to_builtins(aftermath.commands),
        "progress": msgspec.to_builtins(aftermath.progress),
        "engine_events": msgspec.to_builtins(aftermath.events),
    }


def with_recomputed(explained: Document, recomputed: Recomputed) -> Document:
    """Return the document with the answer of today."""
    answer = {
        "same": recomputed.same,
        "differences": list(recomputed.differences),
        "desired": {task.task: task.desired for task in recomputed.decision.tasks},
    }
    return explained | {"recomputed": answer}


def looked_at(task: Mapping[str, Any], span_end_ms: int) -> str:
    """Return the heaviest minutes that a task's answer looked at, each with its heaviest neighbours.

    >>> looked_at({"looked_at": [{"minute_end_ms": 0, "weight": 0.5, "neighbours": ["a"], "neighbour_weights": [0.25]}]}, 60_000)
    '-1 min 50% (a 25%)'
    """
    anchors = sorted(task["looked_at"], key=lambda anchor: (-anchor["weight"], -anchor["minute_end_ms"]))
    return "; ".join(_anchor(anchor, span_end_ms) for anchor in anchors[:ANCHORS_SHOWN])


def _anchor(anchor: Mapping[str, Any], span_end_ms: int) -> str:
    pairs = sorted(zip(anchor["neighbour_weights"], anchor["neighbours"], strict=False), key=lambda pair: (-pair[0], pair[1]))
    near = ", ".join(f"{name} {weight:.0%}" for weight, name in pairs[:NEIGHBOURS_SHOWN])
    minutes = (anchor["minute_end_ms"] - span_end_ms) // 60_000
    return f"{minutes} min {anchor['weight']:.0%}" + (f" ({near})" if near else "")
