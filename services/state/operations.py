"""What a projection may ask of the view: five operations, plain data. Knows neither Kafka nor Redis.

Every key is fed by one Kafka partition, except ``jobs``, ``clusters`` (only added to), fields of ``job:`` and ``cluster:`` (each
fed by one topic) and ``counts`` (only added up). So the view does not depend on how partitions are interleaved.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetField:
    """Set one field of a hash to a document; the last record wins, or, where records have a ``version``, the highest."""

    key: str
    field: str
    value: bytes
    version: int | None = None
    """Of the record; of equal ones the last wins."""


@dataclass(frozen=True, slots=True)
class DropField:
    """Take one field out of a hash."""

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
    """Put a record into a timeline: the ``keep`` highest by score stay, each known by its identity.

    A record seen for the first time adds ``adds`` to the counts and one to the count ``group``. Seen again it is a duplicate: it
    changes nothing but ``duplicates.<timeline>``; or, with ``latest_wins``, it takes the place of the earlier one and moves its
    one from the earlier group to its own.

    Attributes:
        timeline: ``decisions``, ``commands``, ...
        owner: the job, cluster or partition that the timeline belongs to.
        score: event time in ms, or what else orders the timeline.
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
    latest_wins: bool = False


Operation = SetField | DropField | AddMember | AddUp | Remember


def condensed(operations: Iterable[Operation]) -> list[Operation]:
    """Return fewer operations that come to the same: the last word on a field, a member once, what is remembered in its order.

    Nearly every record names its job and its cluster, and the rescaler writes its memory of a job anew at each step.
    """
    once: dict[tuple[str, str], Operation] = {}
    versions: dict[tuple[str, str], list[Operation]] = {}
    others: list[Operation] = []
    for operation in operations:
        match operation:
            case SetField(key, field, version=int()):
                versions.setdefault((key, field), []).append(operation)
            case SetField(key, field) | DropField(key, field):
                once[key, field] = operation
                versions.pop((key, field), None)
            case AddMember(key, member):
                once[key, member] = operation
            case _:
                others.append(operation)
    return [*once.values(), *(each for found in versions.values() for each in found), *others]
