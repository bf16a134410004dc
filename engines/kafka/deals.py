"""How unequal partitions are, and how fast each number of readers is by that. Pure.

A partition cannot be divided, so a reader that has two hot ones is slower than all others, and how many there are of these does
not help it. Which size parts them follows from how partitions are dealt out. Assignors that keep what members have deal so that
nobody can tell who gets what: there the mean of some deals counts, and of the present size what it really has.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import Carries
from surescale.engines.kafka.positions import Partition

MEMORY_MS = 15 * MINUTE_MS
"""Records that came so long ago count a third: policies compare subtasks over as long."""
UNEVEN_LEAST, CHANCE = 0.1, 2.0
"""By so much more than the mean must the fullest partition get, and so many times what chance gives it."""
STEP_LEAST = 1.05
"""Times as fast must a size be as the one before it to be listed."""
MOVED_LEAST = 0.1
"""By so much must some size have become faster or slower for another list to be told."""
DEALS, WORST = 16, -3
"""Deals that are tried where nobody can tell, and which of them, the best first, counts for fewer members than there are."""
PARTITIONS_MAX = 512
"""With more of them, deals are as good as even, but for what the busiest subtask shows."""

_Weights = npt.NDArray[np.float64]


@dataclass(slots=True)
class Rates:
    """Follows how many records come into the partitions of one reader."""

    _came: dict[Partition, float] = field(default_factory=dict)
    _at_ms: int | None = None
    _told: tuple[Carries, ...] = ()
    _told_for: tuple[object, ...] = ()

    def add(self, arrived: Mapping[Partition, int], at_ms: int) -> None:
        """Take into account what came since the look before; partitions that are missing are unknown."""
        left = 1.0 if self._at_ms is None else math.exp(min(0, self._at_ms - at_ms) / MEMORY_MS)
        self._came = {each: left * self._came.get(each, 0.0) + came for each, came in arrived.items()}
        self._at_ms = at_ms

    def carries(
        self, assignor: str, useful: int, members: Sequence[Collection[Partition]], *, together: bool = False
    ) -> tuple[Carries, ...]:
        """Return ``TaskSpec.carries``; empty where partitions are alike, as far as that shows.

        Args:
            assignor: ``range``, ``roundrobin``, or one that keeps what members have.
            useful: most members that can have a partition.
            members: the partitions that each has now.
            together: the partitions of one number of all topics go to one member.
        """
        present = (assignor, useful, len(members), len(self._came))
        found = self._carries("" if together else assignor, useful, members, self._weights(together=together))
        if self._told_for != present or _differ(found, self._told, useful):
            self._told, self._told_for = found, present
        return self._told

    def _weights(self, *, together: bool) -> _Weights:
        if not together:
            return np.array([self._came[each] for each in sorted(self._came)])
        numbers: dict[int, float] = {}
        for (_, number), came in self._came.items():
            numbers[number] = numbers.get(number, 0.0) + came
        return np.array(list(numbers.values()))

    def _carries(
        self, assignor: str, useful: int, members: Sequence[Collection[Partition]], weights: _Weights
    ) -> tuple[Carries, ...]:
        if not 1 < len(weights) <= PARTITIONS_MAX or not _are_uneven(weights):
            return ()
        total = float(weights.sum())
        has = [sum(self._came.get(each, 0.0) for each in mine) for mine in members]
        is_told = bool(has) and sum(has) >= (1.0 - MOVED_LEAST) * total
        now = total / max(has) if is_told else None
        topics = _by_topic(self._came) if assignor == "range" else [weights]
        values: dict[int, float] = {}
        if assignor in ("range", "roundrobin"):
            index = _ranges if assignor == "range" else _in_turn
            values = {size: total / _fullest(topics, size, index) for size in range(1, useful + 1)}
        explained = values.get(min(len(members), useful), 0.0)
        if not values or (now is not None and abs(now / explained - 1.0) > MOVED_LEAST):
            values = _of_any_deal(weights, useful, len(members))
            if now is not None:  # members keep what they have: fewer are no faster, more are no slower
                values |= {
                    size: min(value, now) if size < len(members) else max(value, now) for size, value in values.items()
                } | {min(len(members), useful): now}
        return _steps(values, min(len(members), useful))


def _are_uneven(weights: _Weights) -> bool:
    mean = float(weights.mean())
    if mean <= 0.0:
        return False
    chance = math.sqrt(2.0 * math.log(len(weights)) / mean)
    return float(weights.max()) / mean - 1.0 > max(UNEVEN_LEAST, CHANCE * chance)


def _by_topic(came: Mapping[Partition, float]) -> list[_Weights]:
    topics: dict[str, list[float]] = {}
    for each in sorted(came):
        topics.setdefault(each[0], []).append(came[each])
    return [np.array(weights) for weights in topics.values()]


def _ranges(things: int, size: int) -> npt.NDArray[np.int64]:
    """Return who of so many has each of the things, as Kafka's range assignor deals them: the first have one more."""
    each, more = divmod(things, size)
    return np.repeat(np.arange(size), [each + 1] * more + [each] * (size - more))


def _in_turn(things: int, size: int) -> npt.NDArray[np.int64]:
    return np.arange(things) % size


def _fullest(topics: Iterable[_Weights], size: int, index: Callable[[int, int], npt.NDArray[np.int64]]) -> float:
    """Return what the fullest of so many has, where each topic is dealt out by itself."""
    total = np.zeros(size)
    for weights in topics:
        total += np.bincount(index(len(weights), size), weights, minlength=size)
    return float(total.max())


def _of_any_deal(weights: _Weights, useful: int, present: int) -> dict[int, float]:
    """Return what to expect of some deals, for sizes from which on each subtask has one thing less.

    Of more subtasks than at present the mean counts. Of fewer nearly the worst: what has been parted would have to be again.
    """
    random, total = np.random.default_rng(len(weights)), float(weights.sum())
    deals = [random.permutation(weights) for _ in range(DEALS)]
    sizes = sorted({-(-len(weights) // each) for each in range(1, len(weights) + 1)} | {1, useful})
    found: dict[int, float] = {}
    for size in (size for size in sizes if size <= useful):
        fullest = sorted(_fullest([deal], size, _ranges) for deal in deals)
        found[size] = total / (fullest[WORST] if size < present else float(np.mean(fullest)))
    return found


def _steps(values: Mapping[int, float], present: int) -> tuple[Carries, ...]:
    """Return the sizes that are faster than all smaller ones, and the present one where it is slower than one of these."""
    found: dict[int, float] = {1: 1.0}
    best = 1.0
    for size in sorted(values):
        if values[size] >= STEP_LEAST * best or (size == present and values[size] * STEP_LEAST <= best):
            found[size] = values[size]
            best = max(best, values[size])
    return tuple((size, float(f"{value:.3g}")) for size, value in found.items())


def _differ(found: Sequence[Carries], told: Sequence[Carries], things: int) -> bool:
    """Return whether some size is faster or slower by one list than by the other; an empty one has all things alike."""
    sizes = {size for size, _ in (*found, *told)}
    return any(abs(_at(found, size, things) / _at(told, size, things) - 1.0) > MOVED_LEAST for size in sizes)


def _at(carries: Sequence[Carries], size: int, things: int) -> float:
    if not carries:
        return things / math.ceil(things / size)
    return max((each for each in carries if each[0] <= size), key=lambda each: each[0])[1]
