"""Kafka's own murmur2, so that a record can lie where another key would."""

import pytest

from surescale.contracts.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafka_clients(key: str, signed: int) -> None:
    """The values are those that Apache Kafka's own tests expect."""
    assert murmur2(key.encode()) == signed & 0xFFFFFFFF


def test_a_partition_is_the_positive_hash_modulo_their_number() -> None:
    """The sign bit is dropped before the remainder is taken."""
    assert partition_of("foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7
