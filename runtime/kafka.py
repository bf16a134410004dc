"""Kafka clients with the pipeline's settings. Every role gets its clients here, so that all treat keys and transactions alike."""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec, TopicMetadata

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    LEFT_TO_THE_BROKER,
    LIBRDKAFKA_CONSUMER,
    LIBRDKAFKA_PRODUCER,
    READER_GROUP,
    TOPICS,
    Topic,
    TopicNames,
)
from surescale.runtime.backoff import wait_for
from surescale.runtime.beats import beat
from surescale.runtime.kafka_errors import Refusals, Refused, is_end, is_record
from surescale.runtime.kafka_rotation import follow_password
from surescale.runtime.kafka_security import PLAINTEXT, Credentials, credentials, librdkafka_options, uses_iam
from surescale.runtime.oauth_tokens import NoToken, fetch_token, token_callback

METADATA_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 10.0
GROUP_REQUEST_TIMEOUT_S = 60.0
"""For librdkafka, of a question about a group. It ends the process with a failed assertion if the answer comes just when this
time is up (confluentinc/librdkafka#4605), so whoever asks stops waiting long before."""
EMPTY = "so it is before the first minute; if this Kafka was in use, its data are gone, also settings of jobs: set them again"
BATCH_RECORDS = 2_000  # of a reader, at most
CREATE_TIMEOUT_S = 60.0  # of all topics together, on a broker that answers
_NOT_SET_BY_US = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION)

# The broker recovers from these within moments, though admin requests do not mark them as retriable.
_PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # librdkafka's own, of partitions that have no leader yet
    }
)


class _Producer(Producer):
    """Allows weak references, which the class of the library does not."""


class _Consumer(Consumer):
    """Allows weak references, which the class of the library does not."""


_AnyClient = TypeVar("_AnyClient", Producer, Consumer, AdminClient)


def producer(settings: PipelineSettings, **overrides: object) -> Producer:
    """Return an idempotent producer that partitions by murmur2."""
    return _create(_Producer, settings, {**LIBRDKAFKA_PRODUCER, **overrides})


def consumer(settings: PipelineSettings, group: str, **overrides: object) -> Consumer:
    """Return a read-committed consumer; ``group`` matters only to those that subscribe."""
    return _create(_Consumer, settings, {"group.id": group, **LIBRDKAFKA_CONSUMER, **overrides})


def admin_client(settings: PipelineSettings, **overrides: Any) -> AdminClient:
    """Return a client that asks for topics and offsets."""
    return _create(AdminClient, settings, overrides)


def _create(kind: type[_AnyClient], settings: PipelineSettings, options: Mapping[str, Any]) -> _AnyClient:
    """Return a client that reaches the broker, also after its password has changed.

    Raises:
        Refused: AWS' library has no token to begin with; for later ones the client asks again until it has.

    ``wait_for`` reports an absent broker; librdkafka's own lines go to a logger.
    """
    security, given = librdkafka_options(settings), credentials(settings)
    quiet: dict[str, Any] = {"logger": logging.getLogger("surescale.librdkafka")}
    if uses_iam(settings):
        try:
            fetch_token(settings)  # the client would wait for it, and not say why there is none
        except NoToken as error:
            raise Refused(str(error)) from None
        quiet["oauth_cb"] = token_callback(settings)
    client = kind({"bootstrap.servers": settings.bootstrap, **security, **quiet, **options})
    if given is not None:
        follow_password(settings, Credentials(given.mechanism, given.username, security["sasl.password"]), client, _take_password)
    return client


def _take_password(client: Producer | Consumer | AdminClient, username: str, password: str) -> None:
    client.set_sasl_credentials(username, password)


def creation(settings: PipelineSettings) -> str:
    """Return the command that creates the topics of this pipeline, as a user types it.

    >>> creation(PipelineSettings(topic_prefix="y."))
    '`surescale topics create --prefix y.`'
    """
    return f"`surescale topics create{f' --prefix {settings.topic_prefix}' if settings.topic_prefix else ''}`"


def missing_in_words(missing: Sequence[str], settings: PipelineSettings) -> str:
    """Return that topics (full names) are missing, and what to do. A broker hides those that the user has no right to."""
    names = ", ".join(missing)
    if settings.kafka_security_protocol == PLAINTEXT:
        return f"topics missing: {names} (create them with {creation(settings)})"
    rights = "`surescale topics acls` prints the rights that are needed"
    return f"topics missing, or this user is not authorized: {names} ({creation(settings)} creates them, {rights})"


def wait_for_topics(settings: PipelineSettings, names: Sequence[str], *, stop: threading.Event, log: logging.Logger) -> None:
    """Wait until the broker answers and every topic named (bare names) exists. Say so if none of them ever had a record.

    Raises:
        runtime.backoff.Stopped: ``stop`` was set meanwhile.
    """
    full = TopicNames(settings.topic_prefix)
    refusals = Refusals(settings)
    admin: AdminClient | None = None

    def attempt() -> None:
        nonlocal admin
        admin = admin or admin_client(settings, error_cb=refusals.hear)
        with refusals.explained(admin):
            present = admin.list_topics(timeout=3.0).topics
        missing = [full(name) for name in names if full(name) not in present]
        if missing:
            raise LookupError(missing_in_words(missing, settings))

    wait_for(f"Kafka at {settings.bootstrap}", attempt, expected=(KafkaException, LookupError), stop=stop, log=log)
    assert admin is not None, "an attempt has made it"
    with contextlib.suppress(KafkaException):
        if not any(end_offsets(admin, _partitions(admin, [full(name) for name in names]), METADATA_TIMEOUT_S).values()):
            log.warning("Kafka at %s has no record on %s yet; %s", settings.bootstrap, ", ".join(map(full, names)), EMPTY)


def create_topics(settings: PipelineSettings, topics: Iterable[Topic] = tuple(TOPICS.values())) -> list[str]:
    """Create every topic that does not exist yet and return the new names. Another broker may know them a moment later.

    Raises:
        KafkaException: the broker refused one, and none was created; or it did not answer in time.
    """
    full = TopicNames(settings.topic_prefix)
    refusals = Refusals(settings)
    admin = admin_client(settings, error_cb=refusals.hear)
    wanted = [NewTopic(full(each.name), each.partitions, each.replicas or -1, config=each.config()) for each in topics]
    # Asked first: without this, a missing broker would show only after the full time allowed for creating.
    with refusals.explained(admin):
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    for is_tried in (True, False):  # so that where one is refused, none is created
        created = _created(admin, wanted, is_tried=is_tried)
    return created


def _created(admin: AdminClient, wanted: list[NewTopic], *, is_tried: bool) -> list[str]:
    """Create the topics that do not exist, and return them; ``is_tried``: only ask whether the broker would."""
    created: list[str] = []
    timeouts = {"operation_timeout": REQUEST_TIMEOUT_S, "request_timeout": CREATE_TIMEOUT_S}
    for name, future in admin.create_topics(wanted, validate_only=is_tried, **timeouts).items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            refused = error.args[0]
            if refused.code() in _NOT_SET_BY_US:
                raise KafkaException(KafkaError(refused.code(), f"{name}: {_leave_in_words(refused.str())}")) from None
            if refused.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaException(KafkaError(refused.code(), f"{name}: {refused.str()}")) from None
    return created


def _leave_in_words(said: str) -> str:
    """Return why a broker refuses a topic's settings, and which can be left to it.

    >>> _leave_in_words("compression.type may not be set")
    'compression.type may not be set; leave it to the broker: surescale topics create --leave compression.type'
    """
    named = [name for name in LEFT_TO_THE_BROKER if name in said]
    if named:
        return f"{said}; leave it to the broker: surescale topics create --leave {named[0]}"
    return f"{said}; what can be left to the broker is named by surescale topics create --help (--leave)"


def kept_once(settings: PipelineSettings) -> list[str]:
    """Return the topics of the pipeline (full names) of which some partition is on one broker only.

    A broker other than the one that made a topic may not know it yet, so all of them are waited for, a moment.

    Raises:
        KafkaException: the broker does not answer.
    """
    admin, names = admin_client(settings), [TopicNames(settings.topic_prefix)(name) for name in TOPICS]
    until_s = time.monotonic() + METADATA_TIMEOUT_S
    while True:
        found = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        known = {name: found[name] for name in names if name in found and found[name].partitions}
        if len(known) == len(names) or time.monotonic() >= until_s:
            return on_one_broker(known)
        time.sleep(0.05)


def on_one_broker(topics: Mapping[str, TopicMetadata]) -> list[str]:
    """Return the topics of which some partition has one replica, sorted."""
    return sorted(name for name, of in topics.items() if any(len(each.replicas) == 1 for each in of.partitions.values()))


class LogReader:
    """Reads topics from their beginning, without a group, up to what was committed when a call began.

    Used for views (settings, topologies, clock) and wherever everything acknowledged so far must have been seen.
    """

    def __init__(self, settings: PipelineSettings, names: Sequence[str], *, last: int | None = None) -> None:
        """Read every partition of the topics (bare names), from the beginning or only its ``last`` offsets (0: what comes next).

        Raises:
            KafkaException: a topic does not exist or the broker does not answer.
        """
        full = TopicNames(settings.topic_prefix)
        self._admin: AdminClient | None = admin_client(settings)
        # A broker delays a fetch until there is data; the end behind a transaction marker must be reported at once.
        self._client = consumer(settings, READER_GROUP, **{"enable.partition.eof": True, "fetch.wait.max.ms": 20})
        # Asked through the admin client, so that it learns the leaders.
        self._partitions = _partitions(self._admin, [full(name) for name in names])
        self._reached: dict[tuple[str, int], int] = {}
        beginnings = committed_offsets(self._admin, self._partitions, "beginning")
        starts = beginnings
        if last is not None:
            starts = {key: max(beginnings[key], end - last) for key, end in self._ends().items()}
        self.began_at_beginning = starts == beginnings
        self._client.assign([TopicPartition(topic, partition, at) for (topic, partition), at in starts.items()])
        self._reached.update(starts)

    def read_to_end(self, timeout_s: float = 30.0) -> Iterator[Message]:
        """Yield the records from the last call up to the end of what is committed now, in order within each partition.

        Records come as they arrive, so a long topic does not have to fit into memory. Take all of them: a record that is not
        taken is not read again.

        Raises:
            TimeoutError: for ``timeout_s`` nothing arrived, short of the end.
            KafkaException: the broker refused.
        """
        return self._read_to(self._ends(), timeout_s)

    def _read_to(self, ends: Mapping[tuple[str, int], int], timeout_s: float) -> Iterator[Message]:
        deadline = time.monotonic() + timeout_s
        while any(self._reached[key] < end for key, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Kafka did not deliver up to the end of {sorted({topic for topic, _ in ends})}")
            before = dict(self._reached)
            yield from self._consume()
            if self._reached != before:
                deadline = time.monotonic() + timeout_s

    def poll(self, timeout_s: float) -> list[Message]:
        """Return what has arrived, waiting at most ``timeout_s`` for the first record."""
        return self._consume(timeout_s)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every partition that is read."""
        return self._partitions

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()
        self._admin = None  # it has no other way to close; whoever holds this reader would keep its threads and sockets

    def _ends(self) -> dict[tuple[str, int], int]:
        assert self._admin is not None, "closed"
        return committed_offsets(self._admin, self._partitions, "end")

    def _consume(self, timeout_s: float = 0.05) -> list[Message]:
        beat()  # a long topic takes its time
        records = []
        for message in batch(self._client, BATCH_RECORDS, timeout_s):
            key, offset = (str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
            if is_record(message):
                records.append(message)
                self._reached[key] = offset + 1
            elif is_end(message):
                self._reached[key] = max(self._reached[key], offset)
        return records


def batch(client: Consumer, limit: int, timeout_s: float) -> list[Message]:
    """Return what has arrived, at most ``limit`` messages, waiting up to ``timeout_s`` for the first one only.

    ``Consumer.consume`` with a timeout would wait for a full batch. Messages may be errors: see `runtime.kafka_errors`.
    """
    first = client.poll(timeout_s)
    return [] if first is None else [first, *client.consume(num_messages=limit - 1, timeout=0)]


def committed_offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], at: Literal["beginning", "end"]
) -> dict[tuple[str, int], int]:
    """Return each partition's oldest offset, or the one after the last committed record, by topic (full name) and number.

    Call ``list_topics`` first: an admin client that does not know the leaders may wait three seconds before it asks for offsets.

    Raises:
        KafkaException: a partition does not exist, or the broker does not answer.
    """
    spec: OffsetSpec = OffsetSpec.earliest() if at == "beginning" else OffsetSpec.latest()
    return _offsets(admin, partitions, spec, IsolationLevel.READ_COMMITTED, REQUEST_TIMEOUT_S)


def end_offsets(admin: AdminClient, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[tuple[str, int], int]:
    """Return the offset after each partition's last record, committed or not; otherwise as ``committed_offsets``."""
    return _offsets(admin, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED, timeout_s)


def log_bounds(
    admin: AdminClient, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[tuple[str, int], tuple[int, int] | KafkaError]:
    """Return each partition's oldest offset and the one after its last record, or why the broker does not tell them."""
    starts = _told(admin, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED, timeout_s)
    answered = [each for each in partitions if not isinstance(starts[each.topic, each.partition], KafkaError)]
    # Asked last: what is appended meanwhile lies behind the start.
    ends = _told(admin, answered, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED, timeout_s)
    found: dict[tuple[str, int], tuple[int, int] | KafkaError] = {}
    for each, start in starts.items():
        end = ends.get(each, start)
        if isinstance(start, KafkaError):
            found[each] = start
        else:
            found[each] = end if isinstance(end, KafkaError) else (min(start, end), end)
    return found


def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel, timeout_s: float
) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for each, offset in _told(admin, partitions, spec, isolation, timeout_s).items():
        if isinstance(offset, KafkaError):
            raise KafkaException(offset)
        found[each] = offset
    return found


def _told(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel, timeout_s: float
) -> dict[tuple[str, int], int | KafkaError]:
    """Return the offset of each partition, or why it is not told: only what does not pass in time."""
    asked: dict[TopicPartition, OffsetSpec] = dict.fromkeys(partitions, spec)
    deadline = time.monotonic() + timeout_s
    while asked:
        beat()
        futures = admin.list_offsets(asked, isolation_level=isolation, request_timeout=timeout_s)
        # A failure is not raised itself: its future and this frame would refer to each other, and keep the client open.
        failures = {each: failure.args[0] for each, future in futures.items() if (failure := future.exception()) is not None}
        # The broker learns of a new partition, or of a new leader, a moment later.
        is_over = time.monotonic() > deadline or any(failure.code() not in _PASSING for failure in failures.values())
        if not failures or is_over:
            return {
                (each.topic, each.partition): failures[each] if each in failures else future.result().offset
                for each, future in futures.items()
            }
        admin.list_topics(timeout=timeout_s)  # learn who leads now
        time.sleep(0.05)
    return {}


def partitions_of(client: Consumer, topic: str) -> list[int]:
    """Return the partition numbers of a topic (full name).

    Raises:
        KafkaException: the topic does not exist or the broker does not answer.
    """
    return sorted(partition.partition for partition in _partitions(client, [topic]))


def _partitions(client: Consumer | AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    # One request for all: asking topic by topic costs a quarter of a second each.
    known = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    for topic in topics:
        if topic not in known:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {topic}"))
        if known[topic].error is not None:
            raise KafkaException(known[topic].error)
    return [TopicPartition(topic, partition) for topic in topics for partition in sorted(known[topic].partitions)]


STATISTICS_EVERY_MS = 5_000


class StableOffsetLag:
    """For how long records have waited behind the last stable offset of a partition, from the statistics of a client.

    Thread-safe. Open transactions are normal; one that holds everything back for minutes is not, and no lag shows it.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], tuple[int, float]] = {}
        """Per partition where something waits, the last stable offset and since when it has stood there."""
        self._lock = threading.Lock()

    def options(self) -> dict[str, object]:
        """Return the settings of a client whose statistics are watched."""
        return {"stats_cb": self.on_statistics, "statistics.interval.ms": STATISTICS_EVERY_MS}

    def on_statistics(self, document: str) -> None:
        """Take in the statistics of a client (librdkafka's JSON); they show each partition that it reads."""
        now_s = time.monotonic()
        topics: dict[str, Any] = json.loads(document).get("topics", {})
        with self._lock:
            before, self._since = self._since, {}
            for topic, shown in topics.items():
                for partition, offsets in shown.get("partitions", {}).items():
                    stable, end = offsets.get("ls_offset", -1), offsets.get("hi_offset", -1)
                    if 0 <= stable < end:
                        was = before.get((topic, partition), (stable, now_s))
                        self._since[topic, partition] = was if was[0] == stable else (stable, now_s)

    def forget(self) -> None:
        """Forget a client that was closed."""
        with self._lock:
            self._since = {}

    def seconds(self) -> float:
        """Return the longest time; 0 while nothing is held back."""
        now_s = time.monotonic()
        with self._lock:
            return max((now_s - since_s for _, since_s in self._since.values()), default=0.0)
