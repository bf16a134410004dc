"""The load of eight days in blocks of five minutes, as codes of two bytes. Pure.

Hours do not tell at which minute a load rises. A window carries 2,304 means, each within a quarter of a per cent: a code is 0 for
an unknown block, 1 for one without a record, and else counts half per cents from a thousandth of a record a minute on.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS

BLOCK_MINUTES = 5
BLOCK_MS = BLOCK_MINUTES * MINUTE_MS
HOUR_BLOCKS = 60 // BLOCK_MINUTES
BLOCKS = 192 * HOUR_BLOCKS  # eight days

Codes = npt.NDArray[np.uint16]

_STEP = 0.005
_LEAST = 1e-3  # records a minute
_ZERO = 1
CODE_MAX = 8_300  # 10^15 records a minute


def unknown_blocks() -> Codes:
    """Return uint16 [2304] of unknown blocks."""
    return np.zeros(BLOCKS, dtype=np.uint16)


def coded(load: npt.NDArray[np.floating]) -> Codes:
    """Return the codes [..] of means in records a minute; NaN: unknown."""
    steps = np.log(np.maximum(np.nan_to_num(load), _LEAST) / _LEAST) / _STEP
    codes = np.where(load >= _LEAST, np.minimum(_ZERO + 1 + np.rint(steps), CODE_MAX), _ZERO)
    found: Codes = np.where(np.isnan(load), 0, codes).astype(np.uint16)
    return found


def decoded(codes: Codes) -> npt.NDArray[np.float64]:
    """Return the means [..] in records a minute; NaN where unknown.

    >>> decoded(coded(np.array([0.0, 40.0, np.nan]))).round(0).tolist()
    [0.0, 40.0, nan]
    """
    steps = codes.astype(np.float64) - (_ZERO + 1)
    load = np.where(codes > _ZERO, _LEAST * np.exp(_STEP * steps), 0.0)
    known = (codes > 0) & (codes <= CODE_MAX)
    return np.where(known, load, np.nan)


@dataclass(slots=True, eq=False)
class BlockLoads:
    """The blocks of one job.

    Attributes:
        codes: uint16 [2304], each block at its number since the epoch, modulo their number.
        newest: the number of the newest block that was closed; -1: none was.
    """

    codes: Codes = field(default_factory=unknown_blocks)
    newest: int = -1

    def __eq__(self, other: object) -> bool:
        """Compare what is known."""
        if not isinstance(other, BlockLoads):
            return NotImplemented
        return self.newest == other.newest and np.array_equal(self.codes, other.codes)

    def close(self, minute_end_ms: int, loads: list[float]) -> None:
        """Add the block that ends with this minute, from the load of its minutes; NaN: unknown. No other minute ends one.

        Those that were skipped are unknown.
        """
        number, rest = divmod(minute_end_ms, BLOCK_MS)
        number -= 1
        if rest or number <= self.newest:
            return
        skipped = range(max(self.newest + 1, number - BLOCKS + 1), number) if self.newest >= 0 else ()
        for each in skipped:
            self.codes[each % BLOCKS] = 0
        known = [load for load in loads if not math.isnan(load)]
        mean = math.fsum(known) / len(known) if known else math.nan
        self.codes[number % BLOCKS] = coded(np.array(mean))
        self.newest = number

    def until(self, minute_end_ms: int) -> Codes:
        """Return the codes [2304] of the hours up to the one that a minute ends in, oldest first; later blocks are unknown."""
        first = first_block(minute_end_ms)
        numbers = np.arange(first, first + BLOCKS)
        is_kept = (numbers <= self.newest) & (numbers > self.newest - BLOCKS)
        found: Codes = np.where(is_kept, self.codes[numbers % BLOCKS], 0).astype(np.uint16)
        return found


def first_block(minute_end_ms: int) -> int:
    """Return the number of the oldest block in a window that ends then."""
    hour = (minute_end_ms - 1) // (HOUR_BLOCKS * BLOCK_MS)
    return (hour + 1) * HOUR_BLOCKS - BLOCKS
