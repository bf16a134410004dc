"""Settings of the rescaler's process."""

from dataclasses import dataclass

from contracts.errors import SettingsError
from contracts.settings import RoadSettings
from rescaler.control.placing import PLACING_ALGORITHMS, PlacingAlgorithm, PlacingSettings
from rescaler.control.situation import ControlSettings
from rescaler.gate_settings import GateSettings


@dataclass(frozen=True, slots=True)
class RescalerSettings(RoadSettings):
    """What the road shares, how long things may take (milliseconds of the road's clock), and how hosts are chosen."""

    cooldown_ms: int = 30_000
    """Rest of a job after a rescale, counted from its end."""
    stabilization_ms: int = 60_000
    """How long a running job waits for more units when there are not enough for all of an act."""
    apply_ms_max: int = 600_000
    """A command that has not ended after this has failed."""
    placement: PlacingAlgorithm = "cetsa"
    """How hosts are chosen: by cost (cetsa, lba-ce), or evenly whatever they cost (spread)."""
    placement_gain_min: float = PlacingSettings().gain_min
    """Share of a job's rent that must be saved before running subtasks move to cheaper hosts."""
    session_ms: int = 6_000
    """Wall time after which Kafka gives a silent rescaler's partition to another process."""
    engine_timeout_ms: int = 5_000
    """Wall time that one call of the engine may take."""

    def __post_init__(self) -> None:
        """Check what the environment may have said.

        Raises:
            SettingsError: no such placement, or a gain that is no share.
        """
        if self.placement not in PLACING_ALGORITHMS:
            known = ", ".join(PLACING_ALGORITHMS)
            raise SettingsError(f"SURESCALE_PLACEMENT: there is no placement {self.placement!r}; known: {known}")
        if not 0.0 <= self.placement_gain_min <= 1.0:
            raise SettingsError(f"SURESCALE_PLACEMENT_GAIN_MIN: {self.placement_gain_min} is not within 0 to 1")

    def control(self) -> ControlSettings:
        """What the pure core is given."""
        gate = GateSettings(cooldown_ms=self.cooldown_ms, executing_stabilization_ms=self.stabilization_ms)
        placing = PlacingSettings(self.placement, self.placement_gain_min)
        return ControlSettings(gate=gate, placing=placing, apply_ms_max=self.apply_ms_max)

    @property
    def group(self) -> str:
        """Consumer group and transactional id: one active rescaler per cluster (and topic prefix)."""
        return f"{self.topic_prefix}rescaler-{self.cluster}"
