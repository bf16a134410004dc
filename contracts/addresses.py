"""Addresses that settings name: which ones can be used, and how to show one without its password. Pure."""

import re
from pathlib import Path
from urllib.parse import urlsplit

STARS = "***"
"""Shown in place of a secret."""
SECRET_NAMES = r"password|passwd|secret|token|api[_-]?key"
"""Regular expression of the names under which a secret is given."""
_IN_QUERY = re.compile(rf"([?&;](?:\w*(?:{SECRET_NAMES}))=)[^&;#]*", re.IGNORECASE)
_SPARK_MASTER = re.compile(r"local(?:\[[0-9*]+(?:,[0-9]+)?\])?|local-cluster\[[0-9]+,[0-9]+,[0-9]+\]|(?:spark|k8s)://\S+|yarn")
STORES = ("file", "s3", "gs", "abfs", "abfss", "hdfs")
"""Schemes of the stores that may hold a checkpoint."""
_ALSO_S3 = ("s3a", "s3n")  # Hadoop's names of it
_WITHOUT_HOST = ("file", "hdfs")  # Hadoop's own settings may name the latter's
NO_MASTER = "{!r} is no Spark master; set local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn (there or with --master)"


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


def wrong_broker(text: str) -> str | None:
    """Return the first of several addresses of Kafka that is not host:port; None: all are.

    >>> wrong_broker("one:9092, [::1]:9092"), wrong_broker("one:9092,two"), wrong_broker("http://one:9092")
    (None, 'two', 'http://one:9092')
    """
    return next((part for part in addresses_in(text) if part and not _is_broker(part)), None)


def _is_broker(part: str) -> bool:
    try:
        parts = urlsplit(f"//{part}")
        return bool(parts.hostname and parts.port) and parts.netloc == part and not re.search(r"[\s@]", part)
    except ValueError:  # a port that is none, or brackets that do not match
        return False


def is_spark_master(text: str) -> bool:
    """Return whether this is the address of a Spark master, as Spark has them."""
    return _SPARK_MASTER.fullmatch(text) is not None


def store_of(text: str) -> str | None:
    """Return the URL of a checkpoint's store in its usual form; None: a path.

    A relative path with a colon in its first part is written ``./a:b``, as everywhere else (RFC 3986, 4.2): what only looks like
    a path must not become a folder that nobody looks for.

    >>> store_of("S3A://bucket/path "), store_of("/var/lib/checkpoint"), store_of("./a:b")
    ('s3://bucket/path', None, None)

    Raises:
        ValueError: it is no URL of a store; says why.
    """
    scheme, colon, rest = text.strip().partition(":")
    if not colon or "/" in scheme:
        first, slashes, _ = text.strip().partition("//")
        if slashes and first.lower() in (*STORES, *_ALSO_S3):
            raise ValueError(f"a URL begins with {first.lower()}://")
        return None
    scheme = scheme.lower()
    if scheme in _ALSO_S3:
        scheme = "s3"
    if scheme not in STORES:
        raise ValueError(f"{scheme}: is no store; use a folder, or a URL with one of {', '.join(STORES)}")
    if not rest.startswith("/" if scheme == "file" else "//"):
        raise ValueError(f"a URL begins with {scheme}://")
    if scheme not in _WITHOUT_HOST and not urlsplit(f"{scheme}:{rest}").netloc:
        raise ValueError(f"{scheme}://: it names no {'container' if scheme.startswith('abfs') else 'bucket'}")
    return f"{scheme}:{rest}"


def checkpoint_place(text: str) -> str:
    """Return where a checkpoint lies, for processes with working folders of their own: a URL, or the whole path of a folder.

    Raises:
        ValueError: it is no URL of a store; says why.
    """
    return store_of(text) or str(Path(text.strip()).absolute())


def is_http(url: str) -> bool:
    """Return whether this is an address of HTTP or HTTPS, without user and password."""
    try:
        parts = urlsplit(url)
        # No client sends a user or a password from an address, and errors would carry them to topics and logs.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in url
    except ValueError:  # unclosed brackets, an invalid port
        return False
