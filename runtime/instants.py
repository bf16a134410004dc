"""Instants as people write and read them, in UTC. Pure."""

from datetime import UTC, datetime

_LAST_MS = 253_402_300_799_999  # the end of the year 9999


def event_time_ms(text: str) -> int:
    """Return an instant in milliseconds since the epoch, given in ISO 8601 (UTC unless stated) or already in milliseconds.

    Raises:
        ValueError: it is neither.

    >>> event_time_ms("1995-08-28T10:00"), event_time_ms("60000")
    (809604000000, 60000)
    """
    if text.isascii() and text.isdigit():
        return int(text)
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def to_the_second(at_ms: int) -> str:
    """Return an instant for people; one that no calendar date names, which anybody may write into a record, as it is.

    >>> to_the_second(809604000000), to_the_second(2**53)
    ('1995-08-28 10:00:00', '9007199254740992 ms')
    """
    if at_ms > _LAST_MS:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def to_the_minute(at_ms: int) -> str:
    """Return an instant for people, without seconds: spans and windows end on whole minutes."""
    return to_the_second(at_ms).removesuffix(f":{at_ms // 1000 % 60:02}")
