"""Which parallel unit holds which virtual node of a hash-distributed fragment.

A mapping is a tuple: the unit id at each vnode. `remapped` moves the fewest vnodes that any even mapping of the new
units can do with. What it does not do: choose units, or know anything of state sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Table

Mapping = tuple[int, ...]
"""Unit id per vnode."""

DEFAULT_VNODES = 256
"""Vnodes of a hash fragment unless the cluster says otherwise."""

VNODES_MAX = 1 << 20
"""More than this is taken for a mistake."""


def uniform_mapping(units: Iterable[int], vnodes: int) -> Mapping:
    """Blocks of equal length over the sorted units; the first ``vnodes mod n`` units get one vnode more."""
    ordered = sorted(units)
    quota, extra = divmod(vnodes, len(ordered))
    return tuple(unit for rank, unit in enumerate(ordered) for _ in range(quota + (rank < extra)))


def remapped(mapping: Sequence[int], units: Iterable[int], host_of: Table[int, str] | None = None) -> Mapping:
    """An even mapping onto ``units`` with the least movement: `least_moved` vnodes change their unit, not one more.

    Every unit ends with ``q`` or ``q + 1`` vnodes (``q, r = divmod(vnodes, n)``), exactly ``r`` with ``q + 1``; the larger
    quotas go to the units that hold most. A unit keeps its first vnodes up to its quota; only the rest moves, where hosts are
    given to a unit of the same host as long as one of those has room: such a move copies no state.
    """
    room = _quotas(Counter(mapping), sorted(units), len(mapping))
    result: list[int | None] = []
    for unit in mapping:
        keeps = room.get(unit, 0) > 0
        result.append(unit if keeps else None)
        if keeps:
            room[unit] -= 1
    if host_of is not None:
        _move_within_hosts(mapping, result, room, host_of)
    takers = (unit for unit in sorted(room) for _ in range(room[unit]))
    return tuple(next(takers) if unit is None else unit for unit in result)


def least_moved(mapping: Sequence[int], units: Iterable[int]) -> int:
    """The least number of vnodes that must move for an even mapping onto ``units``, by formula.

    ``vnodes - sum(min(held, q)) - min(r, number of kept units holding more than q)``, over the units that are kept.
    """
    held, ordered = Counter(mapping), set(units)
    quota, extra = divmod(len(mapping), len(ordered))
    kept = [held[unit] for unit in ordered if held[unit]]
    return len(mapping) - sum(min(count, quota) for count in kept) - min(extra, sum(count > quota for count in kept))


def moved_count(before: Sequence[int], after: Sequence[int]) -> int:
    """How many vnodes changed their unit."""
    return sum(old != new for old, new in zip(before, after, strict=True))


def moved_between_hosts(before: Sequence[int], after: Sequence[int], host_of: Table[int, str]) -> int:
    """How many vnodes changed their host; a unit without one is gone, and what it held must be fetched from elsewhere."""
    return sum(
        old != new and (old not in host_of or host_of[old] != host_of.get(new)) for old, new in zip(before, after, strict=True)
    )


def _move_within_hosts(mapping: Sequence[int], result: list[int | None], room: dict[int, int], host_of: Table[int, str]) -> None:
    near: dict[str, list[int]] = {}
    for unit in sorted(room, reverse=True):
        if unit in host_of:
            near.setdefault(host_of[unit], []).extend([unit] * room[unit])
    for vnode, old in enumerate(mapping):
        takers = near.get(host_of.get(old, ""))
        if result[vnode] is None and takers:
            result[vnode] = taker = takers.pop()
            room[taker] -= 1


def _quotas(held: Counter[int], ordered: list[int], vnodes: int) -> dict[int, int]:
    quota, extra = divmod(vnodes, len(ordered))
    by_holding = sorted(ordered, key=lambda unit: (-held[unit], unit))
    return {unit: quota + (rank < extra) for rank, unit in enumerate(by_holding)}
