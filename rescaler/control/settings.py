"""Settings of the rescaler's control. Every default is defined here or in `rescaler.gate_settings`, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from surescale.rescaler.gate_settings import GateSettings

WarmUpThen = Literal["elsewhere", "cold"]
BalanceVersion = Literal["V1", "V2", "off"]
PlacingAlgorithm = Literal["cetsa", "lba-ce", "spread"]
PLACING_ALGORITHMS: tuple[PlacingAlgorithm, ...] = get_args(PlacingAlgorithm)


@dataclass(frozen=True, slots=True)
class PlacingSettings:
    """How hosts are chosen."""

    algorithm: PlacingAlgorithm = "cetsa"
    """How hosts are chosen: by cost (cetsa, lba-ce), or evenly whatever they cost (spread)."""
    gain_min: float = 0.05
    """Share of a job's rent that a placement from scratch must save before running subtasks move to it."""
    state_gain_min: float = 0.1
    """Further share of the rent to save, multiplied by the share of the job's state that would move."""


@dataclass(frozen=True, slots=True)
class Balancing:
    """What moves when hosts join, leave or die, and how many copies of state are kept for that day."""

    version: BalanceVersion = "V2"
    """What moves when hosts come or go: V1 (to hosts that join), V2 (until all are in their band), off; by cost, what pays."""
    factor: str = "1"
    """Width of the band around a host's fair share, as a decimal; for placement spread."""
    units_max: int = 4
    """Most parallel units that may be on their way at once, over all jobs; 0: no limit."""
    standbys: int = 0
    """Copies of each parallel unit's state kept on other hosts."""


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How long things may take, and how hosts are chosen."""

    gate: GateSettings = field(default_factory=GateSettings)
    placing: PlacingSettings = field(default_factory=PlacingSettings)
    balancing: Balancing = field(default_factory=Balancing)
    apply_ms_max: int = 600_000
    """A command that has not ended after this has failed."""
    warm_up_ms_max: int = 600_000
    """Learners that are not ready after this are given up; 0: no learners, state is restored while the job is down."""
    warm_up_then: WarmUpThen = "elsewhere"
    """What to do after learners were given up: try other hosts (elsewhere), or rescale without learners (cold)."""
    preparations_max: int = 3
    """How often learners are started for one rescale. After that it goes on without them, or is abandoned if units were lost."""
    remember_ms: int = 86_400_000
    """How long a decision is remembered after its last outcome."""
