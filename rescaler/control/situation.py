"""What one job's control is told of the world, and the ledger it writes into. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from contracts.commands import Outcome, RescheduleCommand
from contracts.messages import Host, JobSettings, JobTopology
from rescaler.control.memory import RequestMemory
from rescaler.control.placing import PlacingSettings
from rescaler.gate_settings import GateSettings

WarmUpThen = Literal["elsewhere", "cold"]
BalanceVersion = Literal["V1", "V2", "off"]


@dataclass(frozen=True, slots=True)
class Balancing:
    """What follows hosts that join, leave or die, and what is kept for the day on which one does."""

    version: BalanceVersion = "V2"
    """V1: units move to hosts that join only; V2: until every host is in its band; off: nothing moves."""
    factor: str = "1"
    """How wide the band around a host's fair share is (`rescaler.learners`), as a decimal."""
    units_max: int | None = 4
    """Parallel units on their way at one time over all jobs; None: no limit."""
    standbys: int = 0
    """Copies of each unit's state kept on other hosts."""


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How long things may take, and how hosts are chosen."""

    gate: GateSettings = field(default_factory=GateSettings)
    """Cooldown, stabilization and triggers of every job."""
    placing: PlacingSettings = field(default_factory=PlacingSettings)
    """How hosts are chosen."""
    apply_ms_max: int = 600_000
    """A command that has not ended after this has failed."""
    warm_up_ms_max: int = 600_000
    """Learners that are not ready after this are given up; 0: no learners, state is restored while the job stands still."""
    warm_up_then: WarmUpThen = "elsewhere"
    """What follows learners that were given up: others on other hosts, or the change without them."""
    preparations_max: int = 3
    """So often learners are begun for one rescale; after that it is done cold or, where units were lost, given up."""
    remember_ms: int = 86_400_000
    """How long a decision is known by its id after its last outcome."""
    balancing: Balancing = field(default_factory=Balancing)
    """What follows hosts that come and go."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the world looks like to one job."""

    now_ms: int
    topology: JobTopology | None
    settings: JobSettings
    hosts: tuple[Host, ...]
    placement_generation: int
    taken: Callable[[], frozenset[int]]
    """Units of all other jobs; worked out only when asked for."""
    heard_ms: int | None = None
    """When what happened at ``now_ms`` was heard of, where that was later."""


@dataclass(slots=True)
class Ledger:
    """What follows from one input, in order."""

    outcomes: list[Outcome] = field(default_factory=list)
    commands: list[RescheduleCommand] = field(default_factory=list)
    requests: dict[str, RequestMemory | None] = field(default_factory=dict)
    """Decisions answered (or, None, forgotten) by id."""
    duplicates: int = 0
    commits: int = 0
    """Commands now known to be carried out."""
    avoided_hosts: set[str] = field(default_factory=set)
    """Hosts on which learners of a balance took too long."""
