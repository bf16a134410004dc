"""The figures of the last minutes, built only when somebody looks: an oracle that tries plans never pays for them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.windows import Float32


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes in a row whose figures are not built.

    Attributes:
        minutes: m, those that are seen.
        fill: writes the figures into float32 [F, N, B, h + m].
        hidden: h, minutes before them that ``fill`` writes as well, so that it writes whole planes in one run, and nobody sees.
    """

    minutes: int
    fill: Callable[[Float32], None]
    hidden: int


@dataclass(frozen=True, slots=True)
class Recent:
    """The last ``keep`` minutes of B rows: figures that are built, then minutes whose figures are not.

    Attributes:
        keep: minutes.
        built: float32 [F, N, B, m], oldest first; None for no minutes.
        shape: (F, N, B).
        waiting: later stretches of time.
    """

    keep: int
    shape: tuple[int, int, int]
    built: Float32 | None = None
    waiting: tuple[Stretch, ...] = ()

    def then(self, minutes: int, fill: Callable[[Float32], None], hidden: int = 0) -> "Recent":
        """Return what is recent after another ``Stretch`` of time; what is older than ``keep`` is dropped unbuilt."""
        waiting, known = [Stretch(minutes, fill, hidden)], minutes
        for stretch in reversed(self.waiting):
            if known >= self.keep:
                break
            waiting.append(stretch)
            known += stretch.minutes
        return Recent(self.keep, self.shape, self.built if known < self.keep else None, tuple(reversed(waiting)))

    def repeated(self, times: int) -> "Recent":
        """Return what so many times the rows begin with: no minutes yet."""
        figures, tasks, rows = self.shape
        return Recent(self.keep, (figures, tasks, rows * times))

    def seen(self) -> "Recent":
        """Return the same with all figures built."""
        if not self.waiting:
            return self
        fresh = sum(stretch.minutes for stretch in self.waiting)
        old = 0 if self.built is None else min(self.built.shape[-1], self.keep - fresh)
        lead = max(0, self.waiting[0].hidden - old)
        whole = np.empty((*self.shape, lead + old + fresh), dtype=np.float32)
        end = whole.shape[-1]
        for stretch in reversed(self.waiting):  # newest first: hidden minutes are written over by those before
            stretch.fill(whole[..., end - stretch.minutes - stretch.hidden : end])
            end -= stretch.minutes
        if self.built is not None:
            whole[..., lead : lead + old] = self.built[..., self.built.shape[-1] - old :]
        return Recent(self.keep, self.shape, whole[..., lead:][..., -self.keep :])


def as_figures(planes: Float32) -> Float32:
    """Return planes [F, N, B, L] as figures [B, L, N, F], without moving a byte: each figure stays contiguous."""
    return planes.transpose(2, 3, 1, 0)
