"""Moving vnodes between units."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.reschedule import least_moved
from surescale.contracts.vnodes import uniform_mapping
from surescale.rescaler.vnodes import moved_between_hosts, moved_count, remapped


def test_from_two_to_three_units_moves_85_of_256() -> None:
    """The remainder goes to units that hold most, so 85 vnodes move and not 86."""
    before = uniform_mapping([1, 2], 256)
    after = remapped(before, [1, 2, 3])
    assert moved_count(before, after) == least_moved(before, [1, 2, 3]) == 85
    assert sorted(Counter(after).values()) == [85, 85, 86]


def test_scaling_in_moves_only_what_the_removed_unit_held() -> None:
    """Units that stay keep everything they have."""
    before = uniform_mapping([1, 2, 3, 4], 8)
    assert remapped(before, [1, 2, 4]) == (1, 1, 2, 2, 1, 2, 4, 4)


def test_migration_moves_one_unit_to_another() -> None:
    """A replaced unit hands everything to its successor."""
    assert remapped((1, 1, 2, 2), [1, 7]) == (1, 1, 7, 7)


def test_the_same_units_evenly_mapped_move_nothing() -> None:
    """An even mapping is left alone."""
    before = uniform_mapping([1, 2, 3], 256)
    assert remapped(before, [3, 2, 1]) == before


def test_a_skewed_mapping_becomes_even_with_the_fewest_moves() -> None:
    """Units that hold too much give up just the surplus."""
    assert remapped((1, 1, 1, 1, 1, 2, 2, 3), [1, 2, 3]) == (1, 1, 1, 2, 3, 2, 2, 3)


def test_the_larger_share_stays_with_the_unit_that_holds_most() -> None:
    """Not the lowest id but the fullest unit gets the remainder."""
    assert remapped((1, 2, 2), [1, 2]) == (1, 2, 2)


@pytest.mark.parametrize(("units", "moved"), [([1], 128), ([1, 2, 3, 4], 128), ([3, 4], 256), (list(range(1, 257)), 254)])
def test_least_moved(units: list[int], moved: int) -> None:
    """The formula, worked by hand for a uniform mapping over two units."""
    assert least_moved(uniform_mapping([1, 2], 256), units) == moved


def test_vnodes_go_to_units_of_the_same_host_first() -> None:
    """The same number moves, and as few as possible between hosts."""
    before, hosts = uniform_mapping((0, 1, 2), 12), {0: "a", 1: "a", 2: "b", 3: "b", 4: "a"}
    near, anyhow = remapped(before, (0, 3, 4), hosts), remapped(before, (0, 3, 4))
    assert moved_count(before, near) == moved_count(before, anyhow) == 8
    assert (moved_between_hosts(before, near, hosts), moved_between_hosts(before, anyhow, hosts)) == (0, 8)


def test_what_a_dead_unit_held_comes_from_elsewhere() -> None:
    """A unit without a host counts as another host."""
    assert moved_between_hosts((0, 0, 1), (2, 2, 1), {1: "a", 2: "a"}) == 2
