"""What a state of the model consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from surescale.contracts.messages import ClusterTopology, JobTopology


class Seen(NamedTuple):
    """What the monitor has published."""

    hosts: ClusterTopology
    jobs: tuple[JobTopology, ...]


class Work(NamedTuple):
    """A command that an actuator carries out: its number and offset, and how far it is."""

    command: int
    offset: int
    requested: bool = False
    accepted: bool = False


ROUND = frozenset({"progress", "tick", "decision", "commit"})
"""Steps of a rescaler's round. Time passes when the active rescaler has none left."""
DOWN, FENCING, ACTIVE = range(3)
NOTHING = -1


class Process(NamedTuple):
    """A rescaler's process; everything here is lost in a crash."""

    phase: int = DOWN
    epoch: int = 0
    memory: int = NOTHING
    consumed: int = 0
    """Decisions read."""
    unsent: int = NOTHING
    """A round that is not committed yet: number of its commands and finals."""
    read: int = 0
    """Commands that the actuator has read."""
    carried_out: int = 0
    """Committed with that round: how far the actuator had come when it was made."""
    works: tuple[Work, ...] = ()
    told: tuple[int, ...] = ()
    """Reports of the actuator that its rescaler has not taken yet."""

    def position(self) -> int:
        """Return the first command that must be read again after a crash, as far as this process knows."""
        return min([work.offset for work in self.works] + [self.read])


class State(NamedTuple):
    """Everything: what Kafka holds, what runs, and what the engine is. Numbers are those of the pools."""

    now_ms: int
    """Within the first minute: see `Pools.earlier`."""
    lived_ms: int
    """By how much all times were set back, as far as the next decisions of the script depend on it."""
    epoch: int
    memory: int
    consumed: int
    finals: tuple[int, ...]
    """Last outcomes written, for each decision of the script that is not a repetition."""
    commands: tuple[int, ...]
    position: int
    """Committed offset of the actuators."""
    ends: tuple[str, ...]
    """What is on the topic about the end of each command: nothing, applied, failed, or several of these."""
    engine: int
    seen: int
    processes: tuple[Process, ...]
    faults: int


class Round(NamedTuple):
    """What one input of the controller leads to."""

    memory: int
    commands: tuple[int, ...] = ()
    finals: tuple[str, ...] = ()
    ends: tuple[tuple[str, str], ...] = ()
    """Ids of commands and how they ended."""


@dataclass(frozen=True, slots=True)
class Guards:
    """What keeps processes apart; a test takes one away and the search must notice."""

    fences: bool = True
    """A transaction of an older epoch is refused."""
    fences_before_reading: bool = True
    """A process that becomes active is the only writer before it reads the memory."""
    is_atomic: bool = True
    """Commands and memory are one transaction. Otherwise the commands are written first."""
    compares_commands: bool = True
    """An actuator carries out only what its own rescaler remembers as outstanding."""
    positions_in_transactions: bool = True
    """How far an actuator has come is written in its rescaler's transactions. Otherwise it writes that itself, at any time."""

    @property
    def keep_apart(self) -> bool:
        """States may be taken for one that differ in what these guards make no difference."""
        return self == Guards(positions_in_transactions=self.positions_in_transactions)
