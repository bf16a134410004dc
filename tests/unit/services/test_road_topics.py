"""What Kafka says, as one line that names the fix."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from contracts.settings import RoadSettings
from services.road_topics import readable


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            KafkaException(KafkaError(KafkaError._TRANSPORT, "no route")),
            "does not answer (no route); name another with --bootstrap",
        ),
        (
            KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no topic x")),
            "no topic x; `surescale topics create` makes",
        ),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not yours")), "refused: not yours"),
        (TimeoutError("nothing is delivered"), "Kafka at 127.0.0.1:1: nothing is delivered"),
    ],
)
def test_an_error_of_kafka_becomes_one_line(error: Exception, says: str) -> None:
    """It names the address, and what to do where something can be done."""
    with pytest.raises(ConnectionError) as caught, readable(RoadSettings(bootstrap="127.0.0.1:1")):
        raise error
    assert str(caught.value).startswith("Kafka at 127.0.0.1:1")
    assert says in str(caught.value)
