"""Settings of the state service."""

from dataclasses import dataclass

from contracts.errors import SettingsError
from contracts.settings import PORT_MAX, RoadSettings


@dataclass(frozen=True, slots=True)
class StateSettings(RoadSettings):
    """What the state service reads besides the road's settings."""

    http_host: str = "127.0.0.1"
    """Address that the HTTP API listens on."""
    http_port: int = 8070
    """Port of the HTTP API."""

    def __post_init__(self) -> None:
        """Refuse a port that is none.

        Raises:
            SettingsError: names the setting and the fix.
        """
        RoadSettings.__post_init__(self)
        if not 0 <= self.http_port <= PORT_MAX:
            raise SettingsError(
                f"http_port: {self.http_port} is no port; give one from 1 to {PORT_MAX} (SURESCALE_HTTP_PORT, --port)"
            )
