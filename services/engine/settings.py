"""Options of the engine process."""

from dataclasses import dataclass
from typing import Literal

from contracts.errors import SettingsError
from contracts.settings import RoadSettings

Pace = Literal["lockstep", "free"]

# In lockstep it is the waiting that paces; alone, an event minute takes a second.
DEFAULT_SPEEDS: dict[str, float] = {"lockstep": 6_000.0, "free": 60.0}


@dataclass(frozen=True, slots=True)
class EngineSettings(RoadSettings):
    """What the engine process runs, and how its clock moves."""

    engine_host: str = "127.0.0.1"
    """Address that the engine's API listens on; loopback unless monitor and rescaler run elsewhere."""
    pace: str = "lockstep"
    """lockstep: the clock waits at every stop for the road's answer; free: it runs."""
    speed: float = 0.0
    """Event seconds per second; 0: the pace's default."""
    span_minutes: int = 10
    """How often the policy decides; the clock stops at each span's end in lockstep."""
    stop_wait_s: float = 60.0
    """Wall limit of the wait at one stop; what is then missing is counted and no longer waited for."""
    use_kafka: bool = True
    """Publish the clock and read outcomes; free pace works without."""

    def __post_init__(self) -> None:
        """Refuse settings that contradict one another.

        Raises:
            SettingsError: names the setting and the fix.
        """
        RoadSettings.__post_init__(self)
        if self.pace not in DEFAULT_SPEEDS:
            raise SettingsError(f"pace: {self.pace!r} is neither lockstep nor free")
        if self.pace == "lockstep" and not self.use_kafka:
            raise SettingsError("pace: lockstep waits for answers on Kafka; with --bootstrap none, use --pace free")
        if self.span_minutes < 1:
            raise SettingsError(f"span_minutes: must be at least 1, not {self.span_minutes}")
        if self.speed < 0:
            raise SettingsError(f"speed: must be above 0, not {self.speed}")
        if self.stop_wait_s <= 0:
            raise SettingsError(f"stop_wait_s: must be above 0, not {self.stop_wait_s}")

    @property
    def clock_speed(self) -> float:
        """Return the speed in effect."""
        return self.speed or DEFAULT_SPEEDS[self.pace]
