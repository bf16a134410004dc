"""The gate's parameters: names, defaults, limits, and former names (FLIP-461, FLIP-472).

`resolve` turns a mapping of names to values into `GateSettings`, with a warning for each former name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from surescale.rescaler.refusals import Refused

WAIT_TIMEOUT = "submission.resource-wait-timeout"
WAITING_STABILIZATION = "submission.resource-stabilization-timeout"
COOLDOWN = "executing.cooldown-after-rescaling"
EXECUTING_STABILIZATION = "executing.resource-stabilization-timeout"
MAX_DELAY = "rescale-trigger.max-delay"
MAX_CHECKPOINT_FAILURES = "rescale-trigger.max-checkpoint-failures"
CHECKPOINT_INTERVAL = "checkpoint-interval"


class ParamRefusal(StrEnum):
    """Why a set of parameters was refused."""

    UNKNOWN_PARAM = "UNKNOWN_PARAM"
    INVALID_PARAM = "INVALID_PARAM"


class Effect(StrEnum):
    """What happened to an old name."""

    FALLBACK = "fallback"
    """Its value is used: the new name is absent or null."""
    OVERRIDDEN = "overridden"
    """The new name is set and wins."""
    IGNORED = "ignored"
    """The value no longer has a meaning."""


@dataclass(frozen=True, slots=True)
class ParamWarning:
    """An old name was used."""

    name: str
    """The old name as given."""
    use: str | None
    """The name to use now; None: no successor."""
    effect: Effect


@dataclass(frozen=True, slots=True)
class GateSettings:
    """All durations of one gate, in milliseconds."""

    wait_timeout_ms: int = 300_000
    """How long a waiting job may wait for resources before it starts with what there is; negative: forever."""
    waiting_stabilization_ms: int = 10_000
    """Stabilization while the job has no running tasks."""
    cooldown_ms: int = 30_000
    """Rest of a job after a rescale, counted from its end."""
    executing_stabilization_ms: int = 60_000
    """How long a running job waits for more units when there are too few for all of an act."""
    max_delay_ms: int | None = None
    """How long a possible rescale waits for a checkpoint; None: derived from the checkpoint interval."""
    max_checkpoint_failures: int = 2
    """How many failed checkpoints count as a trigger."""
    checkpoint_interval_ms: int | None = None
    """None: the job takes no checkpoints."""

    @property
    def trigger_delay_ms(self) -> int:
        """The maximum delay in force: as set, else ``interval * (failures + 1)``, else 0 without checkpoints."""
        if self.max_delay_ms is not None:
            return self.max_delay_ms
        if self.checkpoint_interval_ms is None:
            return 0
        return self.checkpoint_interval_ms * (self.max_checkpoint_failures + 1)


@dataclass(frozen=True, slots=True)
class _Param:
    attribute: str
    minimum: int | None
    nullable: bool = False


_PARAMS: dict[str, _Param] = {
    WAIT_TIMEOUT: _Param("wait_timeout_ms", None),
    WAITING_STABILIZATION: _Param("waiting_stabilization_ms", 0),
    COOLDOWN: _Param("cooldown_ms", 0),
    EXECUTING_STABILIZATION: _Param("executing_stabilization_ms", 0),
    MAX_DELAY: _Param("max_delay_ms", 0, nullable=True),
    MAX_CHECKPOINT_FAILURES: _Param("max_checkpoint_failures", 1),
    CHECKPOINT_INTERVAL: _Param("checkpoint_interval_ms", 1, nullable=True),
}

_FALLBACKS: dict[str, str] = {
    "resource-wait-timeout": WAIT_TIMEOUT,
    "resource-stabilization-timeout": WAITING_STABILIZATION,
    "scaling-interval.min": COOLDOWN,
    "max-delay-for-scale-trigger": MAX_DELAY,
    "scale-on-failed-checkpoints-count": MAX_CHECKPOINT_FAILURES,
}

_IGNORED: dict[str, str | None] = {
    "scaling-interval.max": EXECUTING_STABILIZATION,
    "min-parallelism-increase": None,
}

PARAM_NAMES: tuple[str, ...] = tuple(_PARAMS)
"""Every current name."""

OLD_NAMES: dict[str, str | None] = {**_FALLBACKS, **_IGNORED}
"""Every old name and the one that replaced it."""


def resolve(params: Mapping[str, object]) -> tuple[GateSettings, tuple[ParamWarning, ...]]:
    """Return settings from named values, and a warning for each old name present, in the order of `OLD_NAMES`.

    Raises `Refused`: ``UNKNOWN_PARAM`` for an unknown name, ``INVALID_PARAM`` for a value that is not an integer in range,
    or null where null is not allowed. Values of ignored and overridden names are not checked. If a new name is null, its old name
    counts, if present.
    """
    _refuse_unknown(params)
    warnings = tuple(_warning(old, params) for old in OLD_NAMES if old in params)
    given = {name: name for name in _PARAMS if name in params}
    given |= {w.use: w.name for w in warnings if w.effect is Effect.FALLBACK and w.use is not None}
    values = {_PARAMS[name].attribute: _checked(_PARAMS[name], source, params[source]) for name, source in given.items()}
    return GateSettings(**values), warnings  # type: ignore[arg-type]  # None only where nullable


def _refuse_unknown(params: Mapping[str, object]) -> None:
    for name in params:
        if name not in _PARAMS and name not in OLD_NAMES:
            known = ", ".join(PARAM_NAMES)
            raise Refused(ParamRefusal.UNKNOWN_PARAM, f"{name!r} is not a parameter; known: {known}", {"field": name})


def _warning(old: str, params: Mapping[str, object]) -> ParamWarning:
    if old in _IGNORED:
        return ParamWarning(old, _IGNORED[old], Effect.IGNORED)
    new = _FALLBACKS[old]
    return ParamWarning(old, new, Effect.FALLBACK if params.get(new) is None else Effect.OVERRIDDEN)


def _checked(param: _Param, name: str, value: object) -> int | None:
    if value is None and param.nullable:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and (param.minimum is None or value >= param.minimum):
        return value
    wanted = "an integer" if param.minimum is None else f"an integer of at least {param.minimum}"
    wanted += " or null" if param.nullable else ""
    raise Refused(ParamRefusal.INVALID_PARAM, f"{name} must be {wanted}, not {value!r}", {"field": name})
