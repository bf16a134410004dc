"""The cost of changing a simulated job: restarts, barriers, size of state, and how fast hosts restore it. Values only."""

import math
from dataclasses import dataclass
from typing import Literal

from surescale.contracts.clock import MINUTE_MS
from surescale.simulation.errors import RunError
from surescale.simulation.model.queueing import STEP_MS
from surescale.simulation.model.worlds import CALM, World

RescaleMode = Literal["restart", "learners"]

RESTORE_BYTES_PER_S = 8 * 2**20  # per host, in mode learners
RECORD_STATE_BYTES = 64  # a task's state grows by this much per record served, in mode learners


@dataclass(frozen=True, slots=True)
class RestartCost:
    """How long a rescale takes, and how large state is.

    By default every change is a restart of ``restart_ms``, whatever moves; the policies were trained this way. In mode
    ``learners``, state that was restored beforehand needs only a barrier; other state is restored while the job is down.
    """

    restart_ms: int = MINUTE_MS
    """A cold change: stop, redistribute, start. A multiple of 15 s, or less than that."""
    restore_bytes_per_s: float | None = None
    """Per host, shared by everything it restores; None: at once."""
    state_bytes_per_vnode: int = 262_144
    """At the start of the run."""
    mode: RescaleMode = "restart"
    """restart: ``prepare`` commands are answered but do nothing."""
    barrier_ms: int = 1_000
    """How long a job is down if all moving state is warm."""
    takeover_ms: int = 10_000
    """How long a job is down when standbys take over from a dead host: until its death is noticed."""
    acceptable_lag_bytes: int = 1 << 20
    """A learner with at most this much left to restore is ready."""
    state_bytes_per_record: int = 0
    """Growth of a stateful task's state per record served."""
    state_growth_max: float = 2.0
    """State grows to at most this many times its starting size: keys repeat."""

    def __post_init__(self) -> None:
        """Check that a run is possible with these values.

        Raises:
            RunError: names the field.
        """
        if self.restart_ms < 0 or (self.restart_ms > STEP_MS and self.restart_ms % STEP_MS):
            raise RunError(f"restart_ms must be below {STEP_MS} or a multiple of it, not {self.restart_ms}")
        if not 0 <= self.barrier_ms < MINUTE_MS:
            raise RunError(f"barrier_ms must be below {MINUTE_MS}, not {self.barrier_ms}")
        if not 0 <= self.takeover_ms < MINUTE_MS:
            raise RunError(f"takeover_ms must be below {MINUTE_MS}, not {self.takeover_ms}")
        if self.restore_bytes_per_s is not None and not 1 <= self.restore_bytes_per_s < math.inf:
            raise RunError(f"restore_bytes_per_s must be at least 1, and finite, not {self.restore_bytes_per_s}")
        if self.state_growth_max < 1:
            raise RunError(f"state_growth_max must be at least 1, not {self.state_growth_max}")

    def cold_ms(self, bytes_by_host: dict[str, int]) -> int:
        """Return how long a job is down if its hosts restore this much at the same time, rounded up to a step."""
        if not self.restore_bytes_per_s:
            return self.restart_ms
        restore_ms = 1000.0 * max(bytes_by_host.values(), default=0) / self.restore_bytes_per_s
        return self.restart_ms + int(-(-restore_ms // STEP_MS)) * STEP_MS

    def restored_per_minute(self) -> int | None:
        """Return the bytes that one host restores in a minute; None: no limit."""
        return None if self.restore_bytes_per_s is None else int(self.restore_bytes_per_s * 60)

    def vnode_bytes(self, records: int, vnodes: int) -> int:
        """Return the size of one virtual node of a stateful task after a number of records."""
        first = self.state_bytes_per_vnode
        return min(first + records * self.state_bytes_per_record // vnodes, int(first * self.state_growth_max))


def with_learners(restart_ms: int = MINUTE_MS, restore_bytes_per_s: float = RESTORE_BYTES_PER_S) -> RestartCost:
    """Return the costs of an engine with learners that restore state before it moves."""
    return RestartCost(
        restart_ms=restart_ms,
        restore_bytes_per_s=restore_bytes_per_s,
        mode="learners",
        state_bytes_per_record=RECORD_STATE_BYTES,
    )


def chosen_cost(mode: str, restart_ms: int | None, restore_mib_per_s: float, world: World = CALM) -> RestartCost:
    """Return the costs that the command line asks for; without ``restart_ms``, a restart takes what it takes in the world."""
    restart_ms = world.restart_ms if restart_ms is None else restart_ms
    return with_learners(restart_ms, restore_mib_per_s * 2**20) if mode == "learners" else RestartCost(restart_ms=restart_ms)
