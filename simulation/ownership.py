"""Which parallel unit holds how many virtual nodes of a stateful task, and what has to be restored when that changes. Pure.

Counts suffice here: a rescale moves as few virtual nodes as an even mapping allows, and what stays on a host is not copied.
"""

from collections.abc import Collection, Iterable, Mapping

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


def to_restore(
    before: Mapping[int, int],
    after: Mapping[int, int],
    host_of: Mapping[int, str],
    copies: Mapping[int, Collection[str]] | None = None,
) -> Held:
    """Return the virtual nodes that each unit must restore from elsewhere.

    What units of the same host give up is at hand there and goes to the lowest unit ids first; so is what units give up of
    which that host keeps a copy (``copies``: per unit, its hosts). A unit without a host is gone: what it held comes from a
    copy, or must be restored.
    """
    given = {unit: left for unit, count in before.items() if (left := count - after.get(unit, 0)) > 0}
    found: Held = {}
    for unit in sorted(after):
        gained = after[unit] - before.get(unit, 0)
        host = host_of.get(unit)
        if gained > 0 and host is not None:
            gained -= _drawn([giver for giver in sorted(given) if host_of.get(giver) == host], given, gained)
            gained -= _drawn([giver for giver in sorted(copies or ()) if host in (copies or {})[giver]], given, gained)
        if gained > 0:
            found[unit] = gained
    return found


def _drawn(givers: Iterable[int], given: Held, wanted: int) -> int:
    """Take virtual nodes from what givers have left, as many as are wanted; return how many there were."""
    drawn = 0
    for giver in givers:
        taken = min(wanted - drawn, given.get(giver, 0))
        if taken:
            given[giver] -= taken
            drawn += taken
    return drawn
