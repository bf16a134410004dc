"""The search that calibrates a rule: rounds of places, each around the middle of the best ones so far. Pure.

The single best place of a noisy score is mostly luck, and constants tuned to it do badly in the next week. So the search chooses
only *middles* of good places (or the shipped constants): if the middle of several good places is good, the optimum is flat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
ROUNDS = 3
BEST = 5  # number of places whose middle is taken
NEAR_START = 0.12  # half of the first round lies within this distance of the start, per axis
SPREAD_MIN = 0.03  # of a round around a middle, per axis

Constant = float | int | str


@dataclass(frozen=True, slots=True)
class Axis:
    """One constant of a rule: a range (``low`` to ``high``, logarithmic if ``log``) or a choice of ``values``."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    values: tuple[Constant, ...] = ()

    def value(self, unit: float) -> Constant:
        """Return the constant at a place in [0, 1]."""
        if self.values:
            return self.values[int(choice_of(unit, len(self.values)))]
        if self.log:
            return float(round(self.low * (self.high / self.low) ** unit, 4))
        return float(round(self.low + (self.high - self.low) * unit, 4))

    def place(self, value: Constant) -> float:
        """Return the place of a constant in [0, 1]; outside the range, the nearest end."""
        if self.values:
            return (self.values.index(value) + 0.5) / len(self.values)
        number = float(value)
        share = (
            np.log(number / self.low) / np.log(self.high / self.low) if self.log else (number - self.low) / (self.high - self.low)
        )
        return float(np.clip(share, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Found:
    """The chosen place [D] in the unit box, and its own score."""

    place: Float64
    score: float


Scores = Callable[[Float64], Float64]  # places [C, D] -> scores [C]


def spread(count: int, axes: int, first: int = 1) -> Float64:
    """Return ``count`` places [C, D] of the Halton sequence (a prime base per axis), from its ``first`` term on."""
    places = np.zeros((count, axes))
    for axis in range(axes):
        base = _PRIMES[axis]
        index, share = np.arange(first, first + count), 1.0 / base
        while index.any():
            places[:, axis] += share * (index % base)
            index, share = index // base, share / base
    return places


def flat_optimum(scores: Scores, start: Float64, choices: Sequence[int], count: int) -> Found:
    """Search the unit box from ``start`` [D] in ``ROUNDS`` rounds of ``count`` places each, then score the last middle.

    ``choices`` [D]: number of values on an axis of choices, 0 for a range. The middle of choices is what most good places chose.
    """
    picks = np.array(choices)
    far = count // 2
    near = _around(start, np.full(len(start), NEAR_START), picks, spread(count - 1 - far, len(start), first=1 + far))
    places = np.vstack([start, spread(far, len(start)), near])
    values = scores(places)
    centres = [0]
    for round_ in range(1, ROUNDS + 1):
        middle, width = middle_of(places, values, picks)
        fresh = middle[None]
        if round_ < ROUNDS:
            fresh = np.vstack([middle, _around(middle, width, picks, spread(count - 1, len(start), first=1 + round_ * count))])
        centres.append(len(places))
        places, values = np.vstack([places, fresh]), np.concatenate([values, scores(fresh)])
    chosen = max(centres, key=lambda index: values[index])
    return Found(place=places[chosen], score=float(values[chosen]))


def choice_of(places: Float64 | float, picks: Int64 | int) -> Float64:
    """Return which of ``picks`` values the places in [0, 1] stand for; 0 on a range."""
    chosen: Float64 = np.clip(np.floor(places * np.asarray(picks)), 0, np.maximum(picks, 1) - 1)
    return chosen


def middle_of(places: Float64, values: Float64, picks: Int64) -> tuple[Float64, Float64]:
    """Return the middle [D] of the ``BEST`` places with the most common choices among the best, and their spread [D]."""
    order = np.argsort(-values, kind="stable")
    chosen = choice_of(places, picks)
    best = chosen[order[:BEST]]
    alike = (best[:, None] == best[None]).all(axis=-1).sum(axis=1)
    prevailing = best[int(np.argmax(alike))]
    same = places[order[(chosen[order] == prevailing).all(axis=1)]][:BEST]
    middle = np.where(picks > 0, (prevailing + 0.5) / np.maximum(picks, 1), same.mean(axis=0))
    return middle, np.maximum(same.std(axis=0), SPREAD_MIN)


def _around(middle: Float64, width: Float64, picks: Int64, units: Float64) -> Float64:
    """Return places near a middle; an axis of choices keeps its value at half of them."""
    near = np.clip(middle + 2.0 * width * (2.0 * units - 1.0), 0.0, 1.0)
    other = np.where(units < 0.5, middle, 2.0 * units - 1.0)
    return np.where(picks > 0, other, near)


def constants(axes: Sequence[Axis], place: Float64) -> dict[str, Constant]:
    """Return the constants at a place."""
    return {axis.name: axis.value(float(unit)) for axis, unit in zip(axes, place, strict=True)}
