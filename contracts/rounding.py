"""The only rounding function: every ratio becomes an integer parallelism here."""

import math


def round_half_up(value: float) -> int:
    """Round to the nearest integer, halves up (2.5 -> 3), so that a ratio of 1.5 scales out a single subtask.

    Python's ``round`` goes to the even neighbour, so a ratio's effect would depend on parity.

    Raises:
        ValueError: the value is NaN or infinite.
    """
    if not math.isfinite(value):
        raise ValueError(f"cannot round {value}: it is not a finite number")
    # floor(value + 0.5) is wrong for 0.49999999999999994, whose sum with 0.5 rounds to 1.0.
    whole = math.floor(value)
    return whole + 1 if value - whole >= 0.5 else whole
