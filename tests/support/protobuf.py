"""Messages of protobuf, byte by byte: also those that no library would write."""


def varint(number: int, *, width: int = 1) -> bytes:
    """Return a number as protobuf writes it, in at least so many bytes."""
    parts = bytearray()
    while number > 0x7F or len(parts) + 1 < width:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*parts, number))


def field(number: int, value: int | bytes | str, *, tag: bytes = b"") -> bytes:
    """Return one field of a message; ``tag`` takes the place of the one that it should have."""
    if isinstance(value, int):
        return (tag or varint(number << 3)) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return (tag or varint(number << 3 | 2)) + varint(len(raw)) + raw
