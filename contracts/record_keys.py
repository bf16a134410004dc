"""Of what topics keep for ever, a record's key says what it is about, and so does its body; where they disagree, readers pass it.

By its key Kafka keeps a record's last version and lets it be taken away. A record under another key than its own would be in
force for ever beside its writer's, in an order that nobody knows. Recordings are read as they stand.
"""

from types import UnionType
from typing import Any, TypeVar, overload

from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, ClusterTopology, JobTopology
from surescale.contracts.releases import Release
from surescale.contracts.wire import decode

T = TypeVar("T")
_KEY_SHOWN_MAX = 100


def record_key(message: object) -> str | None:
    """Return the key under which a record lies; None for one that Kafka keeps by time, whose key only chooses its partition.

    A rescaler's memory has keys of another form: `contracts.rescaler_state`.
    """
    match message:
        case JobTopology() | JobSettings():
            return message.job
        case ClusterTopology() | Release():
            return message.cluster
        case ClockSegment():
            return message.pipeline
    return None


@overload
def decode_under(key: bytes | None, raw: bytes | str | None, kind: type[T]) -> T: ...


@overload
def decode_under(key: bytes | None, raw: bytes | str | None, kind: UnionType) -> Any: ...


def decode_under(key: bytes | None, raw: bytes | str | None, kind: type[T] | UnionType) -> Any:
    """Parse and validate one record as ``kind`` (see `wire.decode`), and check it against its key.

    Raises:
        RecordRejected: it does not parse or validate, or is about something else than its key says.
    """
    message: Any = decode(raw, kind)
    own = record_key(message)
    if own is not None and key != own.encode():
        shown = None if key is None else key[:_KEY_SHOWN_MAX]
        raise RecordRejected("invalid_field", "key", f"the record is about {own!r}, and its key is {shown!r}")
    return message
