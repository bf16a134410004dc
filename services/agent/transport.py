"""Faust's Kafka transport with the road's settings: read committed, windows of 16 MiB, a short session.

Faust reads committed records only in its transactional mode. The agent produces at least once and still must not see what a
producer took back, so the consumer is made here.
"""

from typing import TYPE_CHECKING

import aiokafka
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from contracts.topics import RECORD_BYTES_MAX

if TYPE_CHECKING:
    import faust

FETCH_WAIT_MS = 500
METADATA_AGE_MS = 30_000


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        conf = self.app.conf
        self._assignor = RoundRobinPartitionAssignor
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=driver.server_list(transport.url, transport.default_port),
            client_id=conf.broker_client_id,
            group_id=conf.id,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[self._assignor],
            max_partition_fetch_bytes=RECORD_BYTES_MAX,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_poll_records=conf.broker_max_poll_records,
            max_poll_interval_ms=int(conf.broker_max_poll_interval * 1000),
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            metadata_max_age_ms=METADATA_AGE_MS,
        )


class _ReadCommittedConsumer(driver.Consumer):
    def _new_consumer_thread(self) -> _ReadCommittedThread:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)

    def on_buffer_full(self, tp: TP) -> None:
        """Leave the partition in: what is fetched waits for room by itself. Faust would look for partitions again in a second."""


class _ReadCommittedTransport(driver.Transport):
    Consumer = _ReadCommittedConsumer


def read_committed(app: "faust.App") -> None:
    """Make the app read committed records only. Call it before the app starts."""
    app.transport = _ReadCommittedTransport(app.conf.broker_consumer, app)
