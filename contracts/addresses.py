"""Addresses that settings name: which ones are of HTTP, and how to show one without its password. Pure."""

import re
from urllib.parse import urlsplit

STARS = "***"
"""Shown in place of a secret."""
SECRET_NAMES = r"password|passwd|secret|token|api[_-]?key"
"""Regular expression of the names under which a secret is given."""
_IN_QUERY = re.compile(rf"([?&;](?:\w*(?:{SECRET_NAMES}))=)[^&;#]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return an address for logs and messages, with any password replaced by stars.

    A password is what stands between the first ``:`` after ``//`` and the last ``@``, whatever characters it has, and what the
    query gives under such a name.
    """
    shown = _IN_QUERY.sub(rf"\1{STARS}", url)
    scheme, slashes, rest = shown.partition("//")
    credentials, at, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{slashes}{user}:{STARS}{at}{host}" if colon else shown


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses of a setting that may name several, with commas between.

    >>> addresses_in("http://one:8081, http://two:8081")
    ('http://one:8081', 'http://two:8081')
    """
    return tuple(part.strip() for part in text.split(","))


def is_http(url: str) -> bool:
    """Return whether this is an address of HTTP or HTTPS, without user and password."""
    try:
        parts = urlsplit(url)
        # No client sends a user or a password from an address, and errors would carry them to topics and logs.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in url
    except ValueError:  # unclosed brackets, an invalid port
        return False
