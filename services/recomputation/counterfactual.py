"""What would have been decided without a task's figures, or without a minute's. Does not use Kafka.

The window is asked about again as if nobody had reported them. Everything else stays: settings, policy, seed, the sizes that the
job had.

`question_of` asks again what a decision was asked: the same window, settings, policy and seed.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.plurals import listed
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.windows import Window
from surescale.policies.decide import decide, decide_if_due
from surescale.policies.departure import marked, why_left
from surescale.policies.onnx_sessions import Opener
from surescale.policies.policy import Policy
from surescale.policies.registry import FORECAST, RULES, Unavailable
from surescale.policies.released_policy import as_released, released_policy


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
        if self.decision.emergency is not None:
            again = decide_if_due(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)
        again = again or decide(window, self.policy, self.settings, seed=seed, asked=asked, release=used.release)
        return marked(again, left)


def question_of(
    decision: Decision,
    window: Window | None,
    settings: JobSettings | None,
    folder: str,
    span_minutes: int = SPAN_MINUTES,
    *,
    opener: Opener | None = None,
) -> DecisionInputs:
    """Return what a decision was made from; ``span_minutes`` is that of rules, ``opener`` opens the package's graphs.

    Raises:
        PolicyMissing: the model is not here.
        CannotRecompute: window or settings are gone.
    """
    there, in_force = still_there(decision, window, settings)
    return DecisionInputs(decision, there, in_force, _policy(decision, folder, span_minutes, opener))


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


def _policy(decision: Decision, folder: str, span_minutes: int, opener: Opener | None) -> Policy:
    used = decision.policy
    if used.fallback_reason is not None:
        # The model failed back then, for this reason. All that can be checked is the rule that stood in for it.
        return Unavailable(used.asked, used.fallback_reason)
    if not used.sha256 and used.name not in (*RULES, FORECAST):
        return Unavailable(used.name, "it could not be loaded")  # too few minutes were known to ask it
    found = released_policy(used.name, used.sha256, folder, span_minutes=span_minutes, opener=opener)
    policy = as_released(found, used.release)
    if isinstance(policy, Unavailable):
        raise PolicyMissing(f"the model is not available: {policy.reason} (name another folder with --policy-folder)")
    return policy


NAMES_TOLD = 12


class WithoutFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One answer without something; ``sizes`` are those that differ from the decision's, by task, before and after."""

    without: str
    action: Literal["act", "hold"]
    reason: str
    sizes: dict[str, tuple[int, int]]
    stand_in_reason: str | None


def without(asked: DecisionInputs, names: tuple[str, ...]) -> tuple[WithoutFacts, ...]:
    """Return the answer without each of these tasks or minutes, one at a time.

    A task is named by its id or label. A minute is named by its end, as ``09:45``, or as minutes before the span's end, as
    ``-3``; the window's last minute is 0.

    Raises:
        SettingsError: the window has no such task or minute, or nothing would be left of it.
    """
    given = {task.task: task.desired for task in asked.decision.tasks}
    found = []
    for name in names:
        again = asked.answer(_cut(asked.window, name))
        changed = {task.task: (given[task.task], task.desired) for task in again.tasks if task.desired != given[task.task]}
        found.append(
            WithoutFacts(
                without=name,
                action=again.action,
                reason=again.reason,
                sizes=changed,
                stand_in_reason=again.policy.fallback_reason if again.policy != asked.decision.policy else None,
            )
        )
    return tuple(found)


def _cut(window: Window, name: str) -> Window:
    figures = window.figures.copy()
    tasks = [at for at, spec in enumerate(window.topology.tasks) if name in (spec.task, spec.label)]
    if tasks:
        figures[:, tasks] = np.nan
    else:
        figures[_minute(window, name)] = np.nan
    if np.isnan(figures).all():
        raise SettingsError(f"--without: nothing is left of the window without {name!r}")
    return replace(window, figures=figures)


def _minute(window: Window, name: str) -> int:
    """Return the place of a minute in a window."""
    last, place = window.window_minutes - 1, -1
    if re.fullmatch(r"0|-\d{1,4}", name):
        place = last + int(name)
    elif clock := re.fullmatch(r"(\d{2}):(\d{2})", name):
        end = datetime.fromtimestamp(window.window_end_ms / 1_000, UTC)
        back = (end.hour * 60 + end.minute - int(clock[1]) * 60 - int(clock[2])) % (24 * 60)
        place = last - back
    if not 0 <= place <= last:
        shown = listed((spec.label or spec.task for spec in window.topology.tasks), NAMES_TOLD)
        first = datetime.fromtimestamp((window.window_end_ms - last * MINUTE_MS) / 1_000, UTC)
        raise SettingsError(
            f"--without: the window has no task or minute {name[:80]!r}; tasks: {shown}; minutes: {first:%H:%M} to "
            f"{datetime.fromtimestamp(window.window_end_ms / 1_000, UTC):%H:%M}, or -{last} to 0"
        )
    return place
