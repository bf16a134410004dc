"""Learners: units that restore the state which they will own, while those that own it now keep serving. Pure state.

A host restores at a finite rate, first come, first served. Meanwhile the owners go on: what they write is to be restored as well,
so a learner's lag shrinks by what its host reads and grows by what its tasks do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulation.changes import Tasks, units_of

READY_KEPT_MS = 600_000  # how long after its deadline a ready preparation waits for its commit


@dataclass(slots=True)
class Learner:
    """One subtask to be.

    Attributes:
        task: whose state it restores.
        unit: where it will run.
        host: of the unit.
        vnodes: virtual nodes to restore from other hosts.
        lag_bytes: what is still missing.
    """

    task: str
    unit: int
    host: str
    vnodes: int
    lag_bytes: int


@dataclass(slots=True)
class Preparation:
    """What a command to prepare has begun.

    Attributes:
        command_id: of the command.
        tasks: the job as it will be.
        learners: in order of task and unit; none where no state moves between hosts.
        begins_at_ms: from when on the hosts restore.
        deadline_ms: when what is not ready is given up; None: never.
    """

    command_id: str
    tasks: Tasks
    learners: tuple[Learner, ...]
    begins_at_ms: int
    deadline_ms: int | None

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job will be on."""
        return units_of(self.tasks)

    @property
    def lag_bytes(self) -> int:
        """Return what all learners together have still to restore."""
        return sum(learner.lag_bytes for learner in self.learners)

    def is_ready(self, acceptable_bytes: int) -> bool:
        """Say whether every learner is close enough to take over."""
        return all(learner.lag_bytes <= acceptable_bytes for learner in self.learners)

    def unready_units(self, acceptable_bytes: int) -> tuple[int, ...]:
        """Return the units whose learners are too far behind."""
        return tuple(sorted({learner.unit for learner in self.learners if learner.lag_bytes > acceptable_bytes}))

    def written(self, bytes_per_vnode: Mapping[str, int]) -> None:
        """Let the tasks have written so much per virtual node since the last time."""
        for learner in self.learners:
            learner.lag_bytes += learner.vnodes * bytes_per_vnode.get(learner.task, 0)

    def ready_after_minutes(self, per_minute: int | None) -> int:
        """Return how many minutes its hosts need if they restore nothing else; an estimate."""
        by_host = lag_by_host(self.learners)
        return 0 if per_minute is None else max((-(-lag // per_minute) for lag in by_host.values()), default=0)


def lag_by_host(learners: Iterable[Learner]) -> dict[str, int]:
    """Return what each host has still to restore."""
    found: dict[str, int] = {}
    for learner in learners:
        found[learner.host] = found.get(learner.host, 0) + learner.lag_bytes
    return found


def restore(asking: Iterable[Iterable[Learner]], per_minute: int | None) -> None:
    """Let one minute pass on every host; those who ask first are served first."""
    left: dict[str, int] = {}
    for learners in asking:
        for learner in learners:
            budget = left.setdefault(learner.host, learner.lag_bytes if per_minute is None else per_minute)
            done = learner.lag_bytes if per_minute is None else min(budget, learner.lag_bytes)
            left[learner.host] = budget - done
            learner.lag_bytes -= done
