"""How virtual nodes (vnodes) lie on parallel units before any rescale has moved them: in blocks of equal size. Pure.

The engine starts a task this way, and a mapping that nobody has written down means this one. `rescaler.vnodes` moves vnodes from
there on.
"""

from collections.abc import Iterable

DEFAULT_VNODES = 256
"""Vnodes of a task unless its topology says otherwise."""


def uniform_counts(units: Iterable[int], vnodes: int) -> dict[int, int]:
    """Return how many vnodes each unit holds, in order of unit id; the first ``vnodes mod n`` of n units hold one more."""
    ordered = sorted(set(units))
    quota, extra = divmod(vnodes, len(ordered)) if ordered else (0, 0)
    return {unit: quota + (rank < extra) for rank, unit in enumerate(ordered)}


def uniform_mapping(units: Iterable[int], vnodes: int) -> tuple[int, ...]:
    """Return the unit id at each vnode, int [vnodes]: one block per unit, in order of unit id; empty without units."""
    return tuple(unit for unit, count in uniform_counts(units, vnodes).items() for _ in range(count))
