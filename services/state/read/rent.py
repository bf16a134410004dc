"""What jobs and clusters cost now. Pure: equal documents give equal figures.

A job's hosts come from its newest topology, so moves that the engine makes by itself count too. Its savings come from the
placement in the command that led to the topology's generation.
"""

from collections.abc import Iterable

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.rent import DAY_S, occupancy_of, prices_of, rent_per_s
from surescale.contracts.topology import units_of
from surescale.services.state.documents import JobRent
from surescale.services.state.fleet_documents import ClusterRent


def job_rent(topology: JobTopology, cluster: ClusterTopology, command: RescheduleCommand | None) -> JobRent:
    """Return a job's hosts, its rent, and its savings.

    ``command`` is the one for the topology's generation. Without one, savings are unknown.
    """
    placement = command.placement if command and not command.advice else None
    stay = occupancy_of(topology, cluster.hosts, placement)
    rent = rent_per_s(stay.hosts, prices_of(cluster.hosts))
    return JobRent(
        hosts=stay.hosts,
        per_s=_per_s(rent),
        per_day=_per_day(rent),
        algorithm=placement.algorithm if placement else None,
        saved_round_robin_per_day=_saved(stay.round_robin_per_s, rent),
        saved_default_per_day=_saved(stay.default_per_s, rent),
    )


def cluster_rent(topologies: Iterable[JobTopology], cluster: ClusterTopology) -> ClusterRent:
    """Return the rent of all hosts on which any job has a unit, each counted once."""
    used = sorted({name for topology in topologies for name in occupancy_of(topology, cluster.hosts, None).hosts})
    rent = rent_per_s(used, prices_of(cluster.hosts))
    return ClusterRent(hosts=tuple(used), per_s=_per_s(rent), per_day=_per_day(rent))


class Prices:
    """The hosts of one cluster by unit, for the rents of many jobs."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        hosts = list(hosts)
        self._prices = prices_of(hosts)
        self._names: dict[int, set[str]] = {}
        for host in hosts:
            for unit in host.units:
                self._names.setdefault(unit, set()).add(host.host)

    def per_day(self, topology: JobTopology) -> float:
        """Return the rent of a job's hosts in dollars per day, as in `job_rent`."""
        used = {name for unit in units_of(topology) for name in self._names.get(unit, ())}
        return _per_day(rent_per_s(used, self._prices))


def _per_s(rent: float) -> float:
    return round(rent, 9)


def _per_day(rent: float) -> float:
    return round(rent * DAY_S, 6)


def _saved(other: float | None, rent: float) -> float | None:
    return None if other is None else _per_day(other - rent)
