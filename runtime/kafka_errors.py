"""What Kafka's errors mean: an end, a passing outage or a refusal; and the one line that a person at a terminal reads."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message

from contracts.settings import RoadSettings

_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})

_NEEDED = "; `surescale topics acls` prints the rights that are needed"
_RIGHTS = {KafkaError.TOPIC_AUTHORIZATION_FAILED: _NEEDED, KafkaError.GROUP_AUTHORIZATION_FAILED: _NEEDED}


def is_record(message: Message) -> bool:
    """Return whether a message is a record; otherwise it marks the end of a partition or a fault the client recovers from.

    Raises:
        KafkaException: the broker refused.
    """
    error = message.error()
    if error is None:
        return True
    if not is_end(message) and not error.retriable():
        # The error itself names no topic.
        told = f"{message.topic()}: {error.str()}{_RIGHTS.get(error.code(), '')}"
        raise KafkaException(KafkaError(error.code(), told, fatal=error.fatal()))
    return False


def is_end(message: Message) -> bool:
    """Return whether a message marks the end of its partition. Clients with `enable.partition.eof` receive such messages.

    The end's offset lies behind transaction markers, which are never delivered as records.
    """
    error = message.error()
    return error is not None and bool(error.code() == KafkaError._PARTITION_EOF)


@contextmanager
def readable_errors(settings: RoadSettings) -> Iterator[None]:
    """Turn what Kafka says into one line that names the address and the fix.

    Raises:
        ConnectionError: in place of KafkaException and TimeoutError.
    """
    try:
        yield
    except KafkaException as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap} {_in_words(error)}") from None
    except TimeoutError as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap}: {error}") from None


def _in_words(error: KafkaException) -> str:
    cause = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
    if cause is None:
        return f"refused: {error}"
    if cause.code() in _UNREACHABLE:
        return f"does not answer ({cause.str()}); name another with --bootstrap or SURESCALE_BOOTSTRAP"
    if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"refused: {cause.str()}; `surescale topics create` creates the topics, --prefix names another pipeline"
    return f"refused: {cause.str()}"
