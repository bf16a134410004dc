"""Asks again what a decision was asked: the same window, settings, policy and seed. Does not use Kafka."""

from dataclasses import dataclass

from msgspec import UNSET

from contracts.decisions import Decision
from contracts.errors import SurescaleError
from contracts.job_settings import JobSettings
from contracts.settings import SPAN_MINUTES
from contracts.windows import Window
from policies.decide import decide, decide_if_due
from policies.departure import marked, why_left
from policies.policy import Policy
from policies.registry import FORECAST, RULES, Unavailable
from policies.released_policy import as_released, released_policy


class CannotRecompute(SurescaleError):
    """Something the decision was made from is gone; the message names it."""


class PolicyMissing(CannotRecompute):
    """The policy is not in the folder, or its runtime is not installed here."""


@dataclass(frozen=True, slots=True)
class DecisionInputs:
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
        left = why_left(self.decision)
        if self.decision.emergency is not UNSET:
            again = decide_if_due(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)
        again = again or decide(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)
        return marked(again, left)


def question_of(
    decision: Decision, window: Window | None, settings: JobSettings | None, folder: str, span_minutes: int = SPAN_MINUTES
) -> DecisionInputs:
    """Return what a decision was made from; ``span_minutes`` is that of rules.

    Raises:
        PolicyMissing: the model is not here.
        CannotRecompute: window or settings are gone.
    """
    there, in_force = still_there(decision, window, settings)
    return DecisionInputs(decision, there, in_force, _policy(decision, folder, span_minutes))


def still_there(decision: Decision, window: Window | None, settings: JobSettings | None) -> tuple[Window, JobSettings]:
    """Return a decision's window and settings as they were found.

    Raises:
        CannotRecompute: one of them is gone.
    """
    if window is None:
        raise CannotRecompute(f"the window {decision.window_id} is no longer in Kafka: snapshots are kept only for a while")
    if settings is None:
        raise CannotRecompute(f"settings version {decision.settings_version} of {decision.job} is not in Kafka")
    return window, settings


def _policy(decision: Decision, folder: str, span_minutes: int) -> Policy:
    used = decision.policy
    if used.fallback_reason is not None:
        # The model failed back then, for this reason. All that can be checked is the rule that stood in for it.
        return Unavailable(used.asked, used.fallback_reason)
    if not used.sha256 and used.name not in (*RULES, FORECAST):
        return Unavailable(used.name, "it could not be loaded")  # too few minutes were known to ask it
    policy = as_released(released_policy(used.name, used.sha256, folder, span_minutes=span_minutes), used.release)
    if isinstance(policy, Unavailable):
        raise PolicyMissing(f"the model is not available: {policy.reason} (name another folder with --policy-folder)")
    return policy
