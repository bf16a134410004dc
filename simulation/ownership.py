"""Which parallel unit holds how many virtual nodes of a stateful task, and what has to be restored when that changes. Pure.

Counts suffice here: a rescale moves as few virtual nodes as an even mapping allows, and what stays on a host is not copied.
"""

from collections.abc import Iterable, Mapping

Held = dict[int, int]
"""Virtual nodes per unit."""


def even(units: Iterable[int], vnodes: int) -> Held:
    """Return blocks of equal size over the sorted units; the first ones hold one more."""
    ordered = sorted(set(units))
    quota, extra = divmod(vnodes, len(ordered)) if ordered else (0, 0)
    return {unit: quota + (rank < extra) for rank, unit in enumerate(ordered)}


def spread(held: Mapping[int, int], units: Iterable[int], vnodes: int) -> Held:
    """Return an even split over other units: the larger quotas go to those that hold most, so that the fewest move."""
    ordered = sorted(set(units), key=lambda unit: (-held.get(unit, 0), unit))
    quota, extra = divmod(vnodes, len(ordered)) if ordered else (0, 0)
    return {unit: quota + (rank < extra) for rank, unit in enumerate(ordered)}


def to_restore(before: Mapping[int, int], after: Mapping[int, int], host_of: Mapping[int, str]) -> Held:
    """Return the virtual nodes that each unit must restore from elsewhere.

    What units of the same host give up is at hand there and goes to the lowest unit ids first. A unit without a host is gone, and
    what it held must be restored.
    """
    at_hand: dict[str, int] = {}
    for unit, count in before.items():
        if unit in host_of:
            at_hand[host_of[unit]] = at_hand.get(host_of[unit], 0) + max(0, count - after.get(unit, 0))
    found: Held = {}
    for unit in sorted(after):
        gained = max(0, after[unit] - before.get(unit, 0))
        local = min(gained, at_hand.get(host_of.get(unit, ""), 0))
        if local:
            at_hand[host_of[unit]] -= local
        if gained > local:
            found[unit] = gained - local
    return found
