"""What the rescaler's health endpoint tells."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from rescaler.control.controller import Effects

State = Literal["starting", "standby", "active"]


class Status:
    """State and counters of the process; loop and actuator write, the health endpoint reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.state: State = "starting"

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name] += by

    def count_effects(self, effects: Effects) -> None:
        """Count what was committed."""
        for outcome in effects.outcomes:
            self.count(f"outcomes_{outcome.status}")
        self.count("commands", len(effects.commands))
        self.count("duplicates", effects.duplicates)
        self.count("transactions")

    def report(self) -> Mapping[str, Any]:
        """The health document. A process that waits in case the active one fails is well, but not ready."""
        with self._lock:
            counts = dict(sorted(self._counts.items()))
        return {"role": "rescaler", "ready": self.state == "active", "state": self.state, **counts}
