"""Sizes that divide key groups and partitions evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.alignment import COST_MAX, aligned, even_size


@pytest.mark.parametrize(
    ("wanted", "dealt", "size"),
    [
        (7, 128, 8),  # one subtask more, and every one has 16 key groups
        (100, 128, 64),  # no divisor near above; 64 are as fast as 100, where the busiest has 2 as well
        (5, 7, 4),  # 7 would be 40 % more; with 4 the busiest has two, as with 5
        (6, 7, 7),
        (9, 6, 6),  # more subtasks than partitions: the rest would have nothing
        (1, 128, 1),
        (128, 128, 128),
    ],
)
def test_the_next_even_size_or_the_fewest_that_are_as_fast(wanted: int, dealt: int, size: int) -> None:
    """Up to a quarter more for an even deal; else nothing is paid for what does not help."""
    assert even_size(wanted, dealt, 1, 1_000) == size


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 400), st.integers(1, 400))
def test_an_even_size_costs_little_and_is_never_slower(wanted: int, dealt: int, least: int, most: int) -> None:
    """At most a quarter more subtasks; the busiest never has more than before; bounds hold where ``wanted`` held them."""
    size = even_size(wanted, dealt, least, most)
    assert 1 <= size <= wanted * (1 + COST_MAX)
    assert -(-dealt // size) <= -(-dealt // wanted) or size > dealt
    if least <= wanted <= most:
        assert least <= size <= most


def test_only_what_changes_is_aligned_and_growth_stays_growth() -> None:
    """A task that stays is not restarted for evenness; 70 that grow to 100 do not shrink to 64."""
    current, desired, dealt = np.array([7, 70, 30, 5]), np.array([7, 100, 20, 6]), np.array([128, 128, 128, 0])
    least, most = np.ones(4, dtype=np.int64), np.full(4, 1_000)
    assert aligned(desired, current, dealt, least, most).tolist() == [7, 70, 19, 6]
