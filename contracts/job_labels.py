"""Limits as labels of the job itself: ``surescale.max: 12`` in the job is ``surescale job set JOB --max 12``. Pure.

What somebody set for the job wins over its labels, and these over the default of its engine. A label that cannot be read counts
as none, and ``unreadable`` says so in one line.
"""

import difflib
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from contracts.errors import SettingsError
from contracts.job_settings import JobSettings, LatencyBound
from contracts.limits_in_words import read_period, read_task
from contracts.modes import AMBIGUOUS_LABEL, LABEL_PREFIX, MODE_LABEL
from contracts.objectives import read_objective

FIELDS = {
    "min": "parallelism_min",
    "max": "parallelism_max",
    "total": "total_limit",
    "task": "tasks",
    "step": "step_ratio_max",
    "step-up": "step_up_max",
    "step-down": "step_down_max",
    "backlog-hold": "backlog_hold_minutes",
    "scale-down-after": "scale_down_after_minutes",
    "exclude": "excluded",
    "rescales-a-day": "rescales_a_day_max",
    "ineffective": "block_ineffective",
    "emergency": "emergency_growth",
    "align": "align",
    "cpu": "cpu_limit",
    "memory": "memory_limit",
    "feature-drift": "feature_drift_max",
    "spread": "calibrated_spread",
    "catch-up": "catch_up_minutes",
    "restart-seconds": "restart_seconds",
    "objective": "objective",
    "minutes-known": "minutes_known_min",
    "utilisation": "utilisation",
    "on-drift": "on_drift",
    "priority": "priority",
    "policy": "policy",
}
"""The field of each limit, by its name: that of the option without the dashes, and of the label without the prefix."""
CHOICES = {
    "block_ineffective": {"block": True, "allow": False},
    "emergency_growth": {"grow": True, "wait": False},
    "calibrated_spread": {"calibrated": True, "shipped": False},
}
"""The words of limits whose field is true or false."""
_WORDS = {**CHOICES, "align": {"yes": True, "no": False, "true": True, "false": False}}
_TOGETHER = ({"step_ratio_max", "step_up_max", "step_down_max"}, {"objective", "latency_bound"})
Source = Literal["settings", "label", "default"]
SEPARATOR = ";"
"""Between several periods or tasks in one label."""
NO_SETTINGS = JobSettings(job="any/job")
_OTHERS = {MODE_LABEL, AMBIGUOUS_LABEL, f"{LABEL_PREFIX}job"}


def is_set(settings: JobSettings, field: str) -> bool:
    """Return whether somebody set a field: it differs from what it is by itself, or they set it to just that."""
    return getattr(settings, field) != getattr(NO_SETTINGS, field) or field in (settings.given or ())


def source_of(settings: JobSettings, labels: Mapping[str, str], field: str) -> Source:
    """Return what decides a field: settings, a label, or the default of the job's engine."""
    if is_set(settings, field):
        return "settings"
    return "label" if getattr(in_force(settings, labels), field) != getattr(settings, field) else "default"


def in_force(settings: JobSettings, labels: Mapping[str, str]) -> JobSettings:
    """Return a job's settings with the limits of its labels where nobody set them."""
    read = _read(tuple(sorted(labels.items())))[0]
    wanted = {name: value for name, value in read.items() if not is_set(settings, name)}
    for fields in _TOGETHER if wanted else ():  # of an old record's one step, and of an objective, the rest is set too
        if any(is_set(settings, name) for name in fields - {"step_up_max", "step_down_max"}):
            wanted = {name: value for name, value in wanted.items() if name not in fields}
    return msgspec.structs.replace(settings, **wanted) if wanted else settings


def unreadable(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each label that says nothing: what it is, and why."""
    return _read(tuple(sorted(labels.items())))[1]


@lru_cache(maxsize=4_096)
def _read(labels: tuple[tuple[str, str], ...]) -> tuple[dict[str, object], tuple[str, ...]]:
    found: dict[str, object] = {}
    problems: list[str] = []
    for label, text in labels:
        if not label.startswith(LABEL_PREFIX) or label in _OTHERS:
            continue
        field = FIELDS.get(label.removeprefix(LABEL_PREFIX))
        if field is None:
            near = difflib.get_close_matches(label.removeprefix(LABEL_PREFIX), FIELDS, n=1)
            problems += [f"label {label} is no limit; {LABEL_PREFIX}{near[0]} is one"] if near else []
            continue
        try:
            found |= _value(field, text.strip())
        except (SettingsError, msgspec.ValidationError, ValueError) as error:
            why = " ".join(str(error).split()).partition(" - at ")[0]
            problems.append(f"label {label} is ignored: {text.strip()[:40]!r} cannot be read: {why}")
    return found, tuple(problems)


def _value(field: str, text: str) -> dict[str, object]:
    """Return what one label sets, by field.

    Raises:
        SettingsError, ValueError: it cannot be read.
    """
    parts = [part.strip() for part in text.split(SEPARATOR) if part.strip()]
    if field == "excluded":
        return {field: tuple(read_period(part) for part in parts)}
    if field == "tasks":
        return {field: {name: limits for name, limits in map(read_task, parts) if limits is not None}}
    if field == "objective":
        objective = read_objective(text)
        return {"latency_bound" if isinstance(objective, LatencyBound) else field: objective}
    given: object = text
    if words := _WORDS.get(field):
        if text.lower() not in words:
            raise ValueError(f"give {' or '.join(words)}")
        given = words[text.lower()]
    read = getattr(msgspec.convert({"job": "any/job", field: given}, JobSettings, strict=False), field)
    if read is None or (isinstance(read, float) and not math.isfinite(read)):
        raise ValueError("give a number")
    return {"step_up_max": read, "step_down_max": read} if field == "step_ratio_max" else {field: read}
