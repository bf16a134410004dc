"""The hosts of a simulated cluster: rented machines that offer parallel units. Unit ids are never reused. Pure state."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

import msgspec

from surescale.contracts.messages import ClusterTopology, Host
from surescale.simulation.engine.checked_changes import EngineRefusal

HOSTS_MAX = 2_000
UNITS_MAX = 1_000  # of one host
NAME_LENGTH_MAX = 256


_ZONES = ("a", "b")
_UNITS_PER_JOB = 10  # the widest task of a job needs no more
_SPARE_UNITS = 12  # so that the largest host may die


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host about to join; the cluster assigns its unit ids."""

    host: str
    unit_count: int
    cpu_cores: float = 4.0
    memory_gb: float = 8.0
    price_per_s: float = 0.0
    zone: str = ""


HOST_TYPES = (
    NewHost("m", 4, 4.0, 8.0, 2.417e-3),
    NewHost("l", 8, 8.0, 12.0, 4.861e-3),
    NewHost("xl", 12, 12.0, 16.0, 7.778e-3),
)
"""The virtual machines of the cost model of CETSA and LBA-CE (Flink on a public cloud, 2023), with one unit a core.

A host's name begins with that of its type.
"""


class HostPool:
    """Hosts by name in order of joining. ``version`` grows with every change."""

    def __init__(self, hosts: Iterable[NewHost]) -> None:
        self._hosts: dict[str, Host] = {}
        self._names: set[str] = set()  # of every host there ever was
        self._next_unit = 0
        self.version = 0
        for host in hosts:
            self.join(host)

    def join(self, new: NewHost) -> Host:
        """Add a host with fresh units.

        Raises:
            EngineRefusal: ``HOST_EXISTS``, ``INVALID_HOST`` or ``TOO_MANY_HOSTS``.
        """
        if new.host in self._hosts:
            raise EngineRefusal("HOST_EXISTS", f"host {new.host!r} has already joined")
        if not new.host or not 1 <= new.unit_count <= UNITS_MAX:
            raise EngineRefusal("INVALID_HOST", f"a host needs a name and 1 to {UNITS_MAX} units, not {new.unit_count}")
        fault = _fault(new)
        if fault:
            raise EngineRefusal("INVALID_HOST", fault)
        if len(self._hosts) >= HOSTS_MAX:
            raise EngineRefusal("TOO_MANY_HOSTS", f"the cluster has {HOSTS_MAX} hosts, the most there can be")
        units = tuple(range(self._next_unit, self._next_unit + new.unit_count))
        self._next_unit += new.unit_count
        host = Host(
            host=new.host,
            units=units,
            cpu_cores=new.cpu_cores,
            memory_gb=new.memory_gb,
            price_per_s=new.price_per_s,
            zone=new.zone,
        )
        self._hosts[new.host] = host
        self._names.add(new.host)
        self.version += 1
        return host

    def host(self, name: str) -> Host:
        """Return a host.

        Raises:
            EngineRefusal: ``UNKNOWN_HOST``.
        """
        if name not in self._hosts:
            raise EngineRefusal("UNKNOWN_HOST", f"there is no host {name!r}")
        return self._hosts[name]

    def mark_leaving(self, name: str) -> Host:
        """Mark a host as about to be removed; its units keep working until it dies."""
        host = self.host(name)
        if host.state != "removed_soon":
            host = self._hosts[name] = msgspec.structs.replace(host, state="removed_soon")
            self.version += 1
        return host

    def remove(self, name: str) -> Host:
        """Remove a host from the cluster and return it."""
        host = self.host(name)
        del self._hosts[name]
        self.version += 1
        return host

    def host_of(self) -> dict[int, str]:
        """Return the host of every unit that exists."""
        return {unit: host.host for host in self._hosts.values() for unit in host.units}

    def next_default(self) -> NewHost:
        """Return the next host that could join: the next type in turn, under a name never used before."""
        return next(host for host in map(_default_host, count(len(self._names))) if host.host not in self._names)

    def staying(self) -> dict[int, str]:
        """Return the host of every unit whose host is staying."""
        return {unit: host.host for host in self._hosts.values() if host.state == "running" for unit in host.units}

    def units_on_offer(self) -> list[int]:
        """Return the units of hosts that are staying, ascending."""
        return sorted(self.staying())

    def topology(self, cluster: str, at_ms: int) -> ClusterTopology:
        """Return the hosts as the engine announces them."""
        return ClusterTopology(cluster=cluster, version=self.version, at_ms=at_ms, hosts=tuple(self._hosts.values()))


def _fault(new: NewHost) -> str:
    """Return why a host cannot be announced, "" if it can (``contracts.messages.Host``)."""
    if len(new.host) > NAME_LENGTH_MAX:
        return f"host: a name has at most {NAME_LENGTH_MAX} characters, not {len(new.host)}"
    for name in ("cpu_cores", "memory_gb"):
        if not 0 < getattr(new, name) < math.inf:
            return f"{name} must be above 0, not {getattr(new, name)}"
    if not 0 <= new.price_per_s < math.inf:
        return f"price_per_s must be 0 or more, not {new.price_per_s}"
    return ""


def default_hosts(job_count: int) -> list[NewHost]:
    """Return hosts of all types in turn, enough for every job at full width even if any one host dies."""
    hosts: list[NewHost] = []
    while sum(host.unit_count for host in hosts) < _UNITS_PER_JOB * job_count + _SPARE_UNITS:
        hosts.append(_default_host(len(hosts)))
    return hosts


def _default_host(index: int) -> NewHost:
    kind = HOST_TYPES[index % len(HOST_TYPES)]
    return replace(kind, host=f"{kind.host}{index // len(HOST_TYPES) + 1}", zone=_ZONES[index % len(_ZONES)])
