"""Encodes and decodes messages. Encoding is deterministic: the same message gives the same bytes on every machine."""

import re
import threading
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

from surescale.contracts.errors import UNREADABLE, RecordRejected
from surescale.contracts.ids import split_job

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="deterministic")
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_learning = threading.Lock()
_PATH = re.compile(r" - at `\$\.?(.*)`\Z")
_OWN_CHECK = re.compile(r"([a-z0-9_]+): ")  # messages of our own begin with the field; those of msgspec with a capital


def encode(message: msgspec.Struct) -> bytes:
    """Return the message as UTF-8 JSON: declared field order, dictionary keys sorted, no white space.

    Raises:
        ValueError: names a field that must be a number and is NaN or infinite. JSON has no such numbers, and readers would
            refuse the record.
    """
    raw = _encoder.encode(message)
    if b"null" in raw:  # what JSON has in place of such a number, and of None
        try:
            decoder(type(message)).decode(raw)
        except msgspec.ValidationError as error:
            if "got `null`" in str(error):
                raise ValueError(f"{type(message).__name__}: {error}: it is NaN or infinite, which no record can hold") from None
    return raw


@overload
def decode(raw: bytes | str | None, kind: type[T]) -> T: ...


@overload
def decode(raw: bytes | str | None, kind: UnionType) -> Any: ...


def decode(raw: bytes | str | None, kind: type[T] | UnionType) -> Any:
    """Parse and validate one record as ``kind`` (a message class or a union of them).

    Raises:
        RecordRejected: with the reason (``not_json``, ``unknown_type``, ``invalid_field``) and the path of the field. A job's
            id must have the form cluster/name.
    """
    if raw is None:
        raise RecordRejected("not_json", "", "the record has no value")
    try:
        message = decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        raise _rejected(str(error)) from None
    except UNREADABLE as error:
        raise RecordRejected("not_json", "", f"not a JSON document: {error}") from None
    job = getattr(message, "job", None)
    if job is not None:
        split_job(job)
    return message


@overload
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...


@overload
def decoder(kind: UnionType) -> msgspec.json.Decoder[Any]: ...


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a type, the same for all threads.

    msgspec learns a class when it first decodes one. If two threads make it learn the same class at once, the process ends by a
    segmentation fault, so here it learns one after the other.
    """
    found = _decoders.get(kind)
    if found is None:
        with _learning:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def learned(kind: type[T]) -> type[T]:
    """Return a type that several threads may convert to at once: see `decoder`."""
    decoder(kind)
    return kind


def _rejected(text: str) -> RecordRejected:
    found = _PATH.search(text)
    path = found.group(1) if found else ""
    message = _PATH.sub("", text)
    missing = re.search(r"missing required field `(.+?)`", message)
    if missing:
        path = f"{path}.{missing.group(1)}" if path else missing.group(1)
    own_check = None if path else _OWN_CHECK.match(message)
    if own_check:
        path, message = own_check.group(1), message[own_check.end() :]
    reason = "unknown_type" if path == "type" else "invalid_field"
    return RecordRejected(reason, path, message[:1].lower() + message[1:])
