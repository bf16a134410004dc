"""When more members of a group cannot help: a record that nobody gets past, or work that a few partitions have."""

from collections.abc import Callable, Mapping

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.groups.hindrance import Hindrance, Hindrances
from surescale.engines.groups.members import Member
from surescale.engines.kafka.positions import Answer, Extent, Partition, Positions

P, Q, R = ("orders", 0), ("orders", 1), ("orders", 2)
ALICE, BOB = Member("1", "alice", "h", frozenset({P})), Member("2", "bob", "h", frozenset({Q}))
Look = tuple[Mapping[Partition, int], Mapping[Partition, int]]


def found_each_minute(*looks: Look, members: tuple[Member, ...] = (ALICE, BOB)) -> list[Hindrance | None]:
    """Return what hinders at looks a minute apart, each with committed offsets and ends."""
    positions, hindrances, found = Positions(), Hindrances(), []
    for minute, (committed, ends) in enumerate(looks):
        answer = Answer({each: Extent(0, end) for each, end in ends.items()})
        positions.look(answer, {"orders"}, minute * MINUTE_MS)
        positions.read(committed, minute * MINUTE_MS)
        found.append(hindrances.look(positions, members, minute * MINUTE_MS))
    return found


def last(*looks: Look, members: tuple[Member, ...] = (ALICE, BOB)) -> Hindrance | None:
    """Return what hinders at the last of some looks."""
    return found_each_minute(*looks, members=members)[-1]


def test_a_partition_that_does_not_move_is_stuck_after_three_minutes() -> None:
    """It is named with its offset and reader; members may still be added for the other partition's work."""
    looks = [({P: 40, Q: 100 * minute}, {P: 50, Q: 100 * minute + 50}) for minute in range(5)]
    assert last(*looks[:3]) is None
    found = last(*looks[:4])
    assert found is not None
    assert found.words.startswith("partition orders[0] has not moved from offset 40 for 3 minutes while 10 records wait")
    assert "alice" in found.words
    assert not found.caps
    assert last(*looks[:4], ({P: 41, Q: 400}, {P: 50, Q: 450})) is None


def test_no_member_is_added_when_nearly_all_work_waits_behind_a_stuck_record() -> None:
    """More members would stand still as well; the other partitions' readers get on."""
    found = last(*[({P: 40, Q: 10 * minute}, {P: 500, Q: 10 * minute}) for minute in range(4)])
    assert found is not None
    assert found.caps


def every(minutes: int, rate: int) -> Callable[[int], Look]:
    """Return looks at a group whose readers commit together, every few minutes."""
    return lambda at: (
        dict.fromkeys((P, Q), at // minutes * minutes * rate),
        dict.fromkeys((P, Q), at * rate + 5),
    )


@pytest.mark.parametrize("minutes", [1, 5, 12])
def test_a_group_that_commits_seldom_is_not_stuck(minutes: int) -> None:
    """However seldom, from the first look on: nobody else moves meanwhile, and then its own interval is known."""
    assert found_each_minute(*map(every(minutes, 1_000), range(70))) == [None] * 70


def test_readers_that_commit_seldom_and_at_different_times_are_not_stuck() -> None:
    """One has just committed while the other has not for four minutes."""
    looks = [
        ({P: minute // 5 * 5_000, Q: (minute + 2) // 5 * 5_000}, {P: minute * 1_000 + 5, Q: minute * 1_000 + 3_000})
        for minute in range(60)
    ]
    assert found_each_minute(*looks) == [None] * 60


def test_a_reader_that_commits_nothing_anywhere_is_at_no_stuck_record() -> None:
    """Nothing says at which of its partitions it stands."""
    both = Member("1", "alice", "h", frozenset({P, R}))
    looks = [({P: 40, Q: 100 * minute, R: 60}, {P: 50 + minute, Q: 100 * minute + 50, R: 90 + minute}) for minute in range(30)]
    assert last(*looks, members=(both, BOB)) is None
    moving = [({**committed, R: 60 + minute}, ends) for minute, (committed, ends) in enumerate(looks)]
    assert last(*moving, members=(both, BOB)) is not None


def test_a_reader_that_commits_nothing_anywhere_while_others_go_on_is_named() -> None:
    """A dead static member, or one that tries a record for ever: it committed every minute before. In an outage all stand."""
    both = Member("1", "alice", "h", frozenset({P, R}))
    moving = [({P: 10 * at, Q: 100 * at, R: 10 * at}, dict.fromkeys((P, Q, R), 100 * at + 90)) for at in range(10)]
    hangs = [({P: 90, Q: 100 * at, R: 90}, dict.fromkeys((P, Q, R), 100 * at + 90)) for at in range(10, 14)]
    assert last(*moving, *hangs[:2], members=(both, BOB)) is None
    found = last(*moving, *hangs, members=(both, BOB))
    assert found is not None
    assert found.words.startswith(
        "reader alice has committed nothing for 4 minutes, though others have, while 2600 records wait in its 2"
    )
    assert found.caps
    outage = [({P: 90, Q: 900, R: 90}, ends) for _, ends in hangs]
    assert last(*moving, *outage, members=(both,)) is None


def test_markers_of_transactions_behind_an_end_that_stands_still_are_no_stuck_record() -> None:
    """A reader that commits the offset after its last record stays one behind for good."""
    busy = [({P: 100 * minute, Q: 100 * minute}, {P: 100 * minute + 1, Q: 100 * minute + 1}) for minute in range(5)]
    assert found_each_minute(*busy, *[busy[-1]] * 60) == [None] * 65


def test_a_hot_partition_with_a_reader_of_its_own_caps_the_group() -> None:
    """At the second look: once may be chance."""
    looks = [({P: 100 * minute, Q: 10 * minute}, {P: 100 * minute + 900, Q: 10 * minute}) for minute in range(3)]
    assert last(*looks[:1]) is None
    found = last(*looks)
    assert found is not None
    assert found.caps
    assert found.words.startswith("100 % of the waiting records are in partition orders[0], which has a reader of its own")


@pytest.mark.parametrize(("waiting", "is_hot"), [(2, False), (50, False), (99, False), (100, True), (101, True)])
def test_fewer_than_a_hundred_waiting_records_are_never_hot(waiting: int, is_hot: bool) -> None:
    """However they lie: so few say nothing of a key."""
    found = last(*[({P: 10 * at, Q: at}, {P: 10 * at + waiting, Q: at}) for at in range(4)])
    assert (found is not None and found.caps) == is_hot


def sixteen(hot: int, *, shared: bool = False) -> Hindrance | None:
    """Return what hinders four members of 16 partitions; the first few are hot, each with a reader that does little else."""
    partitions = [("orders", number) for number in range(16)]
    readers = {each: 0 if shared and number < hot else number % 4 for number, each in enumerate(partitions)}
    members = tuple(Member(str(at), f"m{at}", "h", frozenset(p for p in partitions if readers[p] == at)) for at in range(4))
    rates = [1_000 if number < hot else 10 for number in range(16)]
    looks = [
        (
            {each: rate * minute for each, rate in zip(partitions, rates, strict=True)},
            {each: rate * minute + (rate * minute if rate > 10 else 0) for each, rate in zip(partitions, rates, strict=True)},
        )
        for minute in range(8)
    ]
    return last(*looks, members=members)


@pytest.mark.parametrize("hot", [1, 2, 3])
def test_a_few_hot_partitions_with_readers_of_their_own_cap_the_group(hot: int) -> None:
    """More members would find no work: a partition fills at most one."""
    found = sixteen(hot)
    assert found is not None
    assert found.caps
    assert "which has a reader of its own: more members cannot help" in found.words


def test_hot_partitions_that_share_a_reader_are_no_hindrance() -> None:
    """Another member would take one of them."""
    assert sixteen(2, shared=True) is None


@pytest.mark.parametrize("grown", [50, 100])
def test_a_reader_with_other_work_can_be_helped(grown: int) -> None:
    """Another member would take its other partitions."""
    busy = Member("1", "alice", "h", frozenset({P, Q}))
    looks = [({P: 100 * at, Q: grown * at}, {P: 100 * at + 900, Q: grown * at}) for at in range(3)]
    assert last(*looks, members=(busy,)) is None


def test_an_even_backlog_is_no_hindrance() -> None:
    """That is what members are for."""
    looks = [({P: 100 * at, Q: 100 * at}, {P: 100 * at + 900, Q: 100 * at + 900}) for at in range(4)]
    assert last(*looks) is None


class Counted(tuple[str, int]):
    """A partition that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        Counted.looked_up += 1
        return super().__hash__()


def lookups(partitions: int) -> int:
    """Return how often partitions are looked up in seven looks at one reader of them all, half of which it gets on in."""
    them = [Counted(("orders", number)) for number in range(partitions)]
    looks = [
        ({each: at * (minute if each[1] % 2 else min(minute, 2)) for each in them}, dict.fromkeys(them, 100 * minute + 900))
        for minute, at in enumerate([0, 1, 2, 3, 4, 5, 6])
    ]
    Counted.looked_up = 0
    found_each_minute(*looks, members=(Member("1", "alice", "h", frozenset(them)),))
    return Counted.looked_up


def test_a_reader_of_very_many_partitions_costs_no_more_for_each() -> None:
    """Whoever joins a group chooses how many it reads. Something quadratic would look up 64 times as often, not 8."""
    assert lookups(800) < 12 * lookups(100)
