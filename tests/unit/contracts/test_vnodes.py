"""Vnodes in blocks of equal size."""

from surescale.contracts.vnodes import uniform_counts, uniform_mapping


def test_the_first_units_hold_one_vnode_more() -> None:
    """Blocks follow the order of unit ids, and the remainder goes to the lowest ids."""
    assert uniform_mapping([9, 2, 5], 8) == (2, 2, 2, 5, 5, 5, 9, 9)
    assert uniform_counts([9, 2, 5], 8) == {2: 3, 5: 3, 9: 2}


def test_a_unit_named_twice_holds_one_block() -> None:
    """Two subtasks may share a unit."""
    assert uniform_mapping([1, 1, 2], 4) == (1, 1, 2, 2)


def test_without_units_nothing_is_mapped() -> None:
    """A job that waits has none."""
    assert uniform_mapping([], 256) == ()
