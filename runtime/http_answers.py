"""What every answer of our HTTP servers says to browsers and proxies, and how they refuse what they cannot read."""

import json
import re
from collections.abc import Callable, Mapping

HEADERS = {
    "Server": "surescale",  # not which version of what reads the requests
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: no page of anybody else makes use of it."""
BROKEN = "this request cannot be answered; the log of the service says why"
_QUOTES = re.compile(r":?\s*(?:\n|\(|(?<![A-Za-z])b?['\"])")  # where words end and a piece of the request begins
_KEPT = frozenset({"allow", "retry-after", "www-authenticate"})

Refusal = Callable[[int, str], bytes]
"""Makes the body of a refusal of its status and its reason: a JSON document."""


def refusal(_status: int, why: str) -> bytes:
    """Return the body of a refusal in the usual form."""
    return json.dumps({"error": why}).encode()


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a refusal that say what to do instead, and when."""
    return {name: value for name, value in headers.items() if name.lower() in _KEPT}


def malformed(error: BaseException) -> str:
    r"""Return what is wrong with a request, without a piece of it: it may have a token in it.

    >>> malformed(ValueError("Invalid header value char:\n\n  b'Authorization: Bearer secret'"))
    'Invalid header value char'
    """
    said = str(getattr(error, "message", "") or error).removeprefix("400, message:").strip()
    return _QUOTES.split(said, maxsplit=1)[0][:100] or type(error).__name__
