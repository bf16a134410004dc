"""One decision with everything around it: what ``--json`` prints and what the screen shows. Pure.

``recompute`` decides again on the same window with the same settings and policy, and compares the bytes.
"""

from collections.abc import Mapping

import msgspec

from surescale.contracts.commands import Balance
from surescale.contracts.decisions import Decision, SampledMinute, TaskDecision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.own_acts import WHY, OwnAct
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.windows import Window
from surescale.contracts.wire import encode
from surescale.policies.decide import LOAD_MINUTES
from surescale.runtime.limited_graphs import opener_for
from surescale.services.recomputation.counterfactual import WithoutFacts, question_of
from surescale.services.tools.explain.lookup import Aftermath, FoundOwnAct, GateNow


class Recomputed(msgspec.Struct, frozen=True, kw_only=True):
    """How today's answer compares; ``differences`` names the fields that changed, ``desired`` is its parallelism by task."""

    same: bool
    differences: tuple[str, ...]
    desired: dict[str, int]


def recompute(
    raw: bytes,
    decision: Decision,
    window: Window | None,
    settings: JobSettings | None,
    folder: str,
    span_minutes: int = SPAN_MINUTES,
) -> Recomputed:
    """Return today's answer to the same question; ``raw`` is the decision's record, and ``span_minutes`` that of rules.

    Raises:
        CannotRecompute: window, settings or model is gone.
    """
    asked_again = question_of(decision, window, settings, folder, span_minutes, opener=opener_for(folder))
    again = asked_again.answer(asked_again.window)
    same = encode(again) == raw
    return Recomputed(
        same=same,
        differences=() if same else _differences(decision, again),
        desired={task.task: task.desired for task in again.tasks},
    )


def _differences(before: Decision, after: Decision) -> tuple[str, ...]:
    named = [
        f"{name}: {_short(getattr(before, name))} -> {_short(getattr(after, name))}"
        for name in Decision.__struct_fields__
        if name != "tasks" and getattr(before, name) != getattr(after, name)
    ]
    for task, again in zip(before.tasks, after.tasks, strict=False):
        if task != again:
            named.append(f"{task.task}: ratio {task.ratio:.4g} -> {again.ratio:.4g}, desired {task.desired} -> {again.desired}")
    return tuple(named) or ("this version writes the record differently",)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


ANCHORS_SHOWN = 3
NEIGHBOURS_SHOWN = 3


class Explained(Aftermath, frozen=True, kw_only=True):
    """What became of a decision or an act, and how things stand now.

    ``labels``: the names that people know the tasks by, where they have one.
    """

    labels: dict[str, str]
    gate_now: GateNow | None


class Explanation(Explained, frozen=True, kw_only=True):
    """A decision in full.

    ``load_minutes``: over which its load is a mean. ``slot_price_per_s``: dollars that a slot of the job's cluster costs now,
    where the engine places; None: unknown. ``next_in_words``: when its job is decided on next, and what that waits for; empty if
    it is not the job's newest. ``recomputed`` and ``without`` are set only after deciding again.
    """

    decision: Decision
    load_minutes: int
    slot_price_per_s: float | None = None
    next_in_words: str = ""
    recomputed: Recomputed | msgspec.UnsetType = msgspec.UNSET
    without: tuple[WithoutFacts, ...] | msgspec.UnsetType = msgspec.UNSET


class OwnActExplanation(Explained, frozen=True, kw_only=True):
    """An act that no policy decided, in full: why the rescaler started it, and what became of it."""

    decision_id: str
    job: str
    at_ms: int
    own_act: OwnAct
    why: str
    look: Balance | None


def own_act_explanation(
    found: FoundOwnAct, aftermath: Aftermath, *, gate: GateNow | None = None, labels: Mapping[str, str] | None = None
) -> OwnActExplanation:
    """Return the explanation of an act that the rescaler started by itself."""
    return OwnActExplanation(
        **msgspec.structs.asdict(aftermath),
        labels=dict(labels or {}),
        gate_now=gate,
        decision_id=found.first.decision_id,
        job=found.first.job,
        at_ms=found.first.at_ms,
        own_act=found.own_act,
        why=WHY[found.own_act],
        look=found.look,
    )


def explanation(
    decision: Decision,
    aftermath: Aftermath,
    *,
    gate: GateNow | None = None,
    labels: Mapping[str, str] | None = None,
    slot_price_per_s: float | None = None,
    next_in_words: str = "",
    recomputed: Recomputed | None = None,
    without: tuple[WithoutFacts, ...] | None = None,
) -> Explanation:
    """Return the explanation of a decision."""
    return Explanation(
        **msgspec.structs.asdict(aftermath),
        labels=dict(labels or {}),
        gate_now=gate,
        decision=decision,
        load_minutes=min(LOAD_MINUTES, decision.minutes_known),
        slot_price_per_s=slot_price_per_s,
        next_in_words=next_in_words,
        recomputed=recomputed or msgspec.UNSET,
        without=msgspec.UNSET if without is None else without,
    )


def heaviest_minutes(task: TaskDecision, span_end_ms: int, labels: Mapping[str, str] | None = None) -> str:
    """Return the minutes that weighed most in a task's answer, each with its heaviest neighbours.

    >>> look = SampledMinute(minute_end_ms=0, weight=0.5, neighbours=("a",), neighbour_weights=(0.25,))
    >>> heaviest_minutes(TaskDecision(task="b", current=1, ratio=1.0, proposed=1, desired=1, looked_at=(look,)), 60_000)
    '-1 min 50% (a 25%)'
    """
    anchors = sorted(task.looked_at, key=lambda anchor: (-anchor.weight, -anchor.minute_end_ms))
    return "; ".join(_anchor(anchor, span_end_ms, labels or {}) for anchor in anchors[:ANCHORS_SHOWN])


def _anchor(anchor: SampledMinute, span_end_ms: int, labels: Mapping[str, str]) -> str:
    pairs = sorted(zip(anchor.neighbour_weights, anchor.neighbours, strict=False), key=lambda pair: (-pair[0], pair[1]))
    near = ", ".join(f"{labels.get(name, name)} {weight:.0%}" for weight, name in pairs[:NEIGHBOURS_SHOWN])
    minutes = (anchor.minute_end_ms - span_end_ms) // 60_000
    return f"{minutes} min {anchor.weight:.0%}" + (f" ({near})" if near else "")
