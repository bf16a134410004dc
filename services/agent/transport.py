"""Faust's Kafka transport with the pipeline's settings: read committed, windows of up to 8 MiB, a short session.

Faust reads committed records only in its transactional mode. The agent produces at least once and still must not see records of
aborted transactions, so it makes its own consumer. ``Intake`` watches that windows which wait are taken: Kafka's client, or
Faust, may stop reading while all else in the agent turns.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn, Protocol

import aiokafka
import faust
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from faust.auth import OAuthCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ChannelT, StreamT
from faust.types.auth import CredentialsT
from faust.types.transports import TransportT
from mode.threads import ServiceThread, WorkerThread

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import RECORD_BYTES_MAX
from surescale.runtime.kafka import METADATA_TIMEOUT_S, admin_client, committed_offsets
from surescale.runtime.kafka_rotation import follow_password
from surescale.runtime.kafka_security import Credentials, credentials, ssl_context, uses_tokens
from surescale.runtime.oauth_tokens import NoToken, Tokens, check_signer
from surescale.runtime.watchdog import Watchdog
from surescale.services.agent.counts import AgentCounts

_log = logging.getLogger("surescale.agent")
LOOKS = 8
"""In the time after which a loop hangs."""
Place = tuple[str, int]
"""Topic (full name) and partition."""


class Consumer(Protocol):
    """How far the agent's consumer has come."""

    def positions(self) -> Mapping[Place, int]:
        """Return the offset of the next record to be read of each assigned partition, as far as it is known."""
        ...

    def buffered(self) -> int:
        """Return how many records were read and not yet taken to be answered."""
        ...


Ends = Callable[[Collection[Place]], Mapping[Place, int]]
"""Returns the offset behind the last committed record of each partition; raises KafkaException while Kafka does not answer."""


class BrokerEnds:
    """Asks the broker with a client of its own, which does not hang with the agent's."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None

    def __call__(self, places: Collection[Place]) -> Mapping[Place, int]:
        """Return the offset behind the last committed record of each partition.

        Raises:
            KafkaException: the broker does not answer.
        """
        admin, self._admin = self._admin or admin_client(self._settings), None
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
        found = committed_offsets(admin, [TopicPartition(*place) for place in places], "end")
        self._admin = admin  # one that failed may not know the leaders any more
        return found


class Intake:
    """A loop that is silent as long as records wait and none is taken, no window is in hand, and Kafka answers."""

    def __init__(self, consumer: Consumer, counts: AgentCounts, ends: Ends) -> None:
        self._consumer, self._counts, self._ends = consumer, counts, ends
        self._windows = -1

    async def watch(self, watchdog: Watchdog, hung_after_s: float) -> NoReturn:
        """Look until cancelled."""
        every_s = hung_after_s / LOOKS
        # It turns seldom, so it gets more time: what stops all loops of the agent is told by another one.
        with watchdog.apart("the intake of windows", more_s=2 * every_s) as loop:
            while True:
                if await self.is_well():
                    loop.beat()
                await asyncio.sleep(every_s)

    async def is_well(self) -> bool:
        """Say whether windows were taken since the last call, or none had to be."""
        before, self._windows = self._windows, self._counts.windows
        if self._windows != before or self._counts.in_hand or not self._counts.partitions:
            return True
        if self._consumer.buffered():
            return False
        positions = self._consumer.positions()
        if not positions:
            return True  # it is about to learn where to begin, from a broker that may be away
        with contextlib.suppress(KafkaException, TimeoutError):
            ends = await asyncio.to_thread(self._ends, positions)
            return all(ends[place] <= position for place, position in positions.items())
        return True


FETCH_WAIT_MS = 500
METADATA_AGE_MS = 30_000


class _DaemonThread(WorkerThread):
    """Does not keep the process alive if Faust hangs in its shutdown and is left behind."""

    def __init__(self, service: ServiceThread, **more: Any) -> None:
        super().__init__(service, **more)
        self.daemon = True


class _Batches:
    """The batches of one answer of the broker, of which the last one is known."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.has_next = records.has_next
        self.last: Any = None

    def next_batch(self) -> Any:
        """Return the next one."""
        self.last = self._records.next_batch()
        return self.last


class _ReadableRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    """Passes what is left of a batch from the record on that has a header whose name is no text.

    aiokafka cannot read such a record, nor what follows it in its batch, and would ask for it again for ever. A batch is of one
    producer, so nobody else's records are in it.
    """

    _records: Any
    _tp: Any
    next_fetch_offset: int

    def _unpack_records(self) -> Iterator[Any]:
        self._records = _Batches(self._records)
        while True:
            try:
                yield from super()._unpack_records()
            except UnicodeDecodeError:
                batch = self._records.last
                words = "%s[%d]: a header's name is no text; passed from offset %d to %d"
                _log.warning(words, self._tp.topic, self._tp.partition, self.next_fetch_offset, batch.next_offset - 1)
                self.next_fetch_offset = batch.next_offset
            else:
                return


fetcher.PartitionRecords = _ReadableRecords  # the library has no method for it, and the agent's process no other consumer


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
    """How far the consumer of an app has come, for ``Intake``. Faust and aiokafka have no methods for it."""

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
        check_signer(settings)
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


class Message(Protocol):
    """A record's place."""

    @property
    def topic(self) -> str:
        """Its topic, with the prefix."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""


class Event(Protocol):
    """A record that Faust gave to the agent."""

    @property
    def message(self) -> Message:
        """The record."""

    def ack(self) -> bool:
        """Let Faust commit it."""


class Acknowledgements:
    """The windows that were begun and are not acknowledged yet, of each partition: acknowledged in the order of their offsets.

    Faust lets its commit pass a record that was never acknowledged if it is the first behind the committed offset and the next
    one is acknowledged (``Consumer._new_offset`` in 0.15.3 looks for a gap of more than one), or if offsets were missing before
    it (``Consumer._add_gap``). After a rebalance nobody would read that record again.
    """

    def __init__(self) -> None:
        self._open: defaultdict[tuple[str, int], dict[int, Event]] = defaultdict(dict)  # in the order of offsets
        self._done: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def begin(self, event: Event) -> None:
        """Take a window in hand. One that is read again takes its own place."""
        place, offset = _place(event), event.message.offset
        ours = self._open[place]
        goes_back = bool(ours) and offset < next(reversed(ours))
        ours[offset] = event
        if goes_back:
            self._open[place] = dict(sorted(ours.items()))

    def is_open(self, event: Event) -> bool:
        """Say whether a window is still ours: its partition was not taken away since it was begun."""
        return self._open[_place(event)].get(event.message.offset) is event

    def done(self, event: Event) -> None:
        """Acknowledge a window once all before it are done. One that is not ours any more is left to who has it now."""
        if not self.is_open(event):
            return
        place = _place(event)
        ours, done = self._open[place], self._done[place]
        done.add(event.message.offset)
        while ours and (first := next(iter(ours))) in done:
            done.remove(first)
            ours.pop(first).ack()

    def clear(self) -> None:
        """Forget all: what is not acknowledged is read again."""
        self._open.clear()
        self._done.clear()


def _place(event: Event) -> tuple[str, int]:
    return event.message.topic, event.message.partition
