"""How many virtual nodes of a stateful task each parallel unit holds, and what a change has to restore. Pure.

Counts are enough: a rescale moves as few virtual nodes as an even mapping allows, and state that stays on a host is not copied.
"""

from collections.abc import Collection, Iterable, Mapping

Held = dict[int, int]
"""Virtual nodes per unit."""


def spread(held: Mapping[int, int], units: Iterable[int], vnodes: int) -> Held:
    """Return an even split over other units. The larger quotas go to the units that hold most, so that the fewest move."""
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

    State that a unit gives up is already on its host, and on every host with a copy of it (``copies``: per unit, its hosts).
    There it goes to the lowest unit ids first. A unit without a host is gone: its state comes from a copy or must be restored.
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
    """Take up to the wanted number of virtual nodes from what the givers have left; return how many were taken."""
    drawn = 0
    for giver in givers:
        taken = min(wanted - drawn, given.get(giver, 0))
        if taken:
            given[giver] -= taken
            drawn += taken
    return drawn
