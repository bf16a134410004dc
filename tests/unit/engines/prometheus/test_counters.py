"""How raw counters grow from look to look."""

from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.engines.prometheus.ledger import Counter
from surescale.engines.prometheus.readings import Reading

PLAIN = {"is_time": False, "is_offset": False, "is_other": False}


@settings(deadline=None)
@given(st.integers(0, 2**40), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), max_size=30))
def test_growth_adds_up_to_what_was_counted(first: int, steps: list[tuple[int, int]]) -> None:
    """However many looks see the same scrape, and however long nobody looks."""
    counter, value, at_ms, total = Counter(float(first), 0), first, 0, 0.0
    for grown, scrapes in steps:
        value, at_ms = value + grown * min(scrapes, 1), at_ms + 15_000 * scrapes
        total += counter.grown(Reading(float(value), at_ms), **PLAIN)[0]
    assert total == value - first


def test_a_counter_that_begins_anew_counts_from_0() -> None:
    """What it did between the last scrape and its end is lost, as for Prometheus itself."""
    counter = Counter(1_000.0, 0)
    assert counter.grown(Reading(40.0, 60_000), **PLAIN) == (40.0, True)
    assert counter.grown(Reading(50.0, 120_000), **PLAIN) == (10.0, False)


def test_an_earlier_scrape_of_another_replica_is_no_new_beginning() -> None:
    """Two replicas scrape at different moments; the later figures were counted already."""
    counter = Counter(1_000.0, 60_000)
    assert counter.grown(Reading(990.0, 55_000), **{**PLAIN, "is_other": True}) == (0.0, False)
    assert counter.grown(Reading(1_020.0, 115_000), **PLAIN) == (20.0, False)


def test_a_fall_that_nobody_can_date_counts_nothing_after_a_change_of_replicas() -> None:
    """A computed expression has no time of scraping; the higher value stays."""
    counter = Counter(1_000.0, 60_000)
    assert counter.grown(Reading(990.0, 120_000), **{**PLAIN, "is_other": True}) == (0.0, False)
    assert counter.grown(Reading(1_020.0, 180_000), **PLAIN) == (20.0, False)


def test_a_time_that_wobbles_has_not_begun_anew() -> None:
    """Flink's busy time falls by a tenth of a second now and then; it is not counted twice afterwards."""
    counter, times = Counter(500_000.0, 0), {**PLAIN, "is_time": True}
    assert counter.grown(Reading(499_900.0, 60_000), **times) == (0.0, False)
    assert counter.grown(Reading(500_300.0, 120_000), **times) == (300.0, False)
    assert counter.grown(Reading(200.0, 180_000), **times) == (200.0, True)


def test_an_offset_that_is_set_back_means_that_nothing_was_done() -> None:
    """Somebody has reset the group; counting from 0 would be a burst of all records there ever were."""
    counter, offsets = Counter(5_000_000.0, 0), {**PLAIN, "is_offset": True}
    assert counter.grown(Reading(4_000_000.0, 60_000), **offsets) == (0.0, False)
    assert counter.grown(Reading(4_000_100.0, 120_000), **offsets) == (100.0, False)
