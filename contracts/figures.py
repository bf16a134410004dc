"""The gate for figures from outside, such as an engine's answer, a member's counter or a label: a usable number, or unknown."""

import math

FIGURE_MAX = 2**53
"""Up to here a float holds every whole number, and messages take it."""
_LETTERS_MAX = 64


def known_number(said: object) -> float | None:
    """Return what somebody else said as a number of 0 to 2^53; None, which is unknown, for anything else.

    Not a number, infinite, negative, absurdly large, a word: none of these is a figure, and none of them is 0.

    >>> known_number("12.5"), known_number(7), known_number(float("nan")), known_number("9" * 5_000), known_number(True)
    (12.5, 7.0, None, None, None)
    """
    if isinstance(said, str):
        is_number = len(said) <= _LETTERS_MAX and said.isascii() and "_" not in said  # Python alone reads 1_000 as a number
        try:
            said = float(said) if is_number else None
        except ValueError:
            return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said <= FIGURE_MAX:  # false for NaN too
        return None
    return float(said)


def known_count(said: object) -> int | None:
    """Return what somebody else said as a whole number of 0 to 2^53, rounded down; None, which is unknown, for anything else.

    >>> known_count("9400"), known_count(3.9), known_count(-1), known_count(1e300)
    (9400, 3, None, None)
    """
    found = known_number(said)
    return None if found is None else math.floor(found)
