"""Settings of the rescaler's process."""

from dataclasses import dataclass

from contracts.settings import RoadSettings
from rescaler.gate_settings import GateSettings
from rescaler.situation import ControlSettings


@dataclass(frozen=True, slots=True)
class RescalerSettings(RoadSettings):
    """What the road shares, and how long the rescaler lets things take (milliseconds of the road's clock)."""

    cooldown_ms: int = 30_000
    """Rest of a job after a rescale, counted from its end."""
    stabilization_ms: int = 60_000
    """How long a running job waits for more units when there are not enough for all of an act."""
    apply_ms_max: int = 600_000
    """A command that has not ended after this has failed."""
    session_ms: int = 6_000
    """Wall time after which Kafka gives a silent rescaler's partition to another process."""
    engine_timeout_ms: int = 5_000
    """Wall time that one call of the engine may take."""

    def control(self) -> ControlSettings:
        """What the pure core is given."""
        gate = GateSettings(cooldown_ms=self.cooldown_ms, executing_stabilization_ms=self.stabilization_ms)
        return ControlSettings(gate=gate, apply_ms_max=self.apply_ms_max)

    @property
    def group(self) -> str:
        """Consumer group and transactional id: one active rescaler per cluster (and topic prefix)."""
        return f"{self.topic_prefix}rescaler-{self.cluster}"
