"""Decides again on the same window with the same settings and policy, and compares the bytes. Reads no Kafka."""

from dataclasses import dataclass

from contracts.errors import SurescaleError
from contracts.messages import Decision, JobSettings
from contracts.windows import Window
from contracts.wire import encode
from policies.decide import decide
from policies.policy import Policy
from policies.registry import FORECAST, RULES, Unavailable
from services.policy_releases.folder import released_policy


class CannotRecompute(SurescaleError):
    """Something that the decision was made from is gone; the message names it."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The answer of today; ``differences`` names the fields that are not as they were."""

    decision: Decision
    same: bool
    differences: tuple[str, ...]


def recompute(raw: bytes, decision: Decision, window: Window | None, settings: JobSettings | None, folder: str) -> Recomputed:
    """Return what is decided now on what was decided on then; ``raw`` is the decision's record.

    Raises:
        CannotRecompute: window, settings or model is gone.
    """
    if window is None:
        raise CannotRecompute(f"the window {decision.window_id} is no longer in Kafka: snapshots are kept for a time only")
    if settings is None:
        raise CannotRecompute(f"settings version {decision.settings_version} of {decision.job} is not in Kafka")
    used = decision.policy
    again = decide(window, _policy(decision, folder), settings, seed=decision.seed, asked=used.asked or used.name)
    same = encode(again) == raw
    return Recomputed(again, same, () if same else _differences(decision, again))


def _policy(decision: Decision, folder: str) -> Policy:
    used = decision.policy
    if used.fallback_reason is not None:
        # The model failed then, for this reason. Whether the rule gives the same in its place is what can be asked.
        return Unavailable(used.asked, used.fallback_reason)
    if not used.sha256 and used.name not in (*RULES, FORECAST):
        return Unavailable(used.name, "it could not be loaded")  # too few minutes were known for it to be asked
    policy = released_policy(used.name, used.sha256, folder)
    if isinstance(policy, Unavailable):
        raise CannotRecompute(f"the model cannot be had: {policy.reason} (name another folder with --policy-folder)")
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
    return tuple(named) or ("the record is not written as this version writes it",)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
