"""A span's place in its trace, as the Kafka header ``traceparent`` carries it (W3C Trace Context, version 00).

Anybody may have written a header, so one that is not exactly as the specification says counts as none.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TRACEPARENT = "traceparent"
LENGTH = 55
"""Bytes of a traceparent of version 00."""
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_SAMPLED = 0x01

Headers = list[tuple[str, bytes]]
GivenHeaders = Mapping[str, object] | Iterable[tuple[str, object]] | None
"""Headers of a record as Kafka's clients give them."""


class TraceContext(NamedTuple):
    """Where a span is."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    def headers(self) -> Headers:
        """Return the header that hands this place on.

        >>> TraceContext(0xA1, 0xB2).headers()
        [('traceparent', b'00-000000000000000000000000000000a1-00000000000000b2-01')]
        """
        return [(TRACEPARENT, f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}".encode())]


def parsed(value: object) -> TraceContext | None:
    """Return the place that the value of a ``traceparent`` names; None if it is not well formed.

    Of a version after 00 the part that 00 defines counts, as the specification asks.

    >>> parsed(b"00-000000000000000000000000000000a1-00000000000000b2-01")
    TraceContext(trace_id=161, span_id=178, is_sampled=True)
    >>> parsed(b"00-0-0-01") is None
    True
    """
    raw = value.encode(errors="replace") if isinstance(value, str) else value
    if not isinstance(raw, bytes) or len(raw) < LENGTH:
        return None
    found = _FORM.fullmatch(raw[: LENGTH + 1])
    if found is None or found[1] == b"ff" or (found[1] == b"00" and len(raw) != LENGTH):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    return TraceContext(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED)) if trace_id and span_id else None


def context_of(headers: GivenHeaders) -> TraceContext | None:
    """Return the place that a record's headers name; None if none does, or more than one header of that name is there."""
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    values = [value for name, value in pairs if name == TRACEPARENT]
    return parsed(values[0]) if len(values) == 1 else None
