"""The gate's values: modes, phases, targets, transitions, and the state it stores.

`rescaler.gate` moves between phases; `rescaler.gate_settings` checks parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """Whether the job has running tasks."""

    WAITING = "waiting"
    EXECUTING = "executing"


class Phase(StrEnum):
    """The gate's phase."""

    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


class GateReason(StrEnum):
    """The resources a transition starts with."""

    FORCED = "forced"
    """No plan: the job starts with what there is, or fails."""
    DESIRED = "desired"
    """Enough for every fragment's upper parallelism."""
    SUFFICIENT = "sufficient"
    """Enough for every fragment's lower parallelism."""


class Cause(StrEnum):
    """What started a transition."""

    MAX_DELAY = "max_delay"
    NO_DELAY = "no_delay"
    """The maximum delay has passed, and it is 0: no gate says so, but the command that comes of it."""
    CHECKPOINT_COMPLETED = "checkpoint_completed"
    CHECKPOINT_FAILURES = "checkpoint_failures"
    TRIGGER = "trigger"
    STABILIZATION_END = "stabilization_end"
    WAIT_TIMEOUT = "wait_timeout"


@dataclass(frozen=True, slots=True)
class Target:
    """Wanted parallelism of one fragment: ``upper`` is desired, ``lower`` is still worth starting."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 1 <= self.lower <= self.upper:
            raise ValueError(f"a target needs 1 <= lower <= upper, not lower={self.lower}, upper={self.upper}")


@dataclass(frozen=True, slots=True)
class Transition:
    """A rescale the gate has released."""

    at_ms: int
    reason: GateReason
    cause: Cause
    parallelism: dict[str, int] | None
    """Parallelism per fragment; None when forced without a plan."""


@dataclass(frozen=True, slots=True)
class PhaseEntry:
    """The gate entered a phase; ``transition`` is set exactly for Transitioning."""

    at_ms: int
    mode: Mode
    phase: Phase
    transition: Transition | None = None


@dataclass(slots=True)
class GateState:
    """Everything a gate remembers, as plain data to store and restore. A gate works on its own copy."""

    mode: Mode
    phase: Phase
    targets: dict[str, Target]
    slots: int
    current: dict[str, int] | None
    """Current parallelism; None while waiting."""
    now_ms: int
    """The latest time seen; the gate never goes back before it."""
    created_at_ms: int
    """Start of the cooldown (executing) and of the wait for resources (waiting)."""
    entered_at_ms: int
    """When the current phase was entered."""
    change_seen: bool = False
    """Cooldown: a sufficient change was seen."""
    anchor_ms: int = 0
    """Stabilizing and Stabilized: when Stabilizing was entered."""
    evaluation_at_ms: int | None = None
    """Stabilizing: when the evaluation timer fires; None: not armed."""
    failed_checkpoints: int = 0
    transition: Transition | None = None
    """Transitioning: the rescale under way."""


Entries = tuple[PhaseEntry, ...]
