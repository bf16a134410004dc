"""What jobs and clusters cost now. Pure: equal documents give equal figures.

Where the rescaler places, a job's hosts come from its newest topology, so moves that the engine makes by itself count too. Its
savings come from the placement in the command that led to the topology's generation.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from math import fsum
from types import MappingProxyType
from typing import Final

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.figures import known_count
from surescale.contracts.messages import ClusterTopology, Host, JobTopology, SlotPrice
from surescale.contracts.plurals import counted
from surescale.contracts.rent import (
    DAY_S,
    MINUTE_S,
    occupancy_of,
    priced_hosts,
    prices_of,
    rent_per_s,
    slot_price_per_s,
    slots_configured,
    slots_of,
)
from surescale.contracts.topology import units_of
from surescale.runtime.instants import to_the_minute
from surescale.services.state.documents import JobRent, SummedCost
from surescale.services.state.fleet_documents import ClusterRent
from surescale.services.state.keys import DAYS_KEPT

NO_SUMS: Mapping[str, str] = MappingProxyType({})
DAY_MS: Final = DAY_S * 1000
MONTH_DAYS: Final = 30


def job_rent(
    topology: JobTopology,
    cluster: ClusterTopology,
    command: RescheduleCommand | None,
    sums: Mapping[str, str] = NO_SUMS,
    prices: Sequence[SlotPrice] = (),
) -> JobRent | None:
    """Return a job's hosts, its rent, and its savings; None where no price is known.

    ``command`` is the one for the topology's generation. Without one, savings by placement are unknown. ``sums``: by day, as the
    view has them. ``prices``: of a slot, in any order.
    """
    if cluster.engine.places != "commanded":
        return _slots_rent(topology, cluster, sums, prices)
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


def _slots_rent(
    topology: JobTopology, cluster: ClusterTopology, sums: Mapping[str, str], prices: Sequence[SlotPrice]
) -> JobRent | None:
    price = slot_price_per_s(cluster)
    if price is None:
        return None
    slots, configured = slots_of(topology), slots_configured(topology)
    days = _days(sums, sorted(prices, key=lambda each: each.at_ms), price)
    return JobRent(
        hosts=(),
        per_s=_per_s(slots * price),
        per_day=_per_day(slots * price),
        algorithm=None,
        saved_round_robin_per_day=None,
        saved_default_per_day=None,
        slots=slots,
        saved_configured_per_day=None if configured is None else _per_day((configured - slots) * price),
        days=days,
        month=_summed(_month(days)),
        frees_no_host="" if configured is None else _frees_no_host(cluster, configured - slots),
    )


def _days(sums: Mapping[str, str], prices: Sequence[SlotPrice], present: float) -> tuple[SummedCost, ...]:
    """Return the last 31 days, the newest first. ``present``: dollars a second of a slot, where no price is remembered."""
    by_day: dict[int, dict[str, int]] = {}
    for place, told in sums.items():
        of_day, _, name = place.partition(".")
        number, total = known_count(of_day), _number(told)
        if number is not None and total is not None:
            by_day.setdefault(number, {})[name] = total
    found = []
    newest = max(by_day, default=0)
    for day, of in sorted(by_day.items(), reverse=True):
        if day <= newest - DAYS_KEPT:
            break  # of a job that was away: the view forgets by the number of days
        price = _price_of(day, prices, present)
        saved = of.get("saved", 0) * MINUTE_S * price if of.get("compared") else None
        found.append(
            SummedCost(
                since=to_the_minute(day * DAY_MS)[: len("2026-11-28")],
                minutes=of.get("minutes", 0),
                dollars=round(of.get("slots", 0) * MINUTE_S * price, 6),
                saved_configured=None if saved is None else round(saved, 6),
            )
        )
    return tuple(found)


def _price_of(day: int, prices: Sequence[SlotPrice], present: float) -> float:
    """Return the last price by the end of a day; before the first that is remembered, that one."""
    known = [each.per_s for each in prices if each.at_ms < (day + 1) * DAY_MS] or [each.per_s for each in prices[:1]]
    return known[-1] if known else present


def _number(told: str) -> int | None:
    """Return a whole number, which may be negative."""
    found = known_count(told.removeprefix("-"))
    return found if found is None or not told.startswith("-") else -found


def _month(days: Sequence[SummedCost]) -> Sequence[SummedCost]:
    """Return those of the 30 days that end with the newest; a job that was away has fewer."""
    if not days:
        return days
    first = date.fromisoformat(days[0].since) - timedelta(days=MONTH_DAYS - 1)
    return [day for day in days if date.fromisoformat(day.since) >= first]


def _summed(days: Sequence[SummedCost]) -> SummedCost | None:
    if not days:
        return None
    saved = [day.saved_configured for day in days if day.saved_configured is not None]
    return SummedCost(
        since=days[-1].since,
        minutes=sum(day.minutes for day in days),
        dollars=round(fsum(day.dollars for day in days), 6),
        saved_configured=round(fsum(saved), 6) if saved else None,
    )


def _frees_no_host(cluster: ClusterTopology, without: int) -> str:
    """Return why slots that a job does without save no money yet.

    Empty where hosts that are free as a whole have as many slots, or hosts come and go by themselves.
    """
    hosts = priced_hosts(cluster)
    spare = [host for host in hosts if host.free_slots == host.slots]
    loose = sum(host.free_slots or 0 for host in hosts) - _slots_in(spare)
    if without <= _slots_in(spare) or not loose:
        return ""
    more = _hosts_in_excess(hosts, _slots_in(hosts) - _slots_in(spare) - loose) - len(spare)
    if more <= 0 and spare:
        return ""
    where = "on hosts that are in use" if spare else "but no host is"
    held = f"{counted(loose, 'slot')} of the cluster {'is' if loose == 1 else 'are'} free, {where}, so all of them are paid"
    if more <= 0:
        return f"{held}; they are too few to free a host"
    return f"{held}; packed, they would free {counted(more, 'host')} (surescale doctor says if the engine spreads them)"


def _slots_in(hosts: Iterable[Host]) -> int:
    return sum(host.slots or 0 for host in hosts)


def _hosts_in_excess(hosts: Sequence[Host], taken: int) -> int:
    """Return how many hosts, the small ones first, a cluster could do without if the others held all slots that are taken."""
    left, excess = _slots_in(hosts), 0
    for slots in sorted(host.slots or 0 for host in hosts):
        left -= slots
        if left < taken:
            break
        excess += 1
    return excess


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

    def saved_per_day(self, topology: JobTopology) -> float | None:
        """Return by how many dollars a day the author's size would cost more, as in `job_rent`; None: unknown."""
        configured = slots_configured(topology)
        if self._is_placed or self._slot is None or configured is None:
            return None
        return _per_day((configured - slots_of(topology)) * self._slot)


def _per_s(rent: float) -> float:
    return round(rent, 9)


def _per_day(rent: float) -> float:
    return round(rent * DAY_S, 6)


def _saved(other: float | None, rent: float) -> float | None:
    return None if other is None else _per_day(other - rent)
