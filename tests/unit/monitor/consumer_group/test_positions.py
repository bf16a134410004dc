"""What offsets tell of a group: what waits, since when, and when more members cannot help."""

from collections.abc import Mapping

import pytest

from contracts.clock import MINUTE_MS
from engines.groups.broker import GroupDescription, Member
from engines.kafka.offsets import Partition
from monitor.sources.consumer_group.positions import Hindrance, Positions

P, Q = ("orders", 0), ("orders", 1)
ALICE, BOB = Member("1", "alice", "h", frozenset({P})), Member("2", "bob", "h", frozenset({Q}))


def group(committed: Mapping[Partition, int], *members: Member) -> GroupDescription:
    """Return a group that has come so far."""
    return GroupDescription("g", "stable", members, "range", dict(committed))


class Following(Positions):
    """Positions that keep the last hindrance."""

    __slots__ = ("found",)
    found: Hindrance | None


def followed(
    *looks: tuple[Mapping[Partition, int], Mapping[Partition, int]], members: tuple[Member, ...] = (ALICE, BOB)
) -> Following:
    """Return positions after looks a minute apart, each with committed offsets and ends."""
    positions = Following()
    for minute, (committed, ends) in enumerate(looks):
        positions.look(group(committed, *members), ends, minute * MINUTE_MS)
        positions.found = positions.hindrance(members, minute * MINUTE_MS)
    return positions


def test_what_waits_is_the_distance_to_the_end() -> None:
    """And what was got through is how far the group moved; of a partition without a commit nobody knows."""
    positions = followed(({P: 10}, {P: 10, Q: 0}), ({P: 25}, {P: 30, Q: 7}))
    assert positions.lag == {P: 5, Q: None}
    assert positions.grown == {P: 15}
    assert positions.lag_ms is None


def test_a_partition_that_was_empty_counts_from_its_first_record() -> None:
    """Nobody had committed there; where records lay before the first commit, only what came since is sure."""
    assert followed(({}, {P: 0, Q: 30}), ({P: 10, Q: 35}, {P: 10, Q: 40})).grown == {P: 10, Q: 5}


def test_records_that_came_before_the_first_commit_count_with_it() -> None:
    """However many looks the first commit is behind them."""
    looks = ({}, {P: 0}), ({}, {P: 80}), ({}, {P: 100})
    assert followed(*looks, ({P: 100}, {P: 100})).grown == {P: 100}


def test_an_offset_that_the_broker_leaves_out_once_loses_nothing() -> None:
    """The growth is counted from the commit before."""
    assert followed(({P: 10}, {P: 20}), ({}, {P: 30}), ({P: 30}, {P: 30})).grown == {P: 20}


def test_an_offset_that_was_reset_counts_for_nothing() -> None:
    """Somebody has put the group back to read again."""
    assert followed(({P: 50}, {P: 50}), ({P: 10}, {P: 60})).grown == {P: 0}


def test_the_age_of_the_oldest_record_is_when_the_end_passed_it() -> None:
    """Read off the ends of earlier looks: 150 was reached half a minute before the last look but one."""
    positions = followed(({P: 100}, {P: 100}), ({P: 120}, {P: 200}), ({P: 150}, {P: 200}))
    assert positions.lag_ms == 1.5 * MINUTE_MS
    assert followed(({P: 100}, {P: 100})).lag_ms == 0
    assert followed(({P: 50}, {P: 100})).lag_ms is None  # before anybody looked


def test_a_partition_that_does_not_move_is_stuck_after_three_minutes() -> None:
    """It is named with its offset and reader; members may still be added for the other partition's work."""
    looks = [({P: 40, Q: 100 * minute}, {P: 50, Q: 100 * minute + 50}) for minute in range(5)]
    assert followed(*looks[:3]).found is None
    found = followed(*looks[:4]).found
    assert found is not None
    assert found.words.startswith("partition orders[0] has not moved from offset 40 for 3 minutes while 10 records wait")
    assert "alice" in found.words
    assert not found.caps
    assert followed(*looks[:4], ({P: 41, Q: 400}, {P: 50, Q: 450})).found is None


def test_no_member_is_added_when_nearly_all_work_waits_behind_a_stuck_record() -> None:
    """More members would stand still as well."""
    found = followed(*[({P: 40, Q: 10}, {P: 50 + minute, Q: 10}) for minute in range(4)]).found
    assert found is not None
    assert found.caps


def test_a_hot_partition_with_a_reader_of_its_own_caps_the_group() -> None:
    """At the second look: once may be chance."""
    looks = [({P: 100 * minute, Q: 10 * minute}, {P: 100 * minute + 900, Q: 10 * minute}) for minute in range(3)]
    assert followed(*looks[:1]).found is None
    found = followed(*looks).found
    assert found is not None
    assert found.caps
    assert found.words.startswith("100 % of the waiting records are in partition orders[0], which has a reader of its own")


@pytest.mark.parametrize("grown", [50, 100])
def test_a_reader_with_other_work_can_be_helped(grown: int) -> None:
    """Another member would take its other partitions."""
    busy = Member("1", "alice", "h", frozenset({P, Q}))
    looks = [({P: 100 * at, Q: grown * at}, {P: 100 * at + 900, Q: grown * at}) for at in range(3)]
    assert followed(*looks, members=(busy,)).found is None


def test_an_even_backlog_is_no_hindrance() -> None:
    """That is what members are for."""
    looks = [({P: 100 * at, Q: 100 * at}, {P: 100 * at + 900, Q: 100 * at + 900}) for at in range(4)]
    assert followed(*looks).found is None
