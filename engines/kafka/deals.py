"""How unequal partitions are, and how fast each number of readers is by that. Pure.

A partition cannot be divided, so a reader that has two hot ones is slower than all others, and how many there are of these does
not help it. Which size parts them follows from how partitions are dealt out. Assignors that keep what members have deal so that
nobody can tell who gets what: there the mean of some deals counts, and of the present size what it really has.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
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
LOOKS_LEAST, AT_ONCE = 3, 160.0
"""So many looks show how many records come together. Until then, a batch of Kafka's default 16 KiB, of records of 100 bytes."""
STEP_LEAST = 1.05
"""Times as fast must a size be as the one before it to be listed."""
MOVED_LEAST = 0.1
"""By so much must some size have become faster or slower for another list to be told."""
SHARED_STEP = 1.03
"""Times as many members is the next size that is listed of a share group."""
DEALS, WORST = 16, -3
"""Deals that are tried where nobody can tell, and which of them, the best first, counts for fewer members than there are."""
PARTITIONS_MAX = 512
"""Of more of them nothing is told: that one of so many is hot only the busiest subtask's counter shows."""

_Weights = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Came:
    """Records that came into one partition, and how long it was watched for them, both fading; and when it was last told."""

    at_ms: int
    records: float = 0.0
    watched_ms: float = 0.0


@dataclass(slots=True)
class Rates:
    """Follows how many records come into the partitions of one reader."""

    _came: dict[Partition, _Came] = field(default_factory=dict)
    _strayed: float = 0.0
    """Squares of the records by which partitions got more or less than their share, fading."""
    _compared: float = 0.0
    """Records of which that was seen, fading."""
    _looks: int = 0
    """In which it was."""
    _told: tuple[Carries, ...] = ()
    _told_for: tuple[object, ...] = ()

    def add(self, arrived: Mapping[Partition, int], at_ms: int, untold: Collection[Partition] = ()) -> None:
        """Take into account what came into each partition since it was last told.

        Partitions that are ``untold`` are out of sight, as while their broker starts: what is known of them stands for a while.
        All others are gone. Of one that is told for the first time nobody knows how long its records took to come.
        """
        came = {each: known for each in untold if (known := self._came.get(each)) and at_ms - known.at_ms < MEMORY_MS}
        passed_ms: dict[Partition, int] = {}
        for each in arrived:
            came[each] = known = self._came.get(each) or _Came(at_ms)
            passed_ms[each], known.at_ms = max(0, at_ms - known.at_ms), at_ms
        self._compare(arrived, came, passed_ms)
        for each, records in arrived.items():
            known, passed = came[each], passed_ms[each]
            if passed:
                left = math.exp(-passed / MEMORY_MS)
                known.records, known.watched_ms = left * known.records + records, left * known.watched_ms + passed
        self._came = came

    def _compare(
        self, arrived: Mapping[Partition, int], came: Mapping[Partition, _Came], passed_ms: Mapping[Partition, int]
    ) -> None:
        """Note how far what came is from each partition's share: records that come in batches differ by more than single ones."""
        shares = {
            each: came[each].records / came[each].watched_ms * passed
            for each, passed in passed_ms.items()
            if came[each].watched_ms
        }
        total, whole = sum(arrived[each] for each in shares), sum(shares.values())
        if not total or not whole:
            return
        left = math.exp(-max(passed_ms[each] for each in shares) / MEMORY_MS)
        strayed = sum((arrived[each] - share * total / whole) ** 2 for each, share in shares.items())
        self._strayed, self._compared = left * self._strayed + strayed, left * self._compared + total
        self._looks += 1

    def carries(
        self, assignor: str, useful: int, members: Sequence[Collection[Partition]], *, together: bool = False
    ) -> tuple[Carries, ...]:
        """Return ``TaskSpec.carries``; empty where partitions are alike, as far as that shows, and so is what members get.

        Args:
            assignor: ``range``, ``roundrobin``, or one that keeps what members have.
            useful: most members that can have a partition.
            members: the partitions that each has now.
            together: the partitions of one number of all topics go to one member.
        """
        present = (assignor, useful, len(members), len(self._came))
        found = self._carries("" if together else assignor, useful, members, together=together)
        if self._told_for != present or _differ(found, self._told, useful):
            self._told, self._told_for = found, present
        return self._told

    def _in_equal_time(self) -> dict[Partition, float]:
        """Return the records that came into each partition in as long as all are known; the mean where nothing is."""
        shortest_ms = min((each.watched_ms for each in self._came.values() if each.watched_ms), default=0.0)
        known = {at: each.records * shortest_ms / each.watched_ms for at, each in self._came.items() if each.watched_ms}
        mean = sum(known.values()) / len(known) if known else 0.0
        return {each: known.get(each, mean) for each in sorted(self._came)}

    def _are_uneven(self, weights: _Weights) -> bool:
        mean = float(weights.mean())
        if mean <= 0.0:
            return False
        at_once = max(1.0, self._strayed / self._compared) if self._looks >= LOOKS_LEAST else AT_ONCE
        chance = math.sqrt(2.0 * math.log(len(weights)) * at_once / mean)
        return float(weights.max()) / mean - 1.0 > max(UNEVEN_LEAST, CHANCE * chance)

    def _carries(
        self, assignor: str, useful: int, members: Sequence[Collection[Partition]], *, together: bool
    ) -> tuple[Carries, ...]:
        came = self._in_equal_time()
        weights = _by_number(came) if together else np.array(list(came.values()))
        if not 1 < len(weights) <= PARTITIONS_MAX:
            return ()
        if not self._are_uneven(weights):
            if assignor != "range" or len({len(each) for each in _by_topic(came)}) == 1:
                return ()
            # The first members get a partition of each topic, the last ones of the widest alone.
            came, weights = dict.fromkeys(came, 1.0), np.ones(len(weights))
        total = float(weights.sum())
        has = [sum(came.get(each, 0.0) for each in mine) for mine in members]
        is_told = bool(has) and sum(has) >= (1.0 - MOVED_LEAST) * total
        now = total / max(has) if is_told else None
        values: dict[int, float] = {}
        if assignor in ("range", "roundrobin"):
            fullest = fullest_in_ranges(_by_topic(came), useful) if assignor == "range" else fullest_in_turn(weights, useful)
            values = dict(enumerate((total / fullest).tolist(), 1))
        explained = values.get(min(len(members), useful), 0.0)
        if not values or (now is not None and abs(now / explained - 1.0) > MOVED_LEAST):
            values = _of_any_deal(weights, useful, len(members))
            if now is not None:  # members keep what they have: fewer are no faster, more are no slower
                values |= {
                    size: min(value, now) if size < len(members) else max(value, now) for size, value in values.items()
                } | {min(len(members), useful): now}
        return _steps(values, min(len(members), useful))


def _by_number(came: Mapping[Partition, float]) -> _Weights:
    numbers: dict[int, float] = {}
    for (_, number), records in came.items():
        numbers[number] = numbers.get(number, 0.0) + records
    return np.array(list(numbers.values()))


def _by_topic(came: Mapping[Partition, float]) -> list[_Weights]:
    topics: dict[str, list[float]] = {}
    for (topic, _), records in came.items():
        topics.setdefault(topic, []).append(records)
    return [np.array(weights) for weights in topics.values()]


def _up_to(weights: _Weights) -> _Weights:
    """Return what the partitions [.., P] up to each have [.., P + 1], from none of them to all."""
    return np.concatenate([np.zeros((*weights.shape[:-1], 1)), np.cumsum(weights, axis=-1)], axis=-1)


def fullest_in_ranges(topics: Iterable[_Weights], most: int) -> _Weights:
    """Return what the fullest has of one reader, of two, up to ``most``, as Kafka's range assignor deals out each topic.

    Readers get neighbours, and the first have one more. All numbers of readers are one calculation, one after another: with
    hundreds of partitions that is many times as fast as each by itself.
    """
    sizes = np.arange(1, most + 1)
    starts = np.cumsum(sizes) - sizes
    reader = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    has = np.zeros(len(reader))
    for up_to in map(_up_to, topics):
        each, more = (np.repeat(values, sizes) for values in divmod(len(up_to) - 1, sizes))
        first = reader * each + np.minimum(reader, more)
        has += up_to[first + each + (reader < more)] - up_to[first]
    fullest: _Weights = np.maximum.reduceat(has, starts)
    return fullest


def fullest_in_turn(weights: _Weights, most: int) -> _Weights:
    """Return what the fullest has of one reader, of two, up to ``most``, where partitions are dealt out in turn."""
    at = np.arange(len(weights))
    return np.array([np.bincount(at % size, weights).max() for size in range(1, most + 1)])


def _of_any_deal(weights: _Weights, useful: int, present: int) -> dict[int, float]:
    """Return what to expect of some deals, for sizes from which on each subtask has one thing less.

    Of more subtasks than at present the mean counts. Of fewer nearly the worst: what has been parted would have to be again.
    """
    random, total = np.random.default_rng(len(weights)), float(weights.sum())
    deals = _up_to(np.stack([random.permutation(weights) for _ in range(DEALS)]))
    sizes = sorted({-(-len(weights) // each) for each in range(1, len(weights) + 1)} | {1, useful})
    found: dict[int, float] = {}
    for size in (size for size in sizes if size <= useful):
        each, more = divmod(len(weights), size)
        at = np.arange(size + 1)
        fullest = np.sort(np.diff(deals[:, at * each + np.minimum(at, more)]).max(axis=-1))
        found[size] = total / (fullest[WORST] if size < present else float(np.mean(fullest)))
    return found


def shared(partitions: int, most: int) -> tuple[Carries, ...]:
    """Return ``TaskSpec.carries`` of members of a share group (KIP-932), who may have one partition together.

    While there are fewer of them than partitions, each partition is taken to have one member, which is the least. From then on
    all of them have work. Of many, not every size is listed.

    >>> shared(6, 20)[:6]
    ((1, 1.0), (2, 2.0), (3, 3.0), (6, 6.0), (7, 7.0), (8, 8.0))
    """
    found = {-(-partitions // things): partitions / things for things in range(partitions, 1, -1)}
    size = partitions
    while size <= most:
        found[size] = float(size)
        size = max(size + 1, math.ceil(size * SHARED_STEP))
    return tuple((size, float(f"{value:.3g}")) for size, value in sorted(found.items()))


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
