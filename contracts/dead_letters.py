"""Builds the dead letter of a refused record: where the record is, why it was refused, how it begins. Pure."""

from dataclasses import dataclass

from contracts.errors import RecordRejected
from contracts.messages import DeadLetter

KEY_BYTES_MAX = 1_024  # of a refused record, kept as its dead letter's key: a larger one might not be accepted as a key again
PAYLOAD_BYTES_MAX = 4_096  # of a refused record, kept in its dead letter: enough for a whole sample and the start of a window


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a record is; ``topic`` is the full name."""

    topic: str
    partition: int
    offset: int


def beginning_of(raw: bytes | None) -> bytes:
    """Return the part of a record its dead letter keeps."""
    return (raw or b"")[:PAYLOAD_BYTES_MAX]


def key_of_letter(key: bytes | None) -> bytes | None:
    """Return the key of a dead letter: the record's own, or its beginning."""
    return None if key is None else key[:KEY_BYTES_MAX]


def dead_letter(at: Coordinates, raw: bytes | None, error: RecordRejected, *, refused_by: str) -> DeadLetter:
    """Return the dead letter. Its message does not repeat the field, which has its own place."""
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
