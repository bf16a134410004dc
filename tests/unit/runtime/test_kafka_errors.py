"""What Kafka's errors mean to a reader, and the one line that names the fix."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka_errors import is_end, is_record, readable_errors


class _Message:
    """A message that is a record, or carries an error in place of one."""

    def __init__(self, error: KafkaError | None) -> None:
        self._error = error

    def error(self) -> KafkaError | None:
        """Return the error."""
        return self._error

    def topic(self) -> str:
        """Return the topic that it is of."""
        return "x-decisions"


def message(code: int | None, *, retriable: bool = False) -> Any:
    """Return a message with an error of this code; None: a record."""
    return _Message(None if code is None else KafkaError(code, "why", retriable=retriable))


def test_a_record_is_no_end() -> None:
    """It carries no error."""
    assert (is_record(message(None)), is_end(message(None))) == (True, False)


def test_the_end_of_a_partition_is_no_record() -> None:
    """A reader that asked for ends goes on with the next partition."""
    end = message(KafkaError._PARTITION_EOF)
    assert (is_record(end), is_end(end)) == (False, True)


def test_a_fault_that_passes_is_neither_record_nor_end() -> None:
    """The client comes through it by itself."""
    fault = message(KafkaError._TIMED_OUT, retriable=True)
    assert (is_record(fault), is_end(fault)) == (False, False)


def test_a_refusal_is_raised() -> None:
    """The broker will not answer otherwise later."""
    with pytest.raises(KafkaException, match="x-decisions: why; `surescale topics acls` prints the rights"):
        is_record(message(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException, match="x-decisions: why") as refused:
        is_record(message(KafkaError.OFFSET_OUT_OF_RANGE))
    assert "acls" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            KafkaException(KafkaError(KafkaError._TRANSPORT, "no route")),
            "does not answer (no route); name another with --bootstrap",
        ),
        (
            KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no topic x")),
            "no topic x; `surescale topics create` creates",
        ),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not yours")), "refused: not yours"),
        (TimeoutError("nothing is delivered"), "Kafka at 127.0.0.1:1: nothing is delivered"),
    ],
)
def test_an_error_of_kafka_becomes_one_line(error: Exception, says: str) -> None:
    """It names the address, and what to do where something can be done."""
    with pytest.raises(ConnectionError) as caught, readable_errors(PipelineSettings(bootstrap="127.0.0.1:1")):
        raise error
    assert str(caught.value).startswith("Kafka at 127.0.0.1:1")
    assert says in str(caught.value)
