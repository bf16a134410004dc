"""What spans say of Kafka and of HTTP, in the words of OpenTelemetry's semantic conventions (version 1.44).

Messaging is still in development there: names may change with a later version, and then change here.
"""

from urllib.parse import urlunsplit

from surescale.runtime.tracing.spans import Attributes

ERROR_TYPE, STATUS_CODE = "error.type", "http.response.status_code"
_PORTS = {"http": 80, "https": 443}


def sent(topic: str) -> Attributes:
    """Return what a span says that writes to a topic (full name)."""
    return _messaging("send", topic)


def processed(topic: str, group: str = "") -> Attributes:
    """Return what a span says that works on a record of a topic (full name); ``group``: whose place in it is kept with Kafka."""
    return {**_messaging("process", topic), **({"messaging.consumer.group.name": group} if group else {})}


def requested(method: str, scheme: str, host: str, port: int | None, path: str) -> Attributes:
    """Return what a span says of a request over HTTP.

    >>> requested("GET", "https", "10.0.0.1", None, "/jobs")["server.port"]
    443
    """
    place = f"[{host}]" if ":" in host else host
    return {
        "http.request.method": method,
        "server.address": host,
        "server.port": port or _PORTS[scheme],
        "url.full": urlunsplit((scheme, place if port is None else f"{place}:{port}", path, "", "")),
    }


def _messaging(operation: str, topic: str) -> dict[str, str]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": topic,
    }
