"""What sizes carry whose work is dealt out: key groups of a keyed task, partitions of a source. None of them can be divided.

With K things dealt out to p subtasks the busiest gets ceil(K / p) of them. So p subtasks are as fast as K / ceil(K / p) even
ones, and more than K as fast as K. Sizes that are the fewest as fast are *even sizes* here: of 12 partitions 1, 2, 3, 4, 6 and
12. Seven to eleven are no faster than six. So whoever needs e even subtasks needs the next even size that carries them.

Where the things are known to be unequal, as partitions with hot ones among them, a size is as fast as its fullest subtask lets it
(``TaskSpec.carries``), and even sizes are the fewest that are as fast by that.

Everything works on any batch axes. What is ``dealt`` is an int64 [N], 0 for a task whose work divides, or a ``Deal``
(``JobGraph.deal``). Flink's autoscaler looks for even sizes as well (FLINK-36192, FLINK-36527;
``job.autoscaler.scaling.key-group.partitions.adjust.mode``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.messages import Carries
from surescale.policies.answer import Float64, Int64

COST_MAX = 0.25  # share of more subtasks that a deal without a remainder may cost
SLACK = 1.1  # times what a load needs that a smaller size must carry, or noise would bring the larger one back
_EPSILON = 1e-9  # keeps 6 / 2.0 from becoming 3.0000000001 and then 4

Told = tuple[tuple[Carries, ...], ...]
"""``TaskSpec.carries`` of each task."""


@dataclass(frozen=True, slots=True, eq=False)
class Uneven:
    """What the sizes of one task carry whose things are unequal; a size that is not listed carries what the one before it does.

    Attributes:
        task: its index.
        sizes: int64 [S], rising from 1.
        carries: float64 [S], in even subtasks.
        best: float64 [S], the most that each of them or one before it carries.
        larger: int64 [S], for each of them the next that carries more; where none does, the fewest that carry as much.
    """

    task: int
    sizes: Int64
    carries: Float64
    best: Float64
    larger: Int64

    @classmethod
    def of(cls, task: int, told: Sequence[Carries]) -> "Uneven":
        """Return it from what an engine tells."""
        known = {1: 1.0} | dict(sorted(told))
        sizes, carries = np.array(list(known), dtype=np.int64), np.array(list(known.values()), dtype=np.float64)
        best = np.maximum.accumulate(carries)
        fewest = sizes[np.searchsorted(best, carries)]
        more = [np.flatnonzero(carries[at + 1 :] > carries[at]) for at in range(len(sizes))]
        larger = [sizes[at + 1 + found[0]] if len(found) else fewest[at] for at, found in enumerate(more)]
        return cls(task, sizes, carries, best, np.array(larger, dtype=np.int64))

    @property
    def most(self) -> float:
        """Return the most even subtasks that any size carries."""
        return float(self.best[-1])

    def at(self, sizes: npt.NDArray[np.number]) -> Int64:
        """Return the place [..] in the list of the sizes [..]."""
        found: Int64 = np.maximum(np.searchsorted(self.sizes, sizes, side="right") - 1, 0)
        return found

    def needed(self, exact: Float64) -> Int64:
        """Return the least sizes [..] that carry so many even subtasks; where none does, the least that carries the most."""
        found: Int64 = self.sizes[np.searchsorted(self.best, np.fmin(exact, self.best[-1]))]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """What is dealt out to N tasks, to some of them unequal things.

    Attributes:
        things: int64 [N], how many; 0: the work divides.
        uneven: what sizes carry of tasks whose things are unequal.
        told: of each task, that this follows from.
    """

    things: Int64
    uneven: tuple[Uneven, ...]
    told: Told

    def any(self) -> bool:
        """Return whether any task's work is dealt out."""
        return bool(self.things.any())


Dealt = Int64 | Deal


def deal_of(things: Int64, told: Told) -> Dealt:
    """Return what is dealt out to tasks: int64 [N] things, and by task what sizes carry, empty where all things are alike.

    A size above the things has no use, whatever is told of it: where no more members can help, the things are those that do.
    """
    useful = [tuple(size for size in each if size[0] <= most) for each, most in zip(told, things.tolist(), strict=False)]
    uneven = tuple(Uneven.of(task, each) for task, each in enumerate(useful) if each)
    return Deal(things, uneven, told) if uneven else things


def _parts(dealt: Dealt) -> tuple[Int64, tuple[Uneven, ...]]:
    return (dealt.things, dealt.uneven) if isinstance(dealt, Deal) else (dealt, ())


def carried(sizes: Int64 | Float64, dealt: Dealt) -> Int64 | Float64:
    """Return how many even subtasks [.., N] are as fast as ``sizes`` [.., N]; the sizes themselves where work divides.

    >>> carried(np.array([6, 8, 9, 6]), np.array([8, 8, 8, 0])).tolist()
    [4.0, 8.0, 8.0, 6.0]
    """
    if not dealt.any():
        return sizes
    of, uneven = _parts(dealt)
    things = np.maximum(of, 1)
    even: Float64 = np.where(of > 0, things / np.ceil(things / np.maximum(sizes, 1)), sizes)
    for each in uneven:
        even[..., each.task] = each.carries[each.at(sizes[..., each.task])]
    return even


def most_carried(dealt: Dealt) -> Float64:
    """Return the most even subtasks [N] that any size carries; infinity where work divides."""
    things, uneven = _parts(dealt)
    most = np.where(things > 0, things, np.inf)
    for each in uneven:
        most[each.task] = each.most
    return most


def needed(exact: Float64, dealt: Dealt) -> Float64:
    """Return the least whole sizes [.., N] that carry ``exact`` [.., N] even subtasks; where none does, that carry the most.

    >>> needed(np.array([4.3, 4.0, 9.0, 4.3]), np.array([8, 8, 8, 0])).tolist()
    [8.0, 4.0, 8.0, 5.0]
    """
    asked = exact - _EPSILON
    whole: Float64 = np.ceil(asked)
    if not dealt.any():
        return whole
    things, uneven = _parts(dealt)
    is_dealt = (things > 0) & (whole > 1.0)  # False where NaN
    each = np.maximum(np.floor(things / np.where(is_dealt, asked, 1.0)), 1.0)  # most things that one subtask may have
    found: Float64 = np.where(is_dealt, np.ceil(things / each), whole)
    for one in uneven:
        at = (..., one.task)
        found[at] = np.where(is_dealt[at], one.needed(asked[at]), whole[at])
    return found


def fewest(sizes: Int64, dealt: Dealt) -> Int64:
    """Return the fewest subtasks [.., N] that are as fast as ``sizes`` [.., N]."""
    of, uneven = _parts(dealt)
    things = np.maximum(of, 1)
    found: Int64 = np.where(of > 0, _share(things, _share(things, np.maximum(sizes, 1))), sizes)
    for each in uneven:
        found[..., each.task] = each.needed(each.carries[each.at(sizes[..., each.task])])
    return found


def larger(sizes: Int64, dealt: Dealt) -> Int64:
    """Return the next sizes [.., N] that carry more; where none does, the fewest that carry as much."""
    of, uneven = _parts(dealt)
    things = np.maximum(of, 1)
    least = _share(things, np.maximum(_share(things, np.maximum(sizes, 1)) - 1, 1))
    found: Int64 = np.where(of > 0, least, sizes + 1)
    for each in uneven:
        found[..., each.task] = each.larger[each.at(sizes[..., each.task])]
    return found


def smaller(sizes: Int64, dealt: Dealt) -> Int64:
    """Return the next fewer subtasks [.., N] for which there is no use of even fewer, at least one."""
    return fewest(np.maximum(sizes - 1, 1), dealt)


def lasting(wanted: Float64, steady: Float64, current: Int64, dealt: Dealt) -> Float64:
    """Return wanted sizes [.., N] that noise does not take back: a shrink leaves room for ``SLACK`` times ``steady``.

    That is what the load needs without most of its noise, at most what ``wanted`` carries. Even sizes lie far apart, so a load
    near what one of them carries would else be sized now for it, now for the next. The room costs at most one even size. Work
    that divides is not concerned.
    """
    shrinks = (_parts(dealt)[0] > 0) & (wanted < current)
    if not shrinks.any():
        return wanted
    roomy = np.clip(needed(SLACK * steady, dealt), wanted, larger(wanted.astype(np.int64), dealt))
    return np.where(shrinks, np.minimum(roomy, fewest(current, dealt)), wanted)


def aligned(desired: Int64, current: Int64, dealt: Dealt, least: Int64, most: Int64) -> Int64:
    """Return even sizes [.., N] that carry the work of ``desired`` [.., N]; that itself where work divides or nothing changes.

    An even size is taken for itself: who asks for it knows what it carries. One that grows may get the next even size instead,
    if that deals without a remainder and costs little (``COST_MAX``); one that has it keeps it. ``least`` and ``most`` [.., N]
    limit the choice, and it never turns growth into shrinking or the other way round; where they allow no size that carries so
    much, it is the fewest that are as fast as ``desired``.
    """
    of, uneven = _parts(dealt)
    changes = (of > 0) & (desired != current)
    if not changes.any():
        return desired
    grows = desired > current
    low, high = np.where(grows, np.maximum(least, current), least), np.where(grows, most, np.minimum(most, current))
    as_fast = fewest(desired, dealt)
    first = np.where(as_fast == desired, desired, larger(desired, dealt))
    after = larger(first, dealt)
    things = np.maximum(of, 1)
    is_better = (grows | (after == current)) & (things % np.maximum(first, 1) > 0) & (things % np.maximum(after, 1) == 0)
    for each in uneven:  # with unequal things no deal is without a remainder
        is_better[..., each.task] = False
    is_cheap = after <= np.minimum(high, np.floor(desired * (1.0 + COST_MAX)))
    even = np.where(is_better & is_cheap, after, first)
    within: Int64 = np.where((desired > of) | (first > high), np.minimum(desired, np.maximum(low, as_fast)), even)
    return np.where(changes, within, desired)


def _share(things: Int64, among: Int64) -> Int64:
    """Return how many things the busiest of so many gets."""
    shares: Int64 = -(-things // among)
    return shares
