"""Faust's Kafka transport with the pipeline's settings: read committed, windows of up to 16 MiB, a short session.

Faust reads committed records only in its transactional mode. The agent produces at least once and still must not see records of
aborted transactions, so it makes its own consumer.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiokafka
import faust
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaConnectionError
from faust.auth import OAuthCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ChannelT, StreamT
from faust.types.auth import CredentialsT
from faust.types.transports import TransportT
from mode.threads import ServiceThread, WorkerThread

from contracts.settings import PipelineSettings
from contracts.topics import RECORD_BYTES_MAX
from runtime.kafka_rotation import follow_password
from runtime.kafka_security import Credentials, credentials, ssl_context, uses_tokens
from runtime.oauth_tokens import NoToken, Tokens

FETCH_WAIT_MS = 500
METADATA_AGE_MS = 30_000


class _DaemonThread(WorkerThread):
    """Does not keep the process alive if Faust hangs in its shutdown and is left behind."""

    def __init__(self, service: ServiceThread, **more: Any) -> None:
        super().__init__(service, **more)
        self.daemon = True


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):
    Worker = _DaemonThread

    def _create_worker_consumer(self, transport: driver.Transport) -> aiokafka.AIOKafkaConsumer:
        conf = self.app.conf
        self._assignor = RoundRobinPartitionAssignor
        consumer = aiokafka.AIOKafkaConsumer(
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
            **driver.credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context),
        )
        _follow_password(transport, consumer._client)
        return consumer


class _ReadCommittedConsumer(driver.Consumer):
    def _new_consumer_thread(self) -> _ReadCommittedThread:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)

    def on_buffer_full(self, tp: TP) -> None:
        """Keep the partition: fetched records wait for room by themselves. Faust would drop it and look again a second later."""


class FaustReading:
    """How far the consumer of an app has come, for ``services.agent.intake``. Faust and aiokafka have no methods for it."""

    def __init__(self, app: faust.App) -> None:
        self._app = app
        self.stream: StreamT[bytes] | None = None
        """Set once the app's agent takes from it."""

    def positions(self) -> Mapping[tuple[str, int], int]:
        """Return the offset of the next record to be read of each assigned partition, as far as it is known."""
        return {(at.topic, at.partition): state.position for at, state in self._states().items() if state.has_valid_position}

    def waits(self) -> bool:
        """Say whether records are known to wait: read and not taken from the stream, or there at the last fetch."""
        states = self._states().values()
        return self.buffered() > 0 or any(each.has_valid_position and (each.lso or 0) > each.position for each in states)

    def _states(self) -> Mapping[TP, Any]:
        thread = getattr(self._app.consumer, "_thread", None)
        consumer = getattr(thread, "_consumer", None)  # none while the app starts
        subscription = None if consumer is None else consumer._subscription.subscription
        if subscription is None or subscription.assignment is None:
            return {}
        return {at: subscription.assignment.state_value(at) for at in subscription.assignment.tps}

    def buffered(self) -> int:
        """Return how many records were read and not taken from the stream."""
        channel = None if self.stream is None else self.stream.channel
        return channel.queue.qsize() if isinstance(channel, ChannelT) else 0


class _Producer(driver.Producer):
    def _new_producer(self, transactional_id: str | None = None) -> aiokafka.AIOKafkaProducer:
        producer = super()._new_producer(transactional_id)
        _follow_password(self.transport, producer.client)
        return producer


class _ReadCommittedTransport(driver.Transport):
    Consumer = _ReadCommittedConsumer
    Producer = _Producer
    pipeline: PipelineSettings


def _follow_password(transport: TransportT, client: AIOKafkaClient) -> None:
    """Let a client authenticate with the password that is in the file by then. It has no method for it."""
    assert isinstance(transport, _ReadCommittedTransport)
    made_with, pipeline = transport.app.conf.broker_credentials, transport.pipeline
    if isinstance(made_with, faust.SASLCredentials):
        given = Credentials(pipeline.kafka_sasl_mechanism, pipeline.kafka_username, made_with.password or "")
        follow_password(pipeline, given, client, _take_password)


def _take_password(client: AIOKafkaClient, _username: str, password: str) -> None:
    client._sasl_plain_password = password


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Gives one token to all connections of this process, and the next one before it expires."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._tokens = Tokens(settings)

    async def token(self) -> str:
        """Return a token that has not expired.

        Raises:
            KafkaConnectionError: there is none; to aiokafka it is a broker that cannot be reached, and it tries again.
        """
        try:
            return await asyncio.to_thread(self._tokens.current)
        except NoToken as error:
            raise KafkaConnectionError(str(error)) from None


def faust_credentials(settings: PipelineSettings) -> CredentialsT | None:
    """Return Faust's credentials towards Kafka, None if neither SASL nor TLS is used.

    Raises:
        SettingsError: a file cannot be used; names the setting.
    """
    found, context = credentials(settings), ssl_context(settings)
    if uses_tokens(settings):
        return OAuthCredentials(oauth_cb=_TokenProvider(settings), ssl_context=context)
    if found is not None:
        return faust.SASLCredentials(
            username=found.username, password=found.password, mechanism=found.mechanism, ssl_context=context
        )
    return None if context is None else faust.SSLCredentials(context)


def read_committed(app: faust.App, settings: PipelineSettings) -> None:
    """Make the app read only committed records, and follow a password that changes. Call it before the app starts."""
    app.transport = _ReadCommittedTransport(app.conf.broker_consumer, app)
    app.producer_transport = _ReadCommittedTransport(app.conf.broker_producer, app)
    app.transport.pipeline = app.producer_transport.pipeline = settings
