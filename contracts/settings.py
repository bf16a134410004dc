"""Settings of the road and its roles, grouped; meaning, unit and default stand at each field.

Every role reads them from environment variables ``SURESCALE_<FIELD>`` (upper case); command-line options win over them.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar, get_type_hints
from urllib.parse import urlsplit, urlunsplit

from contracts.errors import SettingsError

S = TypeVar("S", bound="RoadSettings")

PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class RoadSettings:
    """What every role of one road shares."""

    bootstrap: str = "127.0.0.1:9092"
    """Kafka bootstrap servers, host:port separated by commas."""
    topic_prefix: str = ""
    """Stands before every topic name; a replay has its own."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    """Where the views live."""
    cluster: str = "sim"
    """Cluster whose jobs this rescaler and monitor serve."""
    road: str = "main"
    """Name of the road; key of its clock."""
    engine_url: str = "http://127.0.0.1:8090"
    """Engine API: the monitor's source and the rescaler's actuator are its only clients."""
    window_minutes: int = 60
    """L: snapshots in a window."""
    allowed_lateness_ms: int = 5_000
    """How far behind a job's highest event time its minute stays open when no marker closes it."""
    ahead_of_clock_ms_max: int = 120_000
    """Records further ahead of the road's clock than this go to dead letters."""
    policy_folder: str = ""
    """Folder with one policy package per name; empty: the packages that ship with surescale."""
    policy: str = "sure"
    """Policy asked when a job's settings name none."""
    seed: int = 0
    """Seed of every decision."""
    health_port: int = 0
    """Port of this role's health endpoint and metrics; 0: none."""
    health_host: str = "127.0.0.1"
    """Address that the health port listens on; loopback unless somebody from elsewhere reads the metrics."""
    road_clock: bool = False
    """True: wait for and follow the topic ``clock``; false: the wall clock."""

    def __post_init__(self) -> None:
        """Check what environment or options may have said; settings of a role call this before their own checks.

        Raises:
            SettingsError: an engine's address or a port that is none, a time that cannot be; names the setting and the fix.
        """
        if not _is_http(self.engine_url):
            raise SettingsError(
                f"SURESCALE_ENGINE_URL: {self.engine_url!r} is no address of an engine; "
                "give one like http://127.0.0.1:8090 (with it or with --engine)"
            )
        if not 0 <= self.health_port <= PORT_MAX:
            raise SettingsError(f"SURESCALE_HEALTH_PORT: {self.health_port} is no port; give one up to {PORT_MAX}, or 0 for none")
        self.check_least(window_minutes=1, allowed_lateness_ms=0, ahead_of_clock_ms_max=0)

    def check_least(self, **least: int) -> None:
        """Check numbers, by the names of their fields, against the least that each may be.

        Raises:
            SettingsError: names the setting and that number.
        """
        for name, number in least.items():
            if getattr(self, name) < number:
                raise SettingsError(f"SURESCALE_{name.upper()}: must be at least {number}, not {getattr(self, name)}")


def from_environment(kind: type[S], environment: Mapping[str, str] | None = None, /, **options: object) -> S:
    """Build settings from defaults, then environment, then options that are not None.

    Raises:
        SettingsError: a variable does not parse; the message names it.
    """
    variables = os.environ if environment is None else environment
    hints = get_type_hints(kind)
    found: dict[str, object] = {}
    for item in fields(kind):
        name = f"SURESCALE_{item.name.upper()}"
        if name in variables:
            found[item.name] = _parse(name, variables[name], hints[item.name])
    found |= {key: value for key, value in options.items() if value is not None}
    return kind(**found)  # type: ignore[arg-type]  # each value was parsed by the field's own type


def to_environment(settings: RoadSettings) -> dict[str, str]:
    """Return the variables that make a child process read the same settings."""
    return {f"SURESCALE_{item.name.upper()}": _text(getattr(settings, item.name)) for item in fields(settings)}


def without_password(url: str) -> str:
    """Return an address fit for logs and messages: the password in it, if any, replaced by stars."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address, as its reader will say; it may hold a password all the same
        return re.sub(r"//.*@", "//***@", url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        return False


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, text: str, kind: object) -> object:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        if kind is int:
            return int(text)
        if kind is float:
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(text)  # no limit that is compared with it would stop it
            return number
    except (KeyError, ValueError):
        raise SettingsError(f"{name}: {text!r} is not a valid {getattr(kind, '__name__', kind)}; set it or unset it") from None
    return text
