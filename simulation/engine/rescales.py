"""A simulated job's commands and their progress, and the outcome of a failover. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from simulation.engine.checked_changes import Tasks

HostOf = Mapping[int, str]
"""The host of every existing unit."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """An accepted command and its progress.

    Attributes:
        command_id: of the command.
        desired_generation: of the command.
        effective_at_ms: when the job changes; for a ``prepare``, when its hosts start to restore.
        done_at_ms: when the job runs again; for a ``prepare``, when its learners are ready, an estimate while ``warming``.
        state: ``warming`` means a ``prepare`` under way.
        code: why it failed.
        learners: number of units that restore state for it.
        lag_bytes: state that they still have to restore.
        units: for a failed ``prepare``, the units that were lost or not ready in time.
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
        """Return whether the job is about to change or changing; learners do not count."""
        return self.state in ("pending", "restarting")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A commit that has not taken effect yet."""

    rescale: Rescale
    tasks: Tasks


@dataclass(frozen=True, slots=True)
class FailedOver:
    """How a job survived the death of a host.

    Attributes:
        is_taken_over: standbys replaced every lost unit, so nothing had to be restored or repeated.
        records_again: records served since the last checkpoint, which will be served again.
    """

    is_taken_over: bool = False
    records_again: int = 0
