"""Services of a Docker Compose project, by the API of the container engine that runs them.

client        the requests that are made, and no other
requirement   what the engine is asked for of a whole job: the containers that it is to run
replica       a further container of a service: a copy of one that runs; and why a service cannot have one
reconcile     ends what drains and starts what waits for room, whoever began it
actuator      carries commands out
doctor        checks of `surescale doctor`
"""

from dataclasses import dataclass

from surescale.contracts.addresses import is_http, without_password
from surescale.contracts.capabilities import Capabilities
from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import Settings
from surescale.engines.registry import ActuatorKind


@dataclass(frozen=True, slots=True)
class ComposeSettings(Settings):
    """Of the actuator compose."""

    compose_url: str = ""
    """Socket of the container engine, like unix:///run/user/1000/docker.sock, or the http address of a proxy before it; empty:
    unix:///var/run/docker.sock."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            SettingsError: names the fix.
        """
        url = self.compose_url
        if url and not url.startswith("unix:///") and not is_http(url):
            raise SettingsError(
                f"SURESCALE_COMPOSE_URL: {without_password(url)!r} is not a socket of a container engine; "
                "set one like unix:///var/run/docker.sock"
            )


COMPOSE = Capabilities(
    engine="kafka",
    acts="counts",
    places="itself",
    takes_part="as many as fit",
    takes_effect="rolling",
    stabilization_ms=15_000,
    remembers="requirement",
    can_withdraw=True,
)
"""Containers come and go one by one, as many as this machine may hold. The time is ours, as with pods."""

SERVICES = ActuatorKind(
    make="surescale.engines.compose.actuator:ComposeEngine.of",
    checks="surescale.engines.compose.doctor:services",
    requirements="surescale.engines.compose.requirement:RequiredContainers",
    settings=(ComposeSettings,),
    needs=("groups_file",),
)
"""An actuator for consumer groups."""
