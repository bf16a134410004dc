"""Maps the virtual nodes of a hash-distributed fragment to parallel units.

A mapping is a tuple: the unit id at each vnode. `remapped` moves the fewest vnodes that an even mapping to the
new units allows. State sizes are not considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Table

Mapping = tuple[int, ...]
"""Unit id per vnode."""

VNODES_MAX = 1 << 20
"""More than this is taken for a mistake."""


def remapped(mapping: Sequence[int], units: Iterable[int], host_of: Table[int, str] | None = None) -> Mapping:
    """Return an even mapping onto ``units`` with the least movement.

    Every unit ends with ``q`` or ``q + 1`` vnodes (``q, r = divmod(vnodes, n)``), exactly ``r`` with ``q + 1``; the larger
    quotas go to the units that hold most. A unit keeps its first vnodes up to its quota; only the rest moves. Given
    hosts, it moves to a unit of the same host while one has room: such a move copies no state.
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


def moved_count(before: Sequence[int], after: Sequence[int]) -> int:
    """Return how many vnodes changed their unit."""
    return sum(old != new for old, new in zip(before, after, strict=True))


def moved_between_hosts(before: Sequence[int], after: Sequence[int], host_of: Table[int, str]) -> int:
    """Return how many vnodes changed their host. A unit without a host is gone; its state must be fetched from elsewhere."""
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
