"""From a refused record to its dead letter: where it lies, why it was refused, how it begins. Alike for every role; pure."""

from dataclasses import dataclass

from contracts.errors import RecordRejected
from contracts.messages import DeadLetter

PAYLOAD_BYTES_MAX = 4_096  # of a refused record, kept in its dead letter: a sample whole, of a window the beginning


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a record lies; ``topic`` is its full name."""

    topic: str
    partition: int
    offset: int


def beginning_of(raw: bytes | None) -> bytes:
    """Return as much of a record as its dead letter keeps."""
    return (raw or b"")[:PAYLOAD_BYTES_MAX]


def dead_letter(at: Coordinates, raw: bytes | None, error: RecordRejected, *, refused_by: str) -> DeadLetter:
    """Return the record of a refusal. The message does not repeat the field, which stands beside it."""
    return DeadLetter(
        topic=at.topic,
        partition=at.partition,
        offset=at.offset,
        reason=error.reason,
        field=error.field,
        message=error.message,
        refused_by=refused_by,
        payload=beginning_of(raw).decode("utf-8", "replace"),
    )
