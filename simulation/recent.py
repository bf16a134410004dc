"""The figures of the last minutes, built only when somebody looks: an oracle that tries plans never pays for them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contracts.windows import Float32


@dataclass(frozen=True, slots=True)
class Recent:
    """The last ``keep`` minutes of B rows: figures that are built, then minutes whose figures are not.

    Attributes:
        keep: minutes.
        built: float32 [F, N, B, m], oldest first; None for no minutes.
        shape: (F, N, B).
        waiting: per later stretch of time its minutes and what fills its figures, float32 [F, N, B, m], in.
    """

    keep: int
    shape: tuple[int, int, int]
    built: Float32 | None = None
    waiting: tuple[tuple[int, Callable[[Float32], None]], ...] = ()

    def then(self, minutes: int, fill: Callable[[Float32], None]) -> "Recent":
        """Return what is recent after another stretch of time; what is older than ``keep`` is dropped unbuilt."""
        waiting, known = [(minutes, fill)], minutes
        for stretch in reversed(self.waiting):
            if known >= self.keep:
                break
            waiting.append(stretch)
            known += stretch[0]
        return Recent(self.keep, self.shape, self.built if known < self.keep else None, tuple(reversed(waiting)))

    def repeated(self, times: int) -> "Recent":
        """Return what so many times the rows begin with: no minutes yet."""
        figures, tasks, rows = self.shape
        return Recent(self.keep, (figures, tasks, rows * times))

    def seen(self) -> "Recent":
        """Return the same with all figures built."""
        if not self.waiting:
            return self
        fresh = sum(minutes for minutes, _ in self.waiting)
        old = 0 if self.built is None else min(self.built.shape[-1], self.keep - fresh)
        whole = np.empty((*self.shape, old + fresh), dtype=np.float32)
        if self.built is not None:
            whole[..., :old] = self.built[..., self.built.shape[-1] - old :]
        at = old
        for minutes, fill in self.waiting:
            fill(whole[..., at : at + minutes])
            at += minutes
        return Recent(self.keep, self.shape, whole[..., -self.keep :])


def as_figures(planes: Float32) -> Float32:
    """Return planes [F, N, B, L] as figures [B, L, N, F], without moving a byte: each figure stays contiguous."""
    return planes.transpose(2, 3, 1, 0)
