"""What a simulated job was asked for and what became of it, and how it came through a host's death. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from simulation.changes import Tasks

HostOf = Mapping[int, str]
"""Host of every unit that exists."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """A command that the job accepted and what became of it.

    Attributes:
        command_id: of the command.
        desired_generation: of the command.
        effective_at_ms: when the job changes; of a ``prepare``, when its hosts begin to restore.
        done_at_ms: when the job runs again; of a ``prepare``, when its learners are ready, while ``warming`` an estimate.
        state: ``warming`` is a ``prepare`` under way.
        code: why it failed.
        learners: units that restore state for it.
        lag_bytes: what these have still to restore.
        units: of a ``prepare`` that failed: units that were lost, or were not ready in time.
    """

    command_id: str
    desired_generation: int
    effective_at_ms: int
    done_at_ms: int
    state: Literal["pending", "warming", "restarting", "done", "failed"] = "pending"
    code: str = ""
    learners: int = 0
    lag_bytes: int = 0
    units: tuple[int, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """Say whether the job is about to change or is changing; learners do not count."""
        return self.state in ("pending", "restarting")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A command to commit that has not taken effect yet."""

    rescale: Rescale
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class FailedOver:
    """What a job made of the death of a host.

    Attributes:
        is_taken_over: standbys stood in for every unit lost: nothing had to be restored or done again.
        records_again: records served since the last checkpoint, which are served again.
    """

    is_taken_over: bool = False
    records_again: int = 0
