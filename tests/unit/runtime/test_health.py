"""The health port: what is said when it cannot be had."""

import socket

import pytest

from contracts.errors import SettingsError
from contracts.settings import RoadSettings
from runtime.health import HealthServer


def test_a_port_that_is_taken_is_one_line_with_the_setting() -> None:
    """And not the operating system's number alone."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        says = rf"^SURESCALE_HEALTH_PORT: 127\.0\.0\.1:{port} cannot be listened on \(address already in use\); name another"
        with pytest.raises(SettingsError, match=says):
            HealthServer(RoadSettings(health_port=port), lambda: {"ready": True})
