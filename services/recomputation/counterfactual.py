"""What would have been decided without a task's figures, or without a minute's. Does not use Kafka.

The window is asked about again as if nobody had reported them. Everything else stays: settings, policy, seed, the sizes that the
job had.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import msgspec
import numpy as np

from contracts.clock import MINUTE_MS
from contracts.errors import SettingsError
from contracts.windows import Window
from services.recomputation.question import DecisionInputs

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
        known = [spec.label or spec.task for spec in window.topology.tasks]
        shown = ", ".join(known[:NAMES_TOLD]) + (f" and {len(known) - NAMES_TOLD} more" if len(known) > NAMES_TOLD else "")
        first = datetime.fromtimestamp((window.window_end_ms - last * MINUTE_MS) / 1_000, UTC)
        raise SettingsError(
            f"--without: the window has no task or minute {name[:80]!r}; tasks: {shown}; minutes: {first:%H:%M} to "
            f"{datetime.fromtimestamp(window.window_end_ms / 1_000, UTC):%H:%M}, or -{last} to 0"
        )
    return place
