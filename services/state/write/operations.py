"""The five operations that a projection may ask of the view, as plain data. Knows neither Kafka nor Redis.

One Kafka partition feeds each key, with these exceptions: ``jobs`` and ``clusters`` only grow, each field of ``job:`` and
``cluster:`` is fed by one topic, and ``counts`` are only added up. So the view does not depend on the order in which partitions
are read.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetField:
    """Set one field of a hash to a document. The last record wins or, if records have a ``version``, the highest one."""

    key: str
    field: str
    value: bytes
    version: int | None = None
    """Version of the record; among equal ones the last record wins."""


@dataclass(frozen=True, slots=True)
class DropField:
    """Remove one field from a hash."""

    key: str
    field: str


@dataclass(frozen=True, slots=True)
class AddMember:
    """Add to a set."""

    key: str
    member: str


@dataclass(frozen=True, slots=True)
class AddUp:
    """Add to one of the counts."""

    count: str
    by: int = 1


@dataclass(frozen=True, slots=True)
class Remember:
    """Put a record into a timeline, which keeps the ``keep`` records with the highest scores, each under its identity.

    The first time, a record adds ``adds`` to the counts and one to the count ``group``. After that it is a duplicate and changes
    only ``duplicates.<timeline>``. With ``latest_wins`` it replaces the earlier record instead, and its one moves from the
    earlier record's group to its own.

    Attributes:
        timeline: ``decisions``, ``commands``, ...
        owner: the job, cluster or partition that the timeline belongs to.
        score: orders the timeline; event time in ms, unless a projection says otherwise.
        body: JSON document.
    """

    timeline: str
    owner: str
    id: str
    score: int
    body: bytes
    keep: int
    group: str
    adds: tuple[tuple[str, int], ...] = ()
    day: int = 0
    """Day (since 1970) of ``of_day``."""
    of_day: tuple[tuple[str, int], ...] = ()
    """Added to the owner's sums of that day, the first time."""
    latest_wins: bool = False


Operation = SetField | DropField | AddMember | AddUp | Remember


def condensed(operations: Iterable[Operation]) -> list[Operation]:
    """Return fewer operations with the same effect: the last (or highest) on each field, each member once, timelines in order.

    Nearly every record names its job and its cluster, and the rescaler rewrites its memory of a job at each step.
    """
    once: dict[tuple[str, str], Operation] = {}
    versions: dict[tuple[str, str], SetField] = {}
    others: list[Operation] = []
    for operation in operations:
        match operation:
            case SetField(key, field, version=int(version)):
                before = versions.get((key, field))
                if before is None or version >= (before.version or 0):
                    versions[key, field] = operation
            case SetField(key, field) | DropField(key, field):
                once[key, field] = operation
                versions.pop((key, field), None)
            case AddMember(key, member):
                once[key, member] = operation
            case _:
                others.append(operation)
    return [*once.values(), *versions.values(), *others]
