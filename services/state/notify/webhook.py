"""One webhook: sends it an event, and says what its answer means.

Events are CloudEvents 1.0 in structured mode, signed as Standard Webhooks:
https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md, https://www.standardwebhooks.com
"""

import base64
import binascii
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote, urlsplit

import msgspec

from surescale.contracts.errors import SurescaleError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.runtime.access import Access, TokenUnreadable
from surescale.runtime.http import NoAnswer
from surescale.runtime.http_pool import Answer, ConnectionPool, PrivateAddress
from surescale.services.state.notify.settings import PREFIX, Notice, NotifySettings

ANSWER_BYTES_MAX = 64 * 1024
"""Nobody reads the body of an answer; one that is longer counts as no answer."""
RETRY_AFTER_S_MAX = 300.0
_NEVER = frozenset({400, 413, 415, 422})
"""Statuses that say that this event will never be taken, whoever sends it and when."""
_SETTING = "SURESCALE_NOTIFY_KEY_FILE"

Verdict = Literal["delivered", "refused", "failed"]


class KeyUnreadable(SurescaleError):
    """The file with the key cannot be used now."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one attempt.

    Attributes:
        verdict: ``refused``: it will never be taken; ``failed``: it may be taken later.
        status: first digit of the status and ``xx``; ``none``: no whole answer.
        words: for people.
        wait_s: for how long the webhook asks to be left alone.
    """

    verdict: Verdict
    status: str
    words: str = ""
    wait_s: float | None = None


class Webhook:
    """Where events go. Secrets are read for each event, so a rotated one takes effect at once."""

    def __init__(self, settings: NotifySettings) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: the authorities' file cannot be used.
        """
        parts = urlsplit(settings.notify_url)
        self._path = parts.path + (f"?{parts.query}" if parts.query else "")
        self.shown = f"{parts.scheme}://{parts.netloc}"
        """Without path and query, which may be a secret."""
        self._access = Access(settings.notify_token_file, settings.notify_ca_file, settings="SURESCALE_NOTIFY")
        self._key_file, self._timeout_s = settings.notify_key_file, settings.notify_timeout_seconds
        context = self._access.context() if parts.scheme == "https" else None
        self._connections = ConnectionPool(self.shown, context, is_public=not settings.notify_private)

    def check(self) -> None:
        """Read what is needed to send an event.

        Raises:
            SurescaleError: the token or the key cannot be read; names the setting.
        """
        self._access.headers()
        self._key()

    def send(self, identity: str, body: bytes) -> Reply:
        """Send one event once."""
        try:
            headers = {"Content-Type": CONTENT_TYPE, "User-Agent": "surescale", **self._access.headers()}
            key = self._key()
        except (TokenUnreadable, KeyUnreadable) as problem:
            return Reply("failed", "none", str(problem))
        if key is not None:
            headers |= signature(key, identity, round(time.time()), body)
        try:
            answer = self._connections.ask(
                "POST", self._path or "/", body, headers, timeout_s=self._timeout_s, bytes_max=ANSWER_BYTES_MAX
            )
        except PrivateAddress as refused:
            return Reply(
                "failed", "none", f"{self.shown} is not asked: {refused}; set SURESCALE_NOTIFY_PRIVATE=true if it is meant"
            )
        except NoAnswer as error:
            return Reply("failed", "none", f"{self.shown} gives no answer: {error}")
        return reply_to(answer, self.shown)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _key(self) -> bytes | None:
        if not self._key_file:
            return None
        try:
            return signing_key(contents(self._key_file).decode("ascii"))
        except OSError as error:
            raise KeyUnreadable(
                f"{_SETTING}: {self._key_file} cannot be read ({reason_of(error)}); set it to a readable file"
            ) from None
        except ValueError as wrong:
            words = "it is not text" if isinstance(wrong, UnicodeDecodeError) else str(wrong)
            raise KeyUnreadable(f"{_SETTING}: {self._key_file}: {words}") from None


def reply_to(answer: Answer, shown: str) -> Reply:
    """Return what an answer of a webhook means."""
    status, said = f"{answer.status // 100}xx", f"{shown} answers {answer.status} {answer.reason}".rstrip()
    if status == "2xx":
        return Reply("delivered", status)
    if status == "3xx":
        to = f" ({urlsplit(answer.location).netloc})" if urlsplit(answer.location).netloc else ""
        return Reply("failed", status, f"{said}: redirects are not followed; set SURESCALE_NOTIFY_URL to where it leads{to}")
    if answer.status in _NEVER:
        return Reply("refused", status, f"{said}: it does not take this event")
    return Reply("failed", status, said, _seconds(answer.retry_after))


def _seconds(retry_after: str) -> float | None:
    """Return the seconds of a header Retry-After, within bounds; None for a date, and without one."""
    if not re.fullmatch(r"[0-9]{1,9}", retry_after.strip()):
        return None
    return min(float(retry_after), RETRY_AFTER_S_MAX)


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
