"""Decides again on the same window with the same settings and policy, and compares the bytes. Does not use Kafka."""

from dataclasses import dataclass

from msgspec import UNSET

from contracts.errors import SurescaleError
from contracts.job_settings import JobSettings
from contracts.messages import Decision
from contracts.settings import SPAN_MINUTES
from contracts.windows import Window
from contracts.wire import encode
from policies.decide import decide, decide_if_due
from policies.policy import Policy
from policies.registry import FORECAST, RULES, Unavailable
from policies.released_policy import released_policy


class CannotRecompute(SurescaleError):
    """Something the decision was made from is gone; the message names it."""


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


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """What a decision was made from."""

    decision: Decision
    window: Window
    settings: JobSettings
    policy: Policy

    def answer(self, window: Window) -> Decision:
        """Return what would be decided on a window of the job."""
        used, seed = self.decision.policy, self.decision.seed
        asked = used.asked or used.name
        again = None
        if self.decision.emergency is not UNSET:
            again = decide_if_due(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)
        return again or decide(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)


def question_of(
    decision: Decision, window: Window | None, settings: JobSettings | None, folder: str, span_minutes: int = SPAN_MINUTES
) -> AskedAgain:
    """Return what a decision was made from.

    Raises:
        CannotRecompute: window, settings or model is gone.
    """
    if window is None:
        raise CannotRecompute(f"the window {decision.window_id} is no longer in Kafka: snapshots are kept only for a while")
    if settings is None:
        raise CannotRecompute(f"settings version {decision.settings_version} of {decision.job} is not in Kafka")
    return AskedAgain(decision, window, settings, _policy(decision, folder, span_minutes))


def _policy(decision: Decision, folder: str, span_minutes: int) -> Policy:
    used = decision.policy
    if used.fallback_reason is not None:
        # The model failed back then, for this reason. All that can be checked is the rule that stood in for it.
        return Unavailable(used.asked, used.fallback_reason)
    if not used.sha256 and used.name not in (*RULES, FORECAST):
        return Unavailable(used.name, "it could not be loaded")  # too few minutes were known to ask it
    policy = released_policy(used.name, used.sha256, folder, span_minutes=span_minutes)
    if isinstance(policy, Unavailable):
        raise CannotRecompute(f"the model is not available: {policy.reason} (name another folder with --policy-folder)")
    return policy


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
