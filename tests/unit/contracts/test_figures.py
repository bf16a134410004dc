"""The gate for figures from outside: a number of 0 to 2^53, or unknown."""

import math

import pytest

from surescale.contracts.figures import FIGURE_MAX, known_count, known_number

ABSURD = [math.nan, math.inf, -math.inf, -1, -0.1, 1e300, FIGURE_MAX + 1, 2**70, 10**5_000, None, True, [], {}, b"1"]
WORDS = ["", "NaN", "nan", "inf", "-Inf", "1e999", "-5", "9" * 5_000, "9" * 30, "0x10", "1_000", "\u0661", "1 2", "one", "1e"]


@pytest.mark.parametrize("said", [*ABSURD, *WORDS], ids=range(len(ABSURD + WORDS)))
def test_what_is_no_figure_is_unknown(said: object) -> None:
    """Never 0, and never an error."""
    assert known_number(said) is None
    assert known_count(said) is None


@pytest.mark.parametrize(
    ("said", "number"), [(0, 0.0), ("0", 0.0), (12.5, 12.5), ("1.5e3", 1500.0), (" 7 ", 7.0), (FIGURE_MAX, 2.0**53)]
)
def test_a_figure_keeps_its_value(said: object, number: float) -> None:
    """As a number; a count of it is rounded down."""
    assert known_number(said) == number
    assert known_count(said) == math.floor(number)
