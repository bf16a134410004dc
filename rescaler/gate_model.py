"""The words of the gate and its whole memory: modes, phases, targets, transitions, and the state that is stored. Values only.

What it does not do: move between phases (`rescaler.gate` does), or check parameters (`rescaler.gate_settings` does).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """Whether the job has running tasks."""

    WAITING = "waiting"
    EXECUTING = "executing"


class Phase(StrEnum):
    """Where the gate stands."""

    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


class Reason(StrEnum):
    """With what resources a transition goes."""

    FORCED = "forced"
    """There is no plan; the job goes, or fails, with what there is."""
    DESIRED = "desired"
    """Enough for every fragment's upper parallelism."""
    SUFFICIENT = "sufficient"
    """Enough for every fragment's lower parallelism."""


class Cause(StrEnum):
    """What made a transition start at just this moment."""

    MAX_DELAY = "max_delay"
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
    """A rescale that the gate has let through."""

    at_ms: int
    reason: Reason
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
    """Everything a gate remembers; plain data, to be stored and restored. A gate works on a copy of its own."""

    mode: Mode
    phase: Phase
    targets: dict[str, Target]
    slots: int
    current: dict[str, int] | None
    """Parallelism now; None while waiting."""
    now_ms: int
    """The latest time seen; the gate never goes back behind it."""
    created_at_ms: int
    """Start of the cooldown (executing) and of the wait for resources (waiting)."""
    entered_at_ms: int
    """Entry of the present phase."""
    change_seen: bool = False
    """Cooldown: a sufficient change was seen."""
    anchor_ms: int = 0
    """Stabilizing and Stabilized: entry of Stabilizing."""
    evaluation_at_ms: int | None = None
    """Stabilizing: when the evaluation timer fires; None: not armed."""
    failed_checkpoints: int = 0
    transition: Transition | None = None
    """Transitioning: what is being carried out."""


Entries = tuple[PhaseEntry, ...]
