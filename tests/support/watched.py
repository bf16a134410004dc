"""Watchdogs for tests: one that watches nothing, and one whose time a test moves."""

import logging
from dataclasses import dataclass, field

from surescale.runtime.watchdog import LOOK_EVERY_S, Watchdog


def idle_watchdog(role: str = "test") -> Watchdog:
    """Return a watchdog that is off."""
    return Watchdog(role, 0, logging.getLogger("test"))


@dataclass
class WatchedTime:
    """Time that a test moves, and the watchdog of a role ``agent`` in it, which notices a hang after two minutes."""

    now_s: float = 1_000.0
    ended: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the watchdog; where it would end the process, it notes the exit code."""
        self.watchdog = Watchdog("agent", 120, logging.getLogger("test"), now_s=lambda: self.now_s, end=self.ended.append)

    def run(self, seconds: float) -> None:
        """Let time pass as in a process that runs: the watchdog looks every second, until it has ended the process."""
        for _ in range(round(seconds / LOOK_EVERY_S)):
            self.now_s += LOOK_EVERY_S
            if not self.ended:
                self.watchdog.look()

    def suspend(self, seconds: float) -> None:
        """Let time pass while nothing of the process runs."""
        self.now_s += seconds
