"""Packs a document for its place in a timeline: compressed, and still text, since Redis answers text."""

import base64
import zlib

_PACKED = "z"  # no JSON object begins with it
_PACKED_FROM_BYTES = 512  # smaller ones gain too little
UNPACKED_BYTES_MAX = 64 * 2**20  # far above what Kafka accepts as a record


def pack(body: bytes) -> bytes:
    """Return a document as it is stored: a large one compressed, since a job's decisions repeat the same names."""
    if len(body) < _PACKED_FROM_BYTES:
        return body
    return _PACKED.encode() + base64.b64encode(zlib.compress(body))


def unpack(stored: str) -> str | bytes:
    """Return the document that was stored.

    Raises:
        ValueError: it was damaged.
    """
    if not stored.startswith(_PACKED):
        return stored
    unpacked = zlib.decompressobj()
    try:
        body = unpacked.decompress(base64.b64decode(stored[len(_PACKED) :], validate=True), UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacked.eof:
        raise ValueError("it is cut off or too large")
    return body
