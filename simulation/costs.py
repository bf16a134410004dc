"""What it costs a simulated job to change: restarts, barriers, sizes of state and how fast hosts restore it. Values only."""

import math
from dataclasses import dataclass
from typing import Literal

from contracts.clock import MINUTE_MS
from simulation.queueing import STEP_MS
from simulation.refusals import RunError

RescaleMode = Literal["restart", "learners"]

RESTORE_BYTES_PER_S = 8 * 2**20  # of one host, in mode learners
RECORD_STATE_BYTES = 64  # by which a record served lets a task's state grow, in mode learners


@dataclass(frozen=True, slots=True)
class RestartCost:
    """What a rescale takes, and how large state is.

    By default every change is a restart of ``restart_ms``, whatever moves: so the policies were trained. In mode ``learners``
    state that was restored beforehand needs a barrier only; state that was not is restored while the job stands still.
    """

    restart_ms: int = MINUTE_MS
    """A cold change: stop, redistribute, start. A multiple of 15 s."""
    restore_bytes_per_s: float | None = None
    """Of one host, shared by all that restore there; None: at once."""
    state_bytes_per_vnode: int = 262_144
    """At the beginning of the run."""
    mode: RescaleMode = "restart"
    """restart: commands to prepare are answered and do nothing."""
    barrier_ms: int = 1_000
    """How long a job stands still when what moves is warm."""
    takeover_ms: int = 10_000
    """How long a job stands still when standbys take over from a host that died: until its death is noticed."""
    acceptable_lag_bytes: int = 1 << 20
    """A learner with no more than this to restore is ready."""
    state_bytes_per_record: int = 0
    """Growth of a stateful task's state with every record that it serves."""
    state_growth_max: float = 2.0
    """State grows up to this many times its size at the beginning: keys come again."""

    def __post_init__(self) -> None:
        """Check that a run can be made of these.

        Raises:
            RunError: names the field.
        """
        if self.restart_ms % STEP_MS or self.restart_ms < 0:
            raise RunError(f"restart_ms must be a multiple of {STEP_MS}, not {self.restart_ms}")
        if not 0 <= self.barrier_ms < MINUTE_MS:
            raise RunError(f"barrier_ms must be below {MINUTE_MS}, not {self.barrier_ms}")
        if not 0 <= self.takeover_ms < MINUTE_MS:
            raise RunError(f"takeover_ms must be below {MINUTE_MS}, not {self.takeover_ms}")
        if self.restore_bytes_per_s is not None and not 1 <= self.restore_bytes_per_s < math.inf:
            raise RunError(f"restore_bytes_per_s must be at least 1, and finite, not {self.restore_bytes_per_s}")
        if self.state_growth_max < 1:
            raise RunError(f"state_growth_max must be at least 1, not {self.state_growth_max}")

    def cold_ms(self, bytes_by_host: dict[str, int]) -> int:
        """Return how long a job is down when its hosts must restore so much, all at the same time, up to the next step."""
        if not self.restore_bytes_per_s:
            return self.restart_ms
        restore_ms = 1000.0 * max(bytes_by_host.values(), default=0) / self.restore_bytes_per_s
        return self.restart_ms + int(-(-restore_ms // STEP_MS)) * STEP_MS

    def restored_per_minute(self) -> int | None:
        """Return the bytes that one host restores in a minute; None: any number."""
        return None if self.restore_bytes_per_s is None else int(self.restore_bytes_per_s * 60)

    def vnode_bytes(self, records: int, vnodes: int) -> int:
        """Return what one virtual node of a stateful task holds after so many records."""
        first = self.state_bytes_per_vnode
        return min(first + records * self.state_bytes_per_record // vnodes, int(first * self.state_growth_max))


def with_learners(restart_ms: int = MINUTE_MS, restore_bytes_per_s: float = RESTORE_BYTES_PER_S) -> RestartCost:
    """Return the costs of an engine whose learners restore state before it moves."""
    return RestartCost(
        restart_ms=restart_ms,
        restore_bytes_per_s=restore_bytes_per_s,
        mode="learners",
        state_bytes_per_record=RECORD_STATE_BYTES,
    )


def chosen_cost(mode: str, restart_ms: int, restore_mib_per_s: float) -> RestartCost:
    """Return the costs that a command line names."""
    return with_learners(restart_ms, restore_mib_per_s * 2**20) if mode == "learners" else RestartCost(restart_ms=restart_ms)
