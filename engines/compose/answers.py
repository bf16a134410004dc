"""The fields of the engine's answers that are read, and what they say about a container. Everything else is ignored."""

import re
from datetime import datetime
from typing import Any

import msgspec

from surescale.contracts.figures import known_count
from surescale.contracts.wire import learned

PROJECT, SERVICE, NUMBER = "com.docker.compose.project", "com.docker.compose.service", "com.docker.compose.container-number"
ONE_OFF = "com.docker.compose.oneoff"
"""Labels that every release of Compose writes."""
MADE_FOR = "surescale.command"
"""Label of a container that we have made: the command that asked for it."""
DRAINING = ".draining."
"""Part of the name of a container that was asked to end: the only mark that can be put on a container that exists."""
STEADY_S, STEADY_AGAIN_S = 2.0, 10.0
"""How long a container without a health check must run to count as up; the latter for one that has ended before."""
_NOT_WANTED = frozenset({"exited", "dead", "removing"})
_FRACTION = re.compile(r"\.\d+")


class Probe(msgspec.Struct, frozen=True, rename="pascal"):
    """One run of a health check."""

    output: str = ""


class Health(msgspec.Struct, frozen=True, rename="pascal"):
    """What a health check said; ``status``: starting, healthy, unhealthy, or none."""

    status: str = ""
    log: tuple[Probe, ...] | None = None


class State(msgspec.Struct, frozen=True, rename="pascal"):
    """``status``: created, running, paused, restarting, removing, exited or dead. ``error``: why it could not be started."""

    status: str
    exit_code: int = 0
    error: str = ""
    started_at: str = ""
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    health: Health | None = None


class _Config(msgspec.Struct, rename="pascal"):
    """What is read of a container's configuration, for its shape alone."""

    labels: dict[str, str] | None = None
    hostname: str | None = None
    image: str | None = None
    stop_timeout: int | None = None
    volumes: dict[str, Any] | None = None


class _Mount(msgspec.Struct, rename="pascal"):
    type: str | None = None
    source: str | None = None


class _HostConfig(msgspec.Struct, rename="pascal"):
    """What is read of what its host gives it, for its shape alone."""

    binds: list[str] | None = None
    mounts: list[_Mount] | None = None
    network_mode: str | None = None
    port_bindings: dict[str, list[dict[str, Any]] | None] | None = None
    restart_policy: dict[str, Any] | None = None


class _Network(msgspec.Struct):
    """What is read of its place in a network, for its shape alone."""

    aliases: list[str] | None = msgspec.field(default=None, name="Aliases")
    addresses: dict[str, Any] | None = msgspec.field(default=None, name="IPAMConfig")


class Networks(msgspec.Struct, frozen=True, rename="pascal"):
    """The networks of a container by name."""

    networks: dict[str, dict[str, Any]] | None = None


class Container(msgspec.Struct, frozen=True, rename="pascal"):
    """One container of a service. ``config``, ``host_config`` and networks are kept whole: a copy is made of them."""

    id: str
    name: str
    image: str
    state: State
    config: dict[str, Any]
    host_config: dict[str, Any]
    network_settings: Networks = msgspec.field(default_factory=Networks)
    restart_count: int = 0

    def __post_init__(self) -> None:
        """Refuse what has another shape than an engine's."""
        msgspec.convert(self.config, learned(_Config))
        msgspec.convert(self.host_config, learned(_HostConfig))
        msgspec.convert(self.network_settings.networks or {}, learned(dict[str, _Network]))

    @property
    def labels(self) -> dict[str, str]:
        """Return its labels."""
        return self.config.get("Labels") or {}

    @property
    def plain_name(self) -> str:
        """Return its name without the slash that the engine puts before it."""
        return self.name.removeprefix("/")

    @property
    def number(self) -> int:
        """Return its number within the service; 0 if Compose gave it none."""
        return known_count(self.labels.get(NUMBER)) or 0

    @property
    def is_draining(self) -> bool:
        """Return whether it was asked to end."""
        return DRAINING in self.name

    @property
    def is_wanted(self) -> bool:
        """Return whether the engine is to run it. One that was stopped stays stopped, whatever its restart policy."""
        return self.state.status not in _NOT_WANTED and not self.is_draining

    @property
    def waits_to_start(self) -> bool:
        """Return whether we have made it and it was never started."""
        return self.state.status == "created" and MADE_FOR in self.labels and not self.is_draining

    @property
    def has_started(self) -> bool:
        """Return whether it takes room on the machine."""
        return self.state.status in ("running", "restarting", "paused")

    def is_up(self, now_ms: int) -> bool:
        """Return whether it works: it is healthy, or has run for a moment without ending; or it drains."""
        if self.state.status != "running":
            return False
        if self.is_draining:
            return True
        health = self.state.health.status if self.state.health is not None else "none"
        if health not in ("", "none"):
            return health == "healthy"
        age_s = (now_ms - _ms(self.state.started_at)) / 1_000
        # Clocks that differ tell nothing about its age.
        return age_s < 0 or age_s >= (STEADY_AGAIN_S if self.restart_count else STEADY_S)


class Listed(msgspec.Struct, frozen=True, rename="pascal"):
    """A container in a list."""

    id: str


class Created(msgspec.Struct, frozen=True, rename="pascal"):
    """The answer to a creation."""

    id: str


class Image(msgspec.Struct, frozen=True, rename="pascal"):
    """An image. The engine's answer has ``Id``."""

    id: str


class Version(msgspec.Struct, frozen=True):
    """What the engine speaks."""

    api: str = msgspec.field(name="ApiVersion")
    api_min: str = msgspec.field(default="", name="MinAPIVersion")
    engine: str = msgspec.field(default="", name="Version")


def _ms(time: str) -> int:
    """Return a time of the engine's, RFC 3339 with up to nine digits of a second; 0 if it is none."""
    try:
        return round(datetime.fromisoformat(_FRACTION.sub(lambda found: found[0][:7], time)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return 0
