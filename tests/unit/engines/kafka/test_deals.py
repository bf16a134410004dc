"""What sizes carry by how unequal partitions are and how they are dealt out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.engines.kafka.deals import Rates, fullest_in_ranges, fullest_in_turn
from surescale.engines.kafka.positions import Partition

LOOKS = 30
MINUTE_MS = 60_000


def rates_of(came: dict[Partition, int], looks: int = LOOKS) -> Rates:
    """Return what is known after so many minutes in which that came to each partition."""
    found = Rates()
    for minute in range(looks):
        found.add(came, minute * MINUTE_MS)
    return found


def topic(*came: int, name: str = "orders") -> dict[Partition, int]:
    """Return what comes to the partitions of a topic."""
    return {(name, number): records for number, records in enumerate(came)}


def in_ranges(came: dict[Partition, int], size: int) -> list[set[Partition]]:
    """Return the partitions of one topic by member, as the range assignor deals them."""
    names = list(came)
    return [{names[at] for at in each.tolist()} for each in np.array_split(np.arange(len(names)), size)]


def test_partitions_that_are_alike_tell_nothing() -> None:
    """Nor do those that differ by chance, nor a topic to which nothing comes, nor one partition."""
    random, few = np.random.default_rng(1), Rates()
    for minute in range(60):
        few.add(topic(*random.poisson(4, 12).tolist()), minute * MINUTE_MS)
        assert few.carries("range", 12, in_ranges(topic(*[0] * 12), 3)) == ()
    for came in (topic(*[100] * 12), topic(*[0] * 12), topic(100)):
        assert rates_of(came).carries("range", len(came), in_ranges(came, 1)) == ()


def test_neighbours_that_are_hot_stay_together_until_a_size_parts_them() -> None:
    """Range deals neighbours to one member: of eight partitions two hot ones are on one member up to five."""
    came = topic(400, 400, 50, 50, 50, 50, 50, 50)
    told = dict(rates_of(came).carries("range", 8, in_ranges(came, 4)))
    assert told[1] == 1.0
    assert max(told) == 8
    assert told[8] == pytest.approx(1100 / 400, rel=0.01)
    assert all(carries <= 1100 / 800 + 0.01 for size, carries in told.items() if size < 8)


def test_partitions_dealt_in_turn() -> None:
    """Two members have one hot partition each if the two lie next to each other, four have them on one if they lie four apart."""
    near, apart = topic(400, 400, 50, 50, 50, 50, 50, 50), topic(400, 50, 50, 50, 400, 50, 50, 50)
    members = [{("orders", number) for number in range(first, 8, 2)} for first in range(2)]
    assert dict(rates_of(near).carries("roundrobin", 8, members))[2] == 2.0
    told = dict(rates_of(apart).carries("roundrobin", 8, members))
    assert 4 not in told
    assert told[3] == pytest.approx(1100 / 500, rel=0.01)


def test_topics_are_dealt_in_ranges_one_by_one() -> None:
    """The first member gets the first partitions of both topics."""
    came = topic(500, 10, 10) | topic(500, 10, 10, name="returns")
    members = [{("orders", number), ("returns", number)} for number in range(3)]
    assert rates_of(came).carries("range", 3, members) == ((1, 1.0),)


@pytest.mark.parametrize("each", [0, 100])
def test_topics_of_different_widths_are_dealt_in_ranges_one_by_one(each: int) -> None:
    """Of eight and four alike the first four of eight members get two, the others one; in turn, or of one width, all get one."""
    came = topic(*[each] * 8, name="a") | topic(*[each] * 4, name="b")
    names = list(came)
    members = [set(names[at:8:8]) | set(names[8 + at : 12 : 8]) for at in range(8)]
    told = dict(rates_of(came).carries("range", 8, members))
    assert (told[8], told[4]) == (6.0, 4.0)
    assert not {5, 6, 7} & told.keys()
    assert told[3] == pytest.approx(12 / 5, rel=0.01)
    assert rates_of(came).carries("roundrobin", 12, [{name} for name in names]) == ()
    alike = topic(*[each] * 8, name="a") | topic(*[each] * 8, name="b")
    assert rates_of(alike).carries("range", 8, [{("a", at), ("b", at)} for at in range(8)]) == ()


def test_a_deal_that_cannot_be_foreseen_is_its_mean_and_what_the_present_members_have() -> None:
    """Sticky: the pair on one of four members is seen; more members would part them, as likely as not."""
    came = topic(400, 50, 400, 50, 50, 50, 50, 50)
    members = [{("orders", 0), ("orders", 2)}, *({("orders", 1 + 2 * at), ("orders", 4 + at)} for at in range(3))]
    told = dict(rates_of(came).carries("cooperative-sticky", 8, members))
    assert max(carries for size, carries in told.items() if size <= 4) == pytest.approx(1100 / 800, rel=0.01)
    assert told[8] == pytest.approx(1100 / 400, rel=0.01)


def test_a_range_that_is_dealt_otherwise_is_not_believed() -> None:
    """Members that subscribe to different topics: what they have shows it."""
    came = topic(400, 400, 50, 50, 50, 50, 50, 50)
    members = [{("orders", 0), ("orders", 2)}, {("orders", 1), ("orders", 3)}, {("orders", number) for number in range(4, 8)}]
    assert dict(rates_of(came).carries("range", 8, members))[3] == pytest.approx(1100 / 450, rel=0.01)


def test_the_partitions_of_one_number_go_together() -> None:
    """Of co-partitioned topics the hot one of each is on one member."""
    came = topic(10, 500, 10) | topic(10, 500, 10, name="returns")
    members = [{("orders", number), ("returns", number)} for number in range(3)]
    assert dict(rates_of(came).carries("streams", 3, members, together=True)) == {1: 1.0}


def test_what_is_told_moves_only_with_the_rates() -> None:
    """Noise changes nothing; partitions that become alike again do, as soon as that shows."""
    random, found, told = np.random.default_rng(1), Rates(), set()
    members = in_ranges(topic(*[0] * 8), 4)
    for minute in range(90):
        found.add(topic(*random.poisson([400, 400, 50, 50, 50, 50, 50, 50]).tolist()), minute * MINUTE_MS)
        if minute > LOOKS:
            told.add(found.carries("range", 8, members))
    assert len(told) == 1
    for minute in range(90, 180):
        found.add(topic(*[150] * 8), minute * MINUTE_MS)
        last = found.carries("range", 8, members)
    assert last == ()


def test_members_that_are_dealt_out_just_now_say_nothing() -> None:
    """A group that rebalances has no partitions: what any deal would bring counts."""
    came = topic(400, 400, 50, 50, 50, 50, 50, 50)
    told = dict(rates_of(came).carries("cooperative-sticky", 8, [set(), set()]))
    assert told[8] == pytest.approx(1100 / 400, rel=0.01)


@pytest.mark.parametrize("rate", [10, 100, 1_000])
def test_records_that_come_in_batches_make_no_partition_hot(rate: int) -> None:
    """A producer without keys fills a batch of 160 for one partition, then one for another; a hot one among them shows."""
    even, hot = np.full(12, 1 / 12), np.array([6.0, *[1.0] * 11]) / 17
    for shares, is_hot in ((even, False), (hot, True)):
        random, found, told = np.random.default_rng(rate), Rates(), []
        for minute in range(60):
            batches = random.multinomial(random.poisson(60 * rate / 160), shares)
            found.add(topic(*(160 * batches).tolist()), minute * MINUTE_MS)
            told.append(found.carries("range", 12, in_ranges(topic(*[0] * 12), 6)))
        assert bool(told[-1]) == is_hot
        assert is_hot or set(told) == {()}


def test_partitions_out_of_sight_keep_their_rate() -> None:
    """A third of them is not told while its broker starts; then all that came meanwhile is told at once."""
    came, found = topic(*[100] * 12), rates_of(topic(*[100] * 12))
    away = {each for each in came if each[1] % 3 == 0}
    for minute in range(LOOKS, LOOKS + 5):
        found.add({each: 100 for each in came if each not in away}, minute * MINUTE_MS, away)
        assert found.carries("range", 12, in_ranges(came, 6)) == ()
    for minute in range(LOOKS + 5, LOOKS + 20):
        found.add({each: 600 if each in away and minute == LOOKS + 5 else 100 for each in came}, minute * MINUTE_MS)
        assert found.carries("range", 12, in_ranges(came, 6)) == ()


def test_partitions_that_are_added_are_as_fast_as_the_others() -> None:
    """They have had fewer records, in less time; those that are gone no longer count."""
    found = rates_of(topic(*[400] * 6))
    for minute in range(LOOKS, LOOKS + 20):
        found.add(topic(*[200] * 12), minute * MINUTE_MS)
        told = found.carries("range", 12, in_ranges(topic(*[0] * 12), 6))
        assert all(carries <= size and (size < 12 or carries > 7.0) for size, carries in told), told
    found.add(topic(*[100] * 4), (LOOKS + 20) * MINUTE_MS)
    assert found.carries("range", 4, in_ranges(topic(*[0] * 4), 2)) == ()


@pytest.mark.parametrize(("hot", "known"), [(400, 4), (40_000, 1)])
def test_few_looks_tell_only_what_no_batch_explains(hot: int, known: int) -> None:
    """How many records come together shows only from the fourth minute on."""
    came, found, told = topic(hot, hot, *[hot // 8] * 22), Rates(), []
    for minute in range(6):
        found.add(came, minute * MINUTE_MS)
        told.append(bool(found.carries("range", 24, in_ranges(came, 4))))
    assert told == [minute >= known for minute in range(6)]


@given(widths=st.lists(st.integers(1, 30), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_what_the_fullest_has_is_that_of_each_deal_by_hand(widths: list[int], seed: int) -> None:
    """For all numbers of readers, in ranges topic by topic and in turn."""
    random = np.random.default_rng(seed)
    topics = [random.integers(1, 100, width).astype(float) for width in widths]
    most = max(widths)
    by_hand = [
        max(
            sum(sum(part.tolist()) for part in parts)
            for parts in zip(*(np.array_split(each, size) for each in topics), strict=True)
        )
        for size in range(1, most + 1)
    ]
    assert fullest_in_ranges(topics, most).tolist() == by_hand
    in_turn = [max(topics[0][at::size].sum() for at in range(size)) for size in range(1, len(topics[0]) + 1)]
    assert fullest_in_turn(topics[0], len(topics[0])).tolist() == in_turn
