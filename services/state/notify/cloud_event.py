"""The form of an event: CloudEvents 1.0 in structured mode, signed as Standard Webhooks. Pure.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md, https://www.standardwebhooks.com
"""

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from services.state.notify.kinds import PREFIX, Notice

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
KEY_BYTES_MIN = 24
_KEY_PREFIX = "whsec_"


def event_id(notice: Notice) -> str:
    """Return the event's id: the same for the same event, however often it is sent."""
    said = f"{notice.kind}\0{notice.subject}\0{notice.identity}".encode()
    return f"{notice.kind}-{hashlib.blake2b(said, digest_size=16).hexdigest()}"


def cloud_event(notice: Notice, pipeline: str) -> bytes:
    """Return the event as JSON; ``pipeline`` is the pipeline's name, with its topics' prefix."""
    document = {
        "specversion": "1.0",
        "id": event_id(notice),
        "source": f"/surescale/{quote(pipeline, safe='')}/{quote(notice.cluster, safe='')}",
        "type": PREFIX + notice.kind,
        "subject": notice.subject,
        "time": _instant(notice.appended_ms),
        "datacontenttype": "application/json",
        "data": {"summary": notice.summary, "at": _instant(notice.at_ms), "record": notice.identity, **notice.data},
    }
    return msgspec.json.encode(document)


def signing_key(text: str) -> bytes:
    """Return the key that a file's text holds.

    Raises:
        ValueError: it holds none; says what to write.
    """
    try:
        key = base64.b64decode(text.strip().removeprefix(_KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < KEY_BYTES_MIN:
        raise ValueError(
            f"it holds no key of at least {KEY_BYTES_MIN} bytes in base64; write one: "
            '`echo "whsec_$(head -c 32 /dev/urandom | base64)"`'
        )
    return key


def signature(key: bytes, identity: str, sent_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that say who sent what when: an HMAC by SHA-256 over identity, time and body.

    >>> key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')["webhook-signature"]
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    digest = hmac.digest(key, b"%b.%d.%b" % (identity.encode(), sent_s, body), "sha256")
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(sent_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


_LAST_MS = 253_402_300_799_000  # the end of the year 9999: later times have no date


def _instant(at_ms: int) -> str:
    at = datetime.fromtimestamp(min(at_ms, _LAST_MS) / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
