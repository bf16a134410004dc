"""Settings of the engine process."""

from dataclasses import dataclass

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import SPEED_MAX, SPEED_MIN
from surescale.contracts.settings import PipelineSettings

# In lockstep, waiting sets the pace. In free pace, an event minute takes a second.
DEFAULT_SPEEDS: dict[str, float] = {"lockstep": 6_000.0, "free": 60.0}


@dataclass(frozen=True, slots=True)
class EngineSettings(PipelineSettings):
    """What the engine process reads besides the shared settings."""

    engine_host: str = "127.0.0.1"
    """Address that the engine's API listens on. Loopback is enough if monitor and rescaler run on the same host."""
    pace: str = "lockstep"
    """lockstep: the clock waits at every stop for the pipeline's answers; free: it never waits."""
    speed: float = 0.0
    """Event seconds per second. 0: the pace's default."""
    stop_wait_s: float = 60.0
    """Longest wait at one stop, in real seconds. Answers still missing then are counted as missed."""
    use_kafka: bool = True
    """Publish the clock and read outcomes. Free pace works without it."""

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            SettingsError: names the setting and the fix.
        """
        PipelineSettings.__post_init__(self)
        if self.pace not in DEFAULT_SPEEDS:
            raise SettingsError(f"pace: {self.pace!r} is neither lockstep nor free")
        if self.pace == "lockstep" and not self.use_kafka:
            raise SettingsError("pace: lockstep waits for answers on Kafka; with --bootstrap none, use --pace free")
        if self.speed and not SPEED_MIN <= self.speed <= SPEED_MAX:
            raise SettingsError(f"speed: must be between {SPEED_MIN} and {SPEED_MAX:g}, not {self.speed}")
        if self.stop_wait_s <= 0:
            raise SettingsError(f"stop_wait_s: must be above 0, not {self.stop_wait_s}")

    @property
    def clock_speed(self) -> float:
        """Return the speed in effect."""
        return self.speed or DEFAULT_SPEEDS[self.pace]
