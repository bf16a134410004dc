"""Settings of the state service."""

from dataclasses import dataclass

from contracts.settings import RoadSettings


@dataclass(frozen=True, slots=True)
class StateSettings(RoadSettings):
    """What the state service reads besides the road's settings."""

    http_host: str = "127.0.0.1"
    """Address that the HTTP API listens on."""
    http_port: int = 8070
    """Port of the HTTP API."""
