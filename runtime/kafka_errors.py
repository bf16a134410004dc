"""What Kafka's errors mean: an end, a passing outage or a refusal; and the one line that a person at a terminal reads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka_security import uses_tokens
from surescale.runtime.oauth_tokens import NoToken, fetch_token, refusal_by_broker

_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})

_AUTHENTICATION = re.compile(r"SASL authentication error: (.{1,500}?)(?: \(after \d+ms|$)")
_NOT_BELIEVED = (
    "the certificate that Kafka shows is not believed: it has expired, is for another host than the one in SURESCALE_BOOTSTRAP, "
    "or was not signed by the authority in SURESCALE_KAFKA_CA_FILE"
)
_NEEDED = "; `surescale topics acls` prints the rights that are needed"
_RIGHTS = {KafkaError.TOPIC_AUTHORIZATION_FAILED: _NEEDED, KafkaError.GROUP_AUTHORIZATION_FAILED: _NEEDED}


def refusal_of(topic: str | None, error: KafkaError) -> str:
    """Return what a broker refused, with the topic, which the error does not name, and the command that prints rights."""
    return f"{topic}: {error.str()}{_RIGHTS.get(error.code(), '')}"


def is_record(message: Message) -> bool:
    """Return whether a message is a record; otherwise it marks the end of a partition or a fault the client recovers from.

    Raises:
        KafkaException: the broker refused.
    """
    error = message.error()
    if error is None:
        return True
    if not is_end(message) and not error.retriable():
        raise KafkaException(KafkaError(error.code(), refusal_of(message.topic(), error), fatal=error.fatal()))
    return False


def is_end(message: Message) -> bool:
    """Return whether a message marks the end of its partition. Clients with `enable.partition.eof` receive such messages.

    The end's offset lies behind transaction markers, which are never delivered as records.
    """
    error = message.error()
    return error is not None and bool(error.code() == KafkaError._PARTITION_EOF)


class Refused(KafkaException):
    """A broker, or an issuer of tokens, refused this client; the text names the setting and the fix."""

    def __init__(self, reason: str) -> None:
        super().__init__(KafkaError(KafkaError._AUTHENTICATION, reason))
        self._reason = reason

    def __str__(self) -> str:
        return self._reason


class Refusals:
    """Keeps why brokers and a client do not come together; the request itself ends as if nobody answered."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._said = ""
        self._is_not_believed = False

    def hear(self, error: KafkaError) -> None:
        """Take what the client tells its ``error_cb``."""
        if error.code() == KafkaError._AUTHENTICATION:
            self._said = in_short(error.str())
        elif error.code() == KafkaError._SSL and "certificate verify failed" in error.str():
            self._is_not_believed = True

    @contextmanager
    def explained(self, client: AdminClient) -> Iterator[None]:
        """Turn the end of a request into the reason for which the broker, or the issuer of tokens, refused this client.

        Raises:
            KafkaException: in place of the client's own; the text names setting and fix.
        """
        try:
            yield
        except KafkaException:
            client.poll(0)
            reason = self.reason()
            if reason:
                raise Refused(reason) from None
            raise

    def reason(self) -> str:
        """Return why nobody answers, as far as the client is at fault; else an empty text."""
        said, self._said = self._said, ""
        is_not_believed, self._is_not_believed = self._is_not_believed, False
        if is_not_believed:
            return _NOT_BELIEVED
        if not uses_tokens(self._settings):
            return f"the broker refuses user and password ({said})" if said else ""
        if said:
            return refusal_by_broker(self._settings, said)
        try:
            fetch_token(self._settings)
        except NoToken as error:
            return str(error)
        return ""


def in_short(said: str) -> str:
    """Return what a broker says of a client that it refuses, without the client library's own words around it.

    >>> in_short('sasl_ssl://h:9/bootstrap: SASL authentication error: {"status":"invalid_token"} (after 3ms in state AUTH_REQ)')
    '{"status":"invalid_token"}'
    """
    found = _AUTHENTICATION.search(said)
    return found.group(1) if found else said


@contextmanager
def readable_errors(settings: PipelineSettings) -> Iterator[None]:
    """Turn what Kafka says into one line that names the address and the fix.

    Raises:
        ConnectionError: in place of KafkaException and TimeoutError.
    """
    try:
        yield
    except KafkaException as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap} {_in_words(error, settings)}") from None
    except TimeoutError as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap}: {error}") from None


def _in_words(error: KafkaException, settings: PipelineSettings) -> str:
    cause = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
    if cause is None:
        return f"refused: {error}"
    if cause.code() in _UNREACHABLE:
        if reason := Refusals(settings).reason():
            return f"cannot be asked: {reason}"
        return f"does not answer ({cause.str()}); name another with --bootstrap or SURESCALE_BOOTSTRAP"
    if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"refused: {cause.str()}; `surescale topics create` creates the topics, --prefix names another pipeline"
    return f"refused: {cause.str()}"
