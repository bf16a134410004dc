"""Prices of hosts and workers, as people write them."""

import msgspec
import pytest

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import SLOT_PRICES_MAX, ClusterTopology, Host
from surescale.monitor.prices import NO_PRICES, PriceHistory, PriceTable
from surescale.monitor.settings import MonitorSettings

FLINK = Capabilities(engine="flink", acts="counts")
MANAGERS = (Host(host="tm-1", slots=4), Host(host="gpu-1", slots=2))
HOSTS = ClusterTopology(cluster="prod", version=1, at_ms=0, hosts=MANAGERS, engine=FLINK)


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
    assert table.unpriced(priced) == ["gpu-1"]
    assert table.priced(table.priced(HOSTS)) == priced


def test_without_prices_nothing_changes_and_nothing_is_missed() -> None:
    """Most clusters give none."""
    assert NO_PRICES.priced(HOSTS) is HOSTS
    assert NO_PRICES.unpriced(HOSTS) == []


GROUPS = ClusterTopology(cluster="shop", version=1, at_ms=0, hosts=(), engine=Capabilities(engine="kafka", acts="counts"))
HERE = msgspec.structs.replace(GROUPS, hosts=(Host(host="here", slots=8),))


@pytest.mark.parametrize(
    ("text", "cluster", "missing"),
    [
        ("tm-*=1", GROUPS, ["worker"]),
        ("worker=0.05", GROUPS, []),
        ("*=1", GROUPS, []),
        ("worker=0.05", HERE, []),
        ("here=1", HERE, []),
        ("tm-*=1", HERE, ["here"]),
        ("TM-*=1", HOSTS, ["gpu-1", "tm-1"]),
        ("tm-*=1", msgspec.structs.replace(HOSTS, hosts=()), []),
        ("tm-*=1", msgspec.structs.replace(HERE, engine=SIMULATED), []),
    ],
)
def test_what_leaves_the_cost_unknown_is_named(text: str, cluster: ClusterTopology, missing: list[str]) -> None:
    """A worker's price is enough where no host has one; a Flink whose TaskManagers are still to come misses none."""
    table = PriceTable.of(text)
    assert table.unpriced(table.priced(cluster)) == missing


@pytest.mark.parametrize(
    "text", ["tm-*", "tm-*=cheap", "=3", "tm-*=0", "tm-*=-1", "tm-*=nan", "tm-*=inf", "a=1,b", "a=1e9", "a=1;b=2"]
)
def test_what_cannot_be_a_price_is_refused_by_the_settings(text: str) -> None:
    """With the entry and the form."""
    with pytest.raises(SettingsError, match=r"SURESCALE_PRICES: '.*': write HOST=DOLLARS_AN_HOUR"):
        MonitorSettings(prices=text)


def test_a_host_that_has_two_prices_is_refused() -> None:
    """Only the first would ever count."""
    with pytest.raises(SettingsError, match=r"SURESCALE_PRICES: 'tm-\*=2': tm-\* has a price already; name it once"):
        MonitorSettings(prices="tm-*=1, worker=3, tm-*=2")


@pytest.mark.parametrize(
    ("text", "wider"),
    [
        ("tm-*=1, tm-gpu=2.5", "tm-*"),
        ("*=1, worker=0.05", "*"),
        ("tm-*=1, tm-?=2", "tm-*"),
        ("[ab]-*=1, a-1=2", "[ab]-*"),
        ("a=1, *-3=2, tm-*-3=3", "*-3"),
    ],
)
def test_a_price_that_never_counts_is_refused(text: str, wider: str) -> None:
    """The first that fits counts, so an exception behind its rule would be charged by the rule."""
    with pytest.raises(SettingsError) as refused:
        MonitorSettings(prices=text)
    entry = text.rpartition(", ")[2]
    assert str(refused.value) == f"SURESCALE_PRICES: {entry!r} never counts: {wider} stands before it; put it before that"


@pytest.mark.parametrize("text", ["tm-?=1, tm-*=2", "tm-*=1, *-3=2", "a-?*=1, a-*=2", "tm-a=1, tm-[ab]=2", "tm=1, TM=2"])
def test_prices_of_which_each_may_count_are_taken(text: str) -> None:
    """Patterns may overlap."""
    assert len(PriceTable.of(text).entries) == 2


DAY_MS = 86_400_000


def costing(price: float, at_ms: int, *, places: str = "itself") -> ClusterTopology:
    """A cluster of one slot at a price, at an instant."""
    engine = Capabilities(engine="flink", acts="counts", places=places)  # type: ignore[arg-type]  # one of its words
    hosts = (Host(host="tm-1", slots=1, price_per_s=price),)
    return ClusterTopology(cluster="prod", version=at_ms, at_ms=at_ms, hosts=hosts, engine=engine)


def told(history: PriceHistory, *looks: tuple[float, int]) -> list[tuple[int, float]]:
    """Return what the history tells after these looks, at hours of days: (price, hour)."""
    for price, hour in looks:
        found = history.noted(costing(price, hour * DAY_MS // 24))
    return [(each.at_ms // (DAY_MS // 24), each.per_s) for each in found.slot_prices]


def test_the_last_price_of_each_day_on_which_it_changed_is_told() -> None:
    """One that holds for days is told once; one that comes back within a day never was."""
    assert told(PriceHistory(), (1.0, 3), (1.0, 5), (1.0, 30), (1.0, 60)) == [(3, 1.0)]
    assert told(PriceHistory(), (1.0, 3), (2.0, 5), (3.0, 30), (4.0, 31), (4.0, 60)) == [(5, 2.0), (31, 4.0)]
    assert told(PriceHistory(), (1.0, 3), (2.0, 30), (1.0, 31), (1.0, 60)) == [(3, 1.0)]
    assert told(PriceHistory(), (1.0, 3), (0.0, 30), (1.0, 60)) == [(3, 1.0)], "an unknown price changes nothing"


def test_another_monitor_tells_on_what_the_one_before_said() -> None:
    """But not of times to come, and nobody tells where the rescaler places or nobody gave a price."""
    first = PriceHistory().noted(costing(1.0, 5 * DAY_MS))
    assert told(PriceHistory(first), (2.0, 6 * 24)) == [(5 * 24, 1.0), (6 * 24, 2.0)]
    assert told(PriceHistory(first), (2.0, 4 * 24)) == [(4 * 24, 2.0)]
    assert PriceHistory().noted(costing(1.0, 5, places="commanded")).slot_prices == ()
    assert PriceHistory().noted(costing(0.0, 5)).slot_prices == ()


def test_the_oldest_days_go() -> None:
    """What is shown of a job is a month."""
    found = told(PriceHistory(), *((float(day), day * 24) for day in range(1, 100)))
    assert found == [(day * 24, float(day)) for day in range(100 - SLOT_PRICES_MAX, 100)]
