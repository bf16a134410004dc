"""Gates of a running and of a waiting job for tests, with short round times, and what they entered."""

from collections.abc import Iterable

from surescale.rescaler.gate import Gate, Mode, PhaseEntry, Target
from surescale.rescaler.gate_settings import GateSettings

SETTINGS = GateSettings(cooldown_ms=100, executing_stabilization_ms=200, waiting_stabilization_ms=50, max_delay_ms=400)
LONG_AGO = 10**9

# A gate that executes at parallelism 2, with a target of 3 to 4, is in Idling from 100 on while it has 2 slots.


def executing(slots: int = 2, settings: GateSettings = SETTINGS, lower: int = 3, upper: int = 4) -> Gate:
    """A gate of a running job with parallelism 2, at time 0."""
    targets = {"f": Target(lower, upper)}
    return Gate.start(settings, mode=Mode.EXECUTING, targets=targets, slots=slots, current={"f": 2}, now_ms=0)[0]


def waiting(slots: int = 0, settings: GateSettings = SETTINGS) -> Gate:
    """A gate of a job without tasks, at time 0."""
    return Gate.start(settings, mode=Mode.WAITING, targets={"f": Target(3, 4)}, slots=slots, now_ms=0)[0]


def entered(entries: Iterable[PhaseEntry]) -> list[tuple[int, str]]:
    """Time and phase of each entry."""
    return [(entry.at_ms, entry.phase.value) for entry in entries]
