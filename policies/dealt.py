"""What sizes carry whose work is dealt out: key groups of a keyed task, partitions of a source. None of them can be divided.

With K things dealt out to p subtasks the busiest gets ceil(K / p) of them. So p subtasks are as fast as K / ceil(K / p) even
ones, and more than K as fast as K. Sizes that are the fewest as fast are *even sizes* here: of 12 partitions 1, 2, 3, 4, 6 and
12. Seven to eleven are no faster than six. So whoever needs e even subtasks needs the next even size that carries them.

Everything works on any batch axes; ``dealt`` [N] is 0 for a task whose work divides (``JobGraph.dealt``). Flink's autoscaler
looks for even sizes as well (FLINK-36192, FLINK-36527; ``job.autoscaler.scaling.key-group.partitions.adjust.mode``).
"""

import numpy as np

from surescale.policies.answer import Float64, Int64

COST_MAX = 0.25  # share of more subtasks that a deal without a remainder may cost
SLACK = 1.1  # times what a load needs that a smaller size must carry, or noise would bring the larger one back
_EPSILON = 1e-9  # keeps 6 / 2.0 from becoming 3.0000000001 and then 4


def carried(sizes: Int64 | Float64, dealt: Int64) -> Int64 | Float64:
    """Return how many even subtasks [.., N] are as fast as ``sizes`` [.., N]; the sizes themselves where work divides.

    >>> carried(np.array([6, 8, 9, 6]), np.array([8, 8, 8, 0])).tolist()
    [4.0, 8.0, 8.0, 6.0]
    """
    if not dealt.any():
        return sizes
    things = np.maximum(dealt, 1)
    even: Float64 = np.where(dealt > 0, things / np.ceil(things / np.maximum(sizes, 1)), sizes)
    return even


def needed(exact: Float64, dealt: Int64) -> Float64:
    """Return the least whole sizes [.., N] that carry ``exact`` [.., N] even subtasks, ``dealt`` where none does.

    >>> needed(np.array([4.3, 4.0, 9.0, 4.3]), np.array([8, 8, 8, 0])).tolist()
    [8.0, 4.0, 8.0, 5.0]
    """
    asked = exact - _EPSILON
    whole: Float64 = np.ceil(asked)
    if not dealt.any():
        return whole
    is_dealt = (dealt > 0) & (whole > 1.0)  # False where NaN
    each = np.maximum(np.floor(dealt / np.where(is_dealt, asked, 1.0)), 1.0)  # most things that one subtask may have
    return np.where(is_dealt, np.ceil(dealt / each), whole)


def fewest(sizes: Int64, dealt: Int64) -> Int64:
    """Return the fewest subtasks [.., N] that are as fast as ``sizes`` [.., N]."""
    things = np.maximum(dealt, 1)
    return np.where(dealt > 0, _share(things, _share(things, np.maximum(sizes, 1))), sizes)


def larger(sizes: Int64, dealt: Int64) -> Int64:
    """Return the next sizes [.., N] that carry more; where none does, the fewest that carry as much."""
    things = np.maximum(dealt, 1)
    least = _share(things, np.maximum(_share(things, np.maximum(sizes, 1)) - 1, 1))
    return np.where(dealt > 0, least, sizes + 1)


def smaller(sizes: Int64, dealt: Int64) -> Int64:
    """Return the next fewer subtasks [.., N] for which there is no use of even fewer, at least one."""
    return fewest(np.maximum(sizes - 1, 1), dealt)


def lasting(wanted: Float64, exact: Float64, current: Int64, dealt: Int64) -> Float64:
    """Return wanted sizes [.., N] that noise does not take back: a shrink leaves room for ``SLACK`` times ``exact``.

    Even sizes lie far apart, so a load near what one of them carries would else be sized now for it, now for the next. The room
    costs at most one even size. Work that divides is not concerned.
    """
    shrinks = (dealt > 0) & (wanted < current)
    if not shrinks.any():
        return wanted
    roomy = np.minimum(needed(SLACK * exact, dealt), larger(wanted.astype(np.int64), dealt))
    return np.where(shrinks, np.minimum(roomy, fewest(current, dealt)), wanted)


def aligned(desired: Int64, current: Int64, dealt: Int64, least: Int64, most: Int64) -> Int64:
    """Return even sizes [.., N] that carry the work of ``desired`` [.., N]; that itself where work divides or nothing changes.

    An even size is taken for itself: who asks for it knows what it carries. One that grows may get the next even size instead,
    if that deals without a remainder and costs little (``COST_MAX``); one that has it keeps it. ``least`` and ``most`` [.., N]
    limit the choice, and it never turns growth into shrinking or the other way round; where they allow no size that carries so
    much, it is the fewest that are as fast as ``desired``.
    """
    changes = (dealt > 0) & (desired != current)
    if not changes.any():
        return desired
    grows = desired > current
    low, high = np.where(grows, np.maximum(least, current), least), np.where(grows, most, np.minimum(most, current))
    as_fast = fewest(desired, dealt)
    first = np.where(as_fast == desired, desired, larger(desired, dealt))
    after = larger(first, dealt)
    things = np.maximum(dealt, 1)
    is_better = (grows | (after == current)) & (things % np.maximum(first, 1) > 0) & (things % np.maximum(after, 1) == 0)
    is_cheap = after <= np.minimum(high, np.floor(desired * (1.0 + COST_MAX)))
    even = np.where(is_better & is_cheap, after, first)
    within: Int64 = np.where((desired > dealt) | (first > high), np.minimum(desired, np.maximum(low, as_fast)), even)
    return np.where(changes, within, desired)


def _share(things: Int64, among: Int64) -> Int64:
    """Return how many things the busiest of so many gets."""
    shares: Int64 = -(-things // among)
    return shares
