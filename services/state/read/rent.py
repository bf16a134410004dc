"""What jobs and clusters cost now. Pure: equal documents give equal figures.

Where the rescaler places, a job's hosts come from its newest topology, so moves that the engine makes by itself count too. Its
savings come from the placement in the command that led to the topology's generation.
"""

from collections.abc import Iterable

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.contracts.rent import DAY_S, occupancy_of, priced_hosts, prices_of, rent_per_s, slot_price_per_s, slots_of
from surescale.contracts.topology import units_of
from surescale.services.state.documents import JobRent
from surescale.services.state.fleet_documents import ClusterRent


def job_rent(topology: JobTopology, cluster: ClusterTopology, command: RescheduleCommand | None) -> JobRent | None:
    """Return a job's hosts, its rent, and its savings; None where no price is known.

    ``command`` is the one for the topology's generation. Without one, savings by placement are unknown.
    """
    if cluster.engine.places != "commanded":
        return _slots_rent(topology, slot_price_per_s(cluster))
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


def _slots_rent(topology: JobTopology, price: float | None) -> JobRent | None:
    if price is None:
        return None
    slots = slots_of(topology)
    configured = {spec.task: spec.configured_parallelism for spec in topology.tasks if spec.configured_parallelism is not None}
    is_known = all(spec.task in configured for spec in topology.tasks if spec.scalable)
    return JobRent(
        hosts=(),
        per_s=_per_s(slots * price),
        per_day=_per_day(slots * price),
        algorithm=None,
        saved_round_robin_per_day=None,
        saved_default_per_day=None,
        slots=slots,
        saved_configured_per_day=_per_day((slots_of(topology, configured) - slots) * price) if is_known else None,
    )


def cluster_rent(topologies: Iterable[JobTopology], cluster: ClusterTopology) -> ClusterRent | None:
    """Return the rent of a cluster; None where no price is known.

    Where the rescaler places: of all hosts on which any job has a unit, each counted once. Else of all its hosts, or of the jobs'
    workers where nobody knows their hosts.
    """
    if cluster.engine.places == "commanded":
        used = sorted({name for topology in topologies for name in occupancy_of(topology, cluster.hosts, None).hosts})
        rent = rent_per_s(used, prices_of(cluster.hosts))
        return ClusterRent(hosts=tuple(used), per_s=_per_s(rent), per_day=_per_day(rent))
    price = slot_price_per_s(cluster)
    if price is None:
        return None
    hosts = priced_hosts(cluster)
    if not hosts:
        rent = price * sum(map(slots_of, topologies))
        return ClusterRent(hosts=(), per_s=_per_s(rent), per_day=_per_day(rent))
    rent = rent_per_s((host.host for host in hosts), prices_of(hosts))
    free = [host.free_slots for host in hosts if host.free_slots is not None]
    return ClusterRent(
        hosts=tuple(host.host for host in hosts),
        per_s=_per_s(rent),
        per_day=_per_day(rent),
        free_slots=sum(free) if len(free) == len(hosts) else None,
        spare_hosts=tuple(host.host for host in hosts if host.free_slots == host.slots),
    )


class Prices:
    """The prices of one cluster, for the rents of many jobs."""

    def __init__(self, cluster: ClusterTopology) -> None:
        self._is_placed = cluster.engine.places == "commanded"
        self._slot = slot_price_per_s(cluster)
        self._prices = prices_of(cluster.hosts)
        self._names: dict[int, set[str]] = {}
        for host in cluster.hosts:
            for unit in host.units:
                self._names.setdefault(unit, set()).add(host.host)

    def per_day(self, topology: JobTopology) -> float | None:
        """Return a job's rent in dollars per day, as in `job_rent`; None: unknown."""
        if not self._is_placed:
            return None if self._slot is None else _per_day(slots_of(topology) * self._slot)
        used = {name for unit in units_of(topology) for name in self._names.get(unit, ())}
        return _per_day(rent_per_s(used, self._prices))


def _per_s(rent: float) -> float:
    return round(rent, 9)


def _per_day(rent: float) -> float:
    return round(rent * DAY_S, 6)


def _saved(other: float | None, rent: float) -> float | None:
    return None if other is None else _per_day(other - rent)
