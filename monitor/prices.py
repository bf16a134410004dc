"""What hosts and workers cost, as ``SURESCALE_PRICES`` says, and what slots have cost. Pure."""

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msgspec.structs import replace

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import SLOT_PRICES_MAX, ClusterTopology, SlotPrice
from surescale.contracts.rent import DAY_S, slot_price_per_s

WORKER = "worker"
"""Stands for one worker of a consumer group, where the engine knows no hosts."""
_KNOW_HOSTS = ("flink",)
"""Engines that have no hosts for a while, and no workers."""
HOUR_S = 3_600
PRICE_MAX = 1e6
"""Dollars an hour."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Dollars an hour by pattern of a host's name; the first pattern that fits counts."""

    entries: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, text: str) -> "PriceTable":
        """Read a table.

        Raises:
            SettingsError: an entry cannot be read; names it and the fix.

        >>> PriceTable.of("tm-*=0.192, worker=0.05").per_hour("tm-3")
        0.192
        """
        found: list[tuple[str, float]] = []
        for entry in filter(None, (each.strip() for each in text.split(","))):
            pattern, _, given = (each.strip() for each in entry.rpartition("="))
            try:
                price = float(given)
            except ValueError:
                price = math.nan
            if not pattern or set(pattern) & set("=; ") or not 0 < price <= PRICE_MAX:
                raise SettingsError(f"SURESCALE_PRICES: {entry!r}: write HOST=DOLLARS_AN_HOUR, like tm-*=0.192 or worker=0.05")
            if pattern in dict(found):
                raise SettingsError(f"SURESCALE_PRICES: {entry!r}: {pattern} has a price already; name it once")
            if wider := next((before for before, _ in found if _covers(before, pattern)), None):
                raise SettingsError(f"SURESCALE_PRICES: {entry!r} never counts: {wider} stands before it; put it before that")
            found.append((pattern, price))
        return cls(tuple(found))

    def per_hour(self, name: str) -> float | None:
        """Return what a host costs, None if no pattern fits."""
        return next((price for pattern, price in self.entries if fnmatchcase(name, pattern)), None)

    def unpriced(self, priced: ClusterTopology) -> list[str]:
        """Return the names whose missing price leaves the cost of a slot unknown, sorted; none while nobody gave a price.

        Those of hosts, or that of a worker, where the engine knows no hosts. ``priced``: as `priced` returned it.
        """
        if not self.entries or priced.engine.places == "commanded" or slot_price_per_s(priced) is not None:
            return []
        hosts = [host for host in priced.hosts if host.slots]
        if not hosts:
            return [] if priced.engine.engine in _KNOW_HOSTS else [WORKER]
        return sorted(host.host for host in hosts if not host.price_per_s)

    def priced(self, topology: ClusterTopology) -> ClusterTopology:
        """Return the hosts with their prices; what no pattern fits keeps the engine's own."""
        if not self.entries:
            return topology
        hosts = tuple(
            host if (price := self.per_hour(host.host)) is None else replace(host, price_per_s=price / HOUR_S)
            for host in topology.hosts
        )
        worker = self.per_hour(WORKER)
        return replace(topology, hosts=hosts, worker_price_per_s=None if worker is None else worker / HOUR_S)


def _covers(wide: str, narrow: str) -> bool:
    """Say whether each name that fits a pattern fits another one, too; patterns with brackets are not judged."""
    if "[" in narrow:
        return False
    stars = ("", "\0", "\0\0\0\0")
    return all(fnmatchcase(narrow.replace("?", "\1").replace("*", star), wide) for star in stars)


NO_PRICES = PriceTable()


class PriceHistory:
    """What a slot of a cluster has cost, for days that are priced later."""

    def __init__(self, known: ClusterTopology | None = None) -> None:
        """``known``: what was last said of the cluster; None: nothing."""
        self._prices = known.slot_prices if known is not None else ()

    def noted(self, topology: ClusterTopology) -> ClusterTopology:
        """Return a topology with the last price of each day on which it changed.

        What was said of times to come does not count: its clock was wrong.
        """
        price = None if topology.engine.places == "commanded" else slot_price_per_s(topology)
        past = tuple(each for each in self._prices if each.at_ms <= topology.at_ms)
        if price is not None:
            day_ms = topology.at_ms - topology.at_ms % (DAY_S * 1000)
            before = tuple(each for each in past if each.at_ms < day_ms)
            if not past or past[-1].per_s != price:
                is_new = not before or before[-1].per_s != price
                past = (*before, SlotPrice(at_ms=topology.at_ms, per_s=price)) if is_new else before
        self._prices = past[-SLOT_PRICES_MAX:]
        return replace(topology, slot_prices=self._prices)
