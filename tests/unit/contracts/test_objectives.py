"""How an objective is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.objectives import WORDS, in_words, read_objective

BOUNDS = st.builds(
    LatencyBound,
    seconds=st.integers(1, 86_400).map(float),
    share=st.integers(1, 5_000).map(lambda number: number / 10_000),
)


@given(objective=st.sampled_from(WORDS) | BOUNDS)
def test_what_is_written_is_read_back(objective: str | LatencyBound) -> None:
    """In the words that ``job settings`` prints."""
    assert read_objective(in_words(objective) or "") == objective  # type: ignore[arg-type]


def test_a_share_may_be_left_out_or_be_in_per_cent() -> None:
    """One in a hundred unless told."""
    assert read_objective("latency=30") == read_objective("latency=30@1%") == LatencyBound(seconds=30.0, share=0.01)
    assert in_words(None) is None


@pytest.mark.parametrize(
    "text", ["", "latency=", "latency=0", "latency=-3", "latency=nan", "latency=30@", "latency=30@0", "latency=30@60%", "speed=3"]
)
def test_anything_else_is_refused_with_how_to_write_it(text: str) -> None:
    """One line."""
    with pytest.raises(SettingsError, match=r"^--objective: .*latency=SECONDS") as refused:
        read_objective(text)
    assert "\n" not in str(refused.value)
    assert "`" not in str(refused.value)
