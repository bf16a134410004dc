"""A clock that stands where a test has put it."""

from dataclasses import dataclass


@dataclass(slots=True)
class SetClock:
    """It waits for nothing."""

    ms: int

    def now_ms(self) -> int:
        """Return the time."""
        return self.ms

    def wait(self, seconds: float) -> bool:
        """Return at once."""
        return False
