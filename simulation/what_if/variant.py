"""What is tried: a policy with settings and a price. Knows which settings a closed loop plays."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import msgspec

from contracts.job_settings import ExcludedPeriod, JobSettings, TaskLimits
from policies.policy import Policy
from policies.rules.forecast import ForecastRule
from policies.sizing import Sizing
from simulation.what_if.scenario import WhatIfError

PLAYED = (
    "parallelism_min",
    "parallelism_max",
    "total_limit",
    "step_ratio_max",
    "step_up_max",
    "step_down_max",
    "tasks",
    "backlog_hold_minutes",
    "excluded",
    "align",
    "catch_up_minutes",
    "restart_seconds",
    "objective",
    "latency_bound",
    "minutes_known_min",
    "emergency_growth",
    "calibrated_spread",
    "utilisation",
)
"""Settings that policies and guardrails read. What the rescaler reads (limits a day, pauses, modes) is not played."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to try.

    Attributes:
        label: as people named it.
        policy: decides at the end of every span.
        settings: of the job.
        price: dollars per subtask and hour; None: unknown.
    """

    label: str
    policy: Policy
    settings: JobSettings
    price: float | None


def with_utilisation(policy: Policy, utilisation: float) -> Policy:
    """Return a rule that aims at this share of its subtasks' time.

    Raises:
        WhatIfError: the policy has no target, or no task can be that busy.
    """
    if not 0.0 < utilisation <= 1.0:
        raise WhatIfError(f"utilisation={utilisation:g}: give a share above 0 and up to 1, e.g. 0.7")
    changed: Any = None
    if isinstance(policy, ForecastRule):
        sizing = msgspec.structs.replace(policy.base.sizing, utilisation=utilisation)
        changed = replace(policy, base=msgspec.structs.replace(policy.base, sizing=sizing))
    elif is_dataclass(policy) and not isinstance(policy, type):
        names = {field.name for field in fields(policy)}
        if isinstance(sizing := getattr(policy, "sizing", None), Sizing):
            changed = replace(policy, sizing=msgspec.structs.replace(sizing, utilisation=utilisation))
        else:
            name = next((name for name in ("utilisation", "target") if name in names), None)
            changed = replace(policy, **{name: utilisation}) if name else None
    if changed is None:
        raise WhatIfError(
            f"utilisation: {policy.name} has no target utilisation; try objective=cost or objective=latency, "
            "or a rule that has one"
        )
    found: Policy = changed
    return found


def with_settings(settings: JobSettings, changes: dict[str, object]) -> JobSettings:
    """Return settings with some fields changed.

    Raises:
        WhatIfError: a value is none that the field can have, or the bounds contradict each other.
    """
    for name in changes:
        if name not in PLAYED:
            raise WhatIfError(f"{name}: a what-if does not play this setting, since the rescaler reads it, not the policy")
    try:
        wanted = {**msgspec.to_builtins(settings), **changes}
        found = msgspec.convert({name: value for name, value in wanted.items() if value is not msgspec.UNSET}, JobSettings)
    except msgspec.ValidationError as error:
        what, _, at = " ".join(str(error).split()).replace("`", "").partition(" - at $.")
        raise WhatIfError(f"{at}: {what[0].lower()}{what[1:]}" if at else what) from None
    _check_parts("tasks", changes.get("tasks"), TaskLimits)
    _check_parts("excluded", changes.get("excluded"), ExcludedPeriod)
    if found.parallelism_max is not None and found.parallelism_min > found.parallelism_max:
        raise WhatIfError(f"parallelism_min={found.parallelism_min}: above parallelism_max={found.parallelism_max}")
    return found


def _check_parts(field: str, given: object, kind: type[TaskLimits] | type[ExcludedPeriod]) -> None:
    """Refuse a part with a field that its kind does not have; records may have new fields, but people mistype them."""
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    for part in parts:
        unknown = sorted(set(part) - set(kind.__struct_fields__)) if isinstance(part, dict) else []
        if unknown:
            raise WhatIfError(f"{field}: there is no field {unknown[0]!r}; known: {', '.join(kind.__struct_fields__)}")


def not_played(settings: JobSettings) -> tuple[str, ...]:
    """Return the settings of a job that differ from their defaults and that the closed loop leaves out."""
    plain = JobSettings(job=settings.job)
    named = ("scale_down_after_minutes", "rescales_a_day_max", "block_ineffective", "cpu_limit", "memory_limit", "pause")
    return tuple(name for name in named if getattr(settings, name) != getattr(plain, name))
