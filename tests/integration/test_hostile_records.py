"""One rule for every consumer of every topic: whatever a record is, it is answered, counted and passed, and stops nobody."""

from pathlib import Path

import pytest

from surescale.contracts.settings import PipelineSettings
from tests.conftest import KafkaForTests
from tests.support.attacked_consumer import Consumer, consumer_of
from tests.support.hostile_consumers import CONSUMERS

pytestmark = pytest.mark.integration

REFUSED_LEAST = 60
"""At least so many records of each topic are refused by its readers."""


@pytest.mark.parametrize("kind", CONSUMERS, ids=[kind.role for kind in CONSUMERS])
def test_no_record_stops_a_role(kind: type[Consumer], kafka: KafkaForTests, redis_url: str, tmp_path: Path) -> None:
    """Good records are handled before hostile ones, behind them, and by a process that reads all of them again from the start."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), redis_url=redis_url)
    with consumer_of(kind, settings, tmp_path) as consumer:
        consumer.round()
        assert consumer.attack() > 100 * len(kind.reads)
        consumer.round()
        assert consumer.refused() >= REFUSED_LEAST * len(kind.reads)
        assert consumer.memory_used_mib() < kind.memory_mib
        if kind.reads_again:
            consumer.kill()
            consumer.start()
            consumer.round()
            assert consumer.memory_used_mib() < kind.memory_mib
