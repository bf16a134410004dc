"""The broker of a Compose file as a local process: the same settings, on free ports of loopback, with files from here."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surescale.runtime.ports import LOOPBACK, accepts_connections, free_ports
from surescale.services.local_stack.servers import LocalBroker

LISTENERS = {"ROLES": 19092, "HOST": 9092, "ADMIN": 19094, "CONTROLLER": 9093}
SECRETS = "/run/secrets/"


def setting(variable: str) -> str:
    """Return the broker's setting for a variable of its image.

    >>> setting("KAFKA_LISTENER_NAME_ROLES_SCRAM___SHA___512_SASL_JAAS_CONFIG")
    'listener.name.pipeline.scram-sha-512.sasl.jaas.config'
    """
    name = re.sub(r"(?<!_)_(?!_)", ".", variable.removeprefix("KAFKA_").lower())
    return re.sub(r"(?<!_)___(?!_)", "-", re.sub(r"(?<!_)__(?!_)", "_", name))


class ComposedBroker(LocalBroker):
    """A broker as the service ``kafka`` of merged Compose files describes it, with four listeners."""

    def __init__(self, folder: Path, service: Mapping[str, Any], secrets: Mapping[str, Path]) -> None:
        """``secrets``: file of each secret, by its name in a container."""
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        super().__init__(folder, ports=(self.ports["ROLES"], self.ports["CONTROLLER"]))
        self._given = {name: str(value) for name, value in service["environment"].items() if name != "KAFKA_HEAP_OPTS"}
        self._secrets = secrets

    def at(self, listener: str) -> str:
        """Return ``host:port`` of a listener."""
        return f"{LOOPBACK}:{self.ports[listener]}"

    def answers(self) -> bool:
        """Return whether the listeners are open; nobody without a password or a certificate gets further."""
        return all(accepts_connections(self.ports[name]) for name in ("ROLES", "ADMIN"))

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        found = {setting(name): self._here(value) for name, value in self._given.items()}
        return found | {"log.dirs": str(data)}

    def _here(self, value: str) -> str:
        """Return a value with this machine's addresses and files."""
        for name, port in LISTENERS.items():
            value = re.sub(rf"{name}://[^,]*", f"{name}://{self.at(name)}", value)
            value = re.sub(rf"localhost:{port}\b", self.at(name), value)
        if value.startswith(SECRETS):
            return str(self._secrets[value.removeprefix(SECRETS)])
        return value
