"""Prices of hosts and workers, as people write them."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClusterTopology, Host
from surescale.monitor.prices import NO_PRICES, PriceTable
from surescale.monitor.settings import MonitorSettings

HOSTS = ClusterTopology(cluster="prod", version=1, at_ms=0, hosts=(Host(host="tm-1", slots=4), Host(host="gpu-1", slots=2)))


def test_the_first_pattern_that_fits_counts() -> None:
    """So an exception stands before the rule."""
    table = PriceTable.of("tm-gpu=2.5, tm-*=0.18 ,worker=0.05")
    assert [table.per_hour(name) for name in ("tm-gpu", "tm-7", "other")] == [2.5, 0.18, None]


def test_hosts_get_their_price_a_second_and_unpriced_ones_are_named() -> None:
    """One that no pattern fits keeps what the engine says; a worker's price stands beside the hosts."""
    table = PriceTable.of("tm-*=3.6,worker=0.36")
    priced = table.priced(HOSTS)
    assert [host.price_per_s for host in priced.hosts] == [pytest.approx(0.001), 0.0]
    assert priced.worker_price_per_s == pytest.approx(0.0001)
    assert table.unpriced(host.host for host in HOSTS.hosts) == ["gpu-1"]
    assert table.priced(table.priced(HOSTS)) == priced


def test_without_prices_nothing_changes_and_nothing_is_missed() -> None:
    """Most clusters give none."""
    assert NO_PRICES.priced(HOSTS) is HOSTS
    assert NO_PRICES.unpriced(["tm-1"]) == []


@pytest.mark.parametrize("text", ["tm-*", "tm-*=cheap", "=3", "tm-*=0", "tm-*=-1", "tm-*=nan", "tm-*=inf", "a=1,b", "a=1e9"])
def test_what_cannot_be_a_price_is_refused_by_the_settings(text: str) -> None:
    """With the entry and the form."""
    with pytest.raises(SettingsError, match=r"SURESCALE_PRICES: '.*': write HOST=DOLLARS_AN_HOUR"):
        MonitorSettings(prices=text)
