"""Learners: units that restore state they will own while its present owners keep serving. Pure state.

A host restores at a finite rate, first come, first served. Meanwhile the owners keep writing, and those bytes must be restored
too: a learner's lag shrinks by what its host reads and grows by what its task writes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulation.engine.checked_changes import Tasks, units_of

READY_KEPT_MS = 600_000  # a ready preparation waits this long after its deadline for its commit


@dataclass(slots=True)
class Learner:
    """A future subtask.

    Attributes:
        task: the task whose state it restores.
        unit: where it will run.
        host: the unit's host.
        vnodes: virtual nodes to restore from other hosts.
        lag_bytes: state still missing.
    """

    task: str
    unit: int
    host: str
    vnodes: int
    lag_bytes: int


@dataclass(slots=True)
class Preparation:
    """What a ``prepare`` command started.

    Attributes:
        command_id: of the command.
        tasks: the job as it will be.
        learners: in order of task and unit; none where no state moves between hosts.
        begins_at_ms: when the hosts start to restore.
        deadline_ms: when learners that are not ready are given up; None: never.
    """

    command_id: str
    tasks: Tasks
    learners: tuple[Learner, ...]
    begins_at_ms: int
    deadline_ms: int | None

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job will run on."""
        return units_of(self.tasks)

    @property
    def lag_bytes(self) -> int:
        """Return the bytes that all learners together still have to restore."""
        return sum(learner.lag_bytes for learner in self.learners)

    def is_ready(self, acceptable_bytes: int) -> bool:
        """Return whether every learner is close enough to take over."""
        return all(learner.lag_bytes <= acceptable_bytes for learner in self.learners)

    def unready_units(self, acceptable_bytes: int) -> tuple[int, ...]:
        """Return the units whose learners are too far behind."""
        return tuple(sorted({learner.unit for learner in self.learners if learner.lag_bytes > acceptable_bytes}))

    def written(self, bytes_per_vnode: Mapping[str, int]) -> None:
        """Add the bytes that each task wrote per virtual node since the last call."""
        for learner in self.learners:
            learner.lag_bytes += learner.vnodes * bytes_per_vnode.get(learner.task, 0)

    def ready_after_minutes(self, per_minute: int | None) -> int:
        """Return an estimate of the minutes its hosts need if they restore nothing else."""
        by_host = lag_by_host(self.learners)
        return 0 if per_minute is None else max((-(-lag // per_minute) for lag in by_host.values()), default=0)


def lag_by_host(learners: Iterable[Learner]) -> dict[str, int]:
    """Return the bytes that each host still has to restore."""
    found: dict[str, int] = {}
    for learner in learners:
        found[learner.host] = found.get(learner.host, 0) + learner.lag_bytes
    return found


def restore(asking: Iterable[Iterable[Learner]], per_minute: int | None) -> None:
    """Let every host restore for one minute, first come, first served."""
    left: dict[str, int] = {}
    for learners in asking:
        for learner in learners:
            budget = left.setdefault(learner.host, learner.lag_bytes if per_minute is None else per_minute)
            done = learner.lag_bytes if per_minute is None else min(budget, learner.lag_bytes)
            left[learner.host] = budget - done
            learner.lag_bytes -= done
