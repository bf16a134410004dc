"""A further container of a service: a copy of one that runs. Pure.

Compose has no interface but its command line, which reads the Compose file, `.env` and the environment of whoever calls it. Here,
a replica is what the running ones are, whatever the file says by now: the same image, settings, networks and volumes. Compose
takes it for its own, since it has the labels by which Compose knows its containers.
"""

import re
from collections.abc import Collection
from typing import Any

from surescale.contracts.figures import known_count
from surescale.engines.compose.answers import MADE_FOR, NUMBER, Container
from surescale.engines.compose.client import MANY_NETWORKS
from surescale.engines.compose.target import Service

_ANONYMOUS = re.compile(r"[0-9a-f]{64}")
_SHORT_ID = 12
_NOT_COPIED = "com.docker.compose.replace"
"""Label of a container that took another's place."""
_RESTARTS = ("always", "unless-stopped")


def refusal_of(service: Service, model: Container, api: tuple[int, int]) -> str | None:
    """Return why a service cannot have a further container and what to do, in one line; None: it can.

    Args:
        service: that is to be scaled.
        model: one of its containers.
        api: that the engine speaks.
    """
    if not re.fullmatch(rf"{re.escape(service.project)}[-_]{re.escape(service.service)}[-_]\d+", model.plain_name):
        return f"its container has a name of its own, {model.plain_name}; remove container_name from the Compose file"
    for inside, bound in sorted((model.host_config.get("PortBindings") or {}).items()):
        for each in bound or ():
            if known_count(each.get("HostPort")):
                return (
                    f"its port {inside} is published at {each['HostPort']} of the host, which only one container can have; "
                    "publish it without a port of the host, or not at all"
                )
    for name, network in sorted((model.network_settings.networks or {}).items()):
        if any((network.get("IPAMConfig") or {}).get(key) for key in ("IPv4Address", "IPv6Address")):
            return f"it has a fixed address in network {name}; remove ipv4_address and ipv6_address from the Compose file"
    if (model.host_config.get("RestartPolicy") or {}).get("Name") not in _RESTARTS:
        return "its containers are not restarted when they fail; set restart: unless-stopped in the Compose file"
    if len(model.network_settings.networks or {}) > 1 and api < MANY_NETWORKS:
        return "it is in several networks, which takes Docker 25 or later; update the engine, or use one network"
    return None


def free_numbers(taken: Collection[int], count: int) -> list[int]:
    """Return the lowest numbers that no container of the service has."""
    found: list[int] = []
    number = 1
    while len(found) < count:
        if number not in taken:
            found.append(number)
        number += 1
    return found


def name_of(model: Container, number: int) -> str:
    """Return the name of a replica: the model's with another number."""
    return re.sub(r"\d+\Z", str(number), model.plain_name)


def copy_of(model: Container, number: int, command_id: str) -> dict[str, Any]:
    """Return the request for a replica.

    Anonymous volumes are recreated for each container, and nothing that the engine gave the model for itself goes along: its
    host name, its addresses, its aliases.

    Args:
        model: that is copied.
        number: of the replica.
        command_id: that asks for it.
    """
    config, host = dict(model.config), dict(model.host_config)
    own_names = {model.id[:_SHORT_ID], model.plain_name}
    if config.get("Hostname") == model.id[:_SHORT_ID]:
        config.pop("Hostname")
    config.pop("MacAddress", None)
    labels = {**model.labels, NUMBER: str(number), MADE_FOR: command_id}
    labels.pop(_NOT_COPIED, None)
    config["Labels"] = labels
    kept, anonymous = [], dict(config.get("Volumes") or {})
    for bind in host.get("Binds") or ():
        source, _, rest = bind.partition(":")
        if _ANONYMOUS.fullmatch(source):
            anonymous[rest.partition(":")[0]] = {}
        else:
            kept.append(bind)
    host["Binds"] = kept or None
    if host.get("Mounts"):
        host["Mounts"] = [
            {key: value for key, value in mount.items() if key != "Source"}
            if mount.get("Type") == "volume" and _ANONYMOUS.fullmatch(mount.get("Source") or "")
            else mount
            for mount in host["Mounts"]
        ]
    config["Volumes"] = anonymous or None
    host.pop("ContainerIDFile", None)
    networks = {
        name: {
            "Aliases": [name_of(model, number), *(each for each in network.get("Aliases") or () if each not in own_names)],
            **{key: network[key] for key in ("IPAMConfig", "Links", "DriverOpts", "GwPriority") if network.get(key)},
        }
        for name, network in (model.network_settings.networks or {}).items()
        if not _is_shared(host.get("NetworkMode") or "")
    }
    return {**config, "HostConfig": host, "NetworkingConfig": {"EndpointsConfig": networks}}


def _is_shared(mode: str) -> bool:
    """Return whether a container has no network of its own."""
    return mode in ("host", "none") or mode.startswith("container:")
