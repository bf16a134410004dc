"""The figures of the last minutes, built on demand: an oracle that tries plans never pays for them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, Float32


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive minutes without built figures.

    Attributes:
        minutes: m, the visible ones.
        fill: writes the figures into float32 [F, N, B, h + m].
        hidden: h, earlier minutes that ``fill`` writes too, so that it fills whole planes in one run; they are never shown.
    """

    minutes: int
    fill: Callable[[Float32], None]
    hidden: int


@dataclass(frozen=True, slots=True)
class Recent:
    """The last ``keep`` minutes of B rows: built figures, then minutes without figures.

    Attributes:
        keep: minutes.
        built: float32 [F, N, B, m], oldest first.
        waiting: later stretches of time.
    """

    keep: int
    built: Float32
    waiting: tuple[Stretch, ...] = ()

    @classmethod
    def empty(cls, keep: int, shape: tuple[int, int, int]) -> "Recent":
        """Return no minutes yet, of shape (F, N, B)."""
        return cls(keep, np.empty((*shape, 0), dtype=np.float32))

    def then(self, minutes: int, fill: Callable[[Float32], None], hidden: int = 0) -> "Recent":
        """Return the recent minutes after another ``Stretch``; minutes older than ``keep`` are dropped without being built."""
        waiting, known = [Stretch(minutes, fill, hidden)], minutes
        for stretch in reversed(self.waiting):
            if known >= self.keep:
                break
            waiting.append(stretch)
            known += stretch.minutes
        built = self.built if known < self.keep else self.built[..., :0].copy()  # a view would keep the old minutes in memory
        return Recent(self.keep, built, tuple(reversed(waiting)))

    def emptied(self, rows: int) -> "Recent":
        """Return empty recent minutes for this many rows."""
        figures, tasks, _, _ = self.built.shape
        return Recent.empty(self.keep, (figures, tasks, rows))

    def seen(self) -> "Recent":
        """Return the same with all figures built."""
        if not self.waiting:
            return self
        fresh = sum(stretch.minutes for stretch in self.waiting)
        known = self.built.shape[-1]
        old = max(0, min(known, self.keep - fresh))
        lead = max(0, self.waiting[0].hidden - old)
        whole = np.empty((*self.built.shape[:-1], lead + old + fresh), dtype=np.float32)
        end = whole.shape[-1]
        for stretch in reversed(self.waiting):  # newest first: earlier stretches overwrite the hidden minutes
            stretch.fill(whole[..., end - stretch.minutes - stretch.hidden : end])
            end -= stretch.minutes
        whole[..., lead : lead + old] = self.built[..., known - old :]
        return Recent(self.keep, whole[..., lead:][..., -self.keep :])


def as_figures(planes: Float32) -> Float32:
    """Return planes [F, N, B, L] as figures [B, L, N, F], without moving a byte: each figure stays contiguous."""
    return planes.transpose(2, 3, 1, 0)


def fill_added(planes: Float32) -> None:
    """Write the figures that only some engines have into planes [F, N, B, m]: unknown, except the time that a minute covers.

    ``arrived`` of the source is left to the core.
    """
    planes[FIGURE["arrived"] :] = np.nan
    planes[FIGURE["covered_ms"]] = MINUTE_MS
