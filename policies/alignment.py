"""Sizes that divide a task's key groups, or a source's partitions, evenly among its subtasks.

With K things dealt out to p subtasks the busiest gets ceil(K / p) of them, so 128 key groups on 100 subtasks run no faster than
on 64. Flink's autoscaler looks for such sizes too, without a limit on their cost (FLINK-36527, option
``job.autoscaler.scaling.key-group.partitions.adjust.mode``).
"""

import numpy as np

from policies.graph import Int64

COST_MAX = 0.25  # share of more subtasks that an even deal may cost


def aligned(desired: Int64, current: Int64, dealt: Int64, least: Int64, most: Int64) -> Int64:
    """Return sizes [.., N] that deal ``dealt`` [N] things out more evenly than ``desired``; that where 0 or nothing changes.

    ``least`` and ``most`` [.., N] limit the choice, and it never turns growth into shrinking or the other way round.
    """
    chosen = np.array(np.broadcast_to(desired, np.broadcast_shapes(desired.shape, dealt.shape)))
    tables = [np.broadcast_to(values, chosen.shape) for values in (current, dealt, least, most)]
    for at in zip(*np.nonzero((tables[1] > 0) & (chosen != tables[0])), strict=True):
        now, things, low, high = (int(table[at]) for table in tables)
        grows = int(chosen[at]) > now
        low, high = (max(low, now), high) if grows else (low, min(high, now))
        chosen[at] = even_size(int(chosen[at]), things, low, high)
    return chosen


def even_size(wanted: int, dealt: int, least: int, most: int) -> int:
    """Return the next size up to a quarter above ``wanted`` that divides ``dealt``; else the fewest as fast as ``wanted``.

    >>> even_size(7, 128, 1, 100), even_size(100, 128, 1, 100), even_size(5, 12, 1, 5)
    (8, 64, 4)
    """
    for size in range(wanted, min(most, dealt, int(wanted * (1 + COST_MAX))) + 1):
        if dealt % size == 0:
            return size
    as_fast = -(-dealt // -(-dealt // wanted))
    return min(wanted, max(least, as_fast))
