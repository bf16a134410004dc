"""The cost of jobs in money: the rent of the hosts they run on, over time. Pure.

Where the rescaler places, a job's rent counts in full every host on which it has at least one unit. A cluster's rent counts each
host once, no matter how many jobs share it. So the rents of jobs that share hosts add up to more than the cluster's. Where the
engine places, a job pays for its slots at their mean price.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

from surescale.contracts.commands import Placement
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.topology import RESTING, slots_needed, units_of

DAY_S, MINUTE_S = 86_400, 60


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The hosts a job occupies from an instant on, and what the same number of units would cost elsewhere (None: unknown)."""

    from_ms: int
    hosts: tuple[str, ...]
    round_robin_per_s: float | None = None
    default_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class RentCost:
    """Dollars over a period; savings count only while a placement by the rescaler is in force."""

    dollars: float
    saved_round_robin: float
    saved_default: float
    per_s: float
    """At the end of the period."""

    def document(self) -> dict[str, float]:
        """Return the figures for a report, to a millionth of a dollar (rents a second to a billionth)."""
        return {
            "dollars": round(self.dollars, 6),
            "per_s": round(self.per_s, 9),
            "per_day": round(self.per_s * DAY_S, 6),
            "saved_round_robin": round(self.saved_round_robin, 6),
            "saved_default": round(self.saved_default, 6),
        }


@dataclass(frozen=True, slots=True)
class RentCosts:
    """The cost of each job of a run, and of all together (a shared host is paid once)."""

    jobs: dict[str, RentCost]
    dollars: float


def hosts_of(units: Iterable[int], hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return the names of the hosts that offer any of these units, sorted."""
    held = set(units)
    return tuple(sorted(host.host for host in hosts if not held.isdisjoint(host.units)))


def rent_per_s(names: Iterable[str], prices: Mapping[str, float]) -> float:
    """Return the rent of hosts in dollars per second, each counted once; a host without a price costs nothing."""
    return fsum(prices.get(name, 0.0) for name in sorted(set(names)))


def prices_of(hosts: Iterable[Host]) -> dict[str, float]:
    """Return dollars per second by host."""
    return {host.host: host.price_per_s for host in hosts}


def slots_of(topology: JobTopology) -> int:
    """Return how many slots a job needs: tasks of one slot sharing group share them."""
    return 0 if topology.state == RESTING else slots_needed(topology.tasks)


def slots_configured(topology: JobTopology) -> int | None:
    """Return how many slots a job would need at the size that its author configured; None where nobody knows that size."""
    configured = {spec.task: spec.configured_parallelism for spec in topology.tasks if spec.configured_parallelism is not None}
    is_known = all(spec.task in configured for spec in topology.tasks if spec.scalable)
    return slots_needed(topology.tasks, configured) if is_known else None


def priced_hosts(cluster: ClusterTopology) -> list[Host]:
    """Return the hosts with slots, sorted by name, if the price of any is known."""
    hosts = sorted((host for host in cluster.hosts if host.slots), key=lambda host: host.host)
    return hosts if any(host.price_per_s for host in hosts) else []


def slot_price_per_s(cluster: ClusterTopology) -> float | None:
    """Return what a slot costs where the engine places, in dollars per second; None: unknown.

    The mean of the hosts, of which one without a price makes it unknown; or that of a worker, where no host has a price.
    """
    hosts = priced_hosts(cluster)
    if not hosts:
        return cluster.worker_price_per_s
    if not all(host.price_per_s for host in hosts):
        return None
    return fsum(host.price_per_s for host in hosts) / sum(host.slots or 0 for host in hosts)


def occupancy_of(topology: JobTopology, hosts: Iterable[Host], placement: Placement | None) -> Occupancy:
    """Return the hosts a job occupies under a topology; ``placement`` is from the command that led to it, if any."""
    return Occupancy(
        topology.at_ms,
        hosts_of(units_of(topology), hosts),
        placement.rent_round_robin_per_s if placement else None,
        placement.rent_default_per_s if placement else None,
    )


def rent_cost(occupancies: Sequence[Occupancy], prices: Mapping[str, float], end_ms: int) -> RentCost:
    """Return a job's cost up to an instant, and how much more dealing out or drawing its units would have cost.

    ``occupancies`` are in time order; each lasts until the next.
    """
    dollars, round_robin, default = [], [], []
    stretches = _stretches(occupancies, end_ms)
    for occupancy, until_ms in stretches:
        seconds = (until_ms - occupancy.from_ms) / 1000
        rent = rent_per_s(occupancy.hosts, prices)
        dollars.append(rent * seconds)
        if occupancy.round_robin_per_s is not None:
            round_robin.append((occupancy.round_robin_per_s - rent) * seconds)
        if occupancy.default_per_s is not None:
            default.append((occupancy.default_per_s - rent) * seconds)
    at_end = stretches[-1][0].hosts if stretches else ()
    return RentCost(fsum(dollars), fsum(round_robin), fsum(default), rent_per_s(at_end, prices))


def rent_costs(
    topologies: Iterable[JobTopology],
    hosts: Collection[Host],
    placements: Mapping[tuple[str, int], Placement],
    end_ms: int,
) -> RentCosts:
    """Return the cost of a run up to an instant.

    Args:
        topologies: every topology its jobs had, in any order.
        hosts: every host that ever existed.
        placements: by job and generation, from the commands that led to them.
        end_ms: the instant.
    """
    occupancies: dict[str, list[Occupancy]] = {}
    for topology in sorted(topologies, key=lambda each: (each.job, each.at_ms, each.version)):
        placement = placements.get((topology.job, topology.generation))
        occupancies.setdefault(topology.job, []).append(occupancy_of(topology, hosts, placement))
    prices = prices_of(hosts)
    jobs = {job: rent_cost(found, prices, end_ms) for job, found in occupancies.items()}
    return RentCosts(jobs, cluster_dollars(occupancies.values(), prices, end_ms))


def cluster_dollars(occupancies: Iterable[Sequence[Occupancy]], prices: Mapping[str, float], end_ms: int) -> float:
    """Return the cost of all jobs together up to an instant; a shared host is paid once."""
    jobs = [_stretches(job, end_ms) for job in occupancies]
    instants = sorted({at_ms for job in jobs for occupancy, until_ms in job for at_ms in (occupancy.from_ms, until_ms)})
    paid = []
    for from_ms, until_ms in pairwise(instants):
        used = {name for job in jobs for occupancy, end in job if occupancy.from_ms <= from_ms < end for name in occupancy.hosts}
        paid.append(rent_per_s(used, prices) * (until_ms - from_ms) / 1000)
    return fsum(paid)


def _stretches(occupancies: Sequence[Occupancy], end_ms: int) -> list[tuple[Occupancy, int]]:
    """Return each occupancy with its end; occupancies that begin after ``end_ms`` are left out."""
    ends = [min(occupancy.from_ms, end_ms) for occupancy in occupancies[1:]] + [end_ms]
    return [(occupancy, until_ms) for occupancy, until_ms in zip(occupancies, ends, strict=True) if occupancy.from_ms < until_ms]
