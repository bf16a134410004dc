"""Decides again on the same window with the same settings and policy, and compares the bytes. Does not use Kafka."""

from dataclasses import dataclass

from contracts.decisions import Decision
from contracts.job_settings import JobSettings
from contracts.settings import SPAN_MINUTES
from contracts.windows import Window
from contracts.wire import encode
from services.recomputation.question import question_of


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Today's answer; ``differences`` names the fields that changed."""

    decision: Decision
    same: bool
    differences: tuple[str, ...]


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
    asked_again = question_of(decision, window, settings, folder, span_minutes)
    again = asked_again.answer(asked_again.window)
    same = encode(again) == raw
    return Recomputed(again, same, () if same else _differences(decision, again))


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
