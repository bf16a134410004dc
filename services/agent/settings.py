"""Settings of the agent."""

from dataclasses import dataclass

from contracts.settings import RoadSettings


@dataclass(frozen=True, slots=True)
class AgentSettings(RoadSettings):
    """What the agent reads besides the road's settings."""

    agent_session_ms: int = 6_000
    """How long Kafka waits for a silent agent before another one takes its partitions."""
