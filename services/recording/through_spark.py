"""Replays recorded task metrics through the Spark job and the agent themselves, on topics of its own that it removes again.

The topics keep the append times that are sent, and every record goes into the partition it came from. So the Spark job sees what
it saw the first time, and its windows come out with the same bytes.
"""

import contextlib
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from contracts.errors import RecordRejected, SurescaleError
from contracts.messages import ClockSegment, DeadLetter, Decision, JobSettings
from contracts.settings import RoadSettings
from contracts.topics import (
    CLOCK,
    DEAD_LETTERS,
    DECISIONS,
    JOB_SETTINGS,
    SNAPSHOTS,
    TASK_METRICS,
    TOPICS,
    TopicNames,
)
from contracts.wire import decode, encode
from policies.policy import Policy, is_span_end
from runtime.kafka import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, LogReader, producer
from services.recording.diff import Agreement
from services.recording.records import event_ms, is_about, job_of
from services.recording.replay import Known, Replayed, agreement, learn, replay
from services.recording.sources import SAY_EVERY_S, RoadSource, Say, Source, record_of
from services.road_topics import readable
from services.stack.road import RoadPorts, road_roles, spark_environment
from services.stack.supervisor import Supervisor

ROLES = ("spark", "agent")
STALLED_S = 180.0
ANY_PARTITION = -1  # by the key
END_MARK = b'{"type":"end-of-replay"}'  # the Spark job refuses it, and so tells that it has come so far
_AGENT_GROUP = "surescale-agent"
_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """What the agent decided, compared with the recorded decisions and with the same windows decided directly."""

    decisions: int
    recorded: Agreement
    directly: Agreement


def replay_through_spark(
    source: Source, policies: Sequence[Policy], known: Known, settings: RoadSettings, *, jobs: frozenset[str], say: Say
) -> tuple[Replayed, AgentAnswers]:
    """Send the metrics of a source through both processes, ask the agent for the first policy, then decide the windows by all.

    ``settings`` tell the Kafka to use, the first policy and the seed.

    Raises:
        SurescaleError: there are no task metrics, a process ended, or nothing moved any more.
        ConnectionError: Kafka does not answer.
    """
    _check_metrics(source, jobs)
    own = _own_settings(source, known, settings)
    with readable(own), _own_topics(own, source, say), Supervisor(progress=say) as supervisor:
        arguments = ["--master", "local[2]", "--checkpoint", str(supervisor.folder / "checkpoint")]
        roles = road_roles(own, RoadPorts.free(), spark_env=spark_environment(say), spark_arguments=arguments)
        chosen = [role for role in roles if role.name in ROLES]
        supervisor.start_together(chosen)
        stream = _Stream(own, policies[0].span_minutes, supervisor, say)
        try:
            stream.send(source, known, jobs)
        finally:
            stream.close()
        made = RoadSource(own, (JOB_SETTINGS, DECISIONS, SNAPSHOTS))
        again = learn(made)
        found = replay(made, policies, known, seed=own.seed, made_again=True)
        directly = replay(made, policies[:1], again, seed=own.seed, made_again=True).policies[0].recorded
        return found, AgentAnswers(len(again.decisions), agreement(known, again, policies[0].name), directly)


def _check_metrics(source: Source, jobs: frozenset[str]) -> None:
    """Refuse before anything starts."""
    seen: set[str | None] = set()
    for record in source.records((TASK_METRICS,)):
        seen.add(job_of(record))
        if (jobs and jobs <= seen) or not jobs:
            return
    missing = sorted(jobs - {job for job in seen if job})
    raise SurescaleError(f"{source.name} has no task metrics of {missing[0] if missing else 'any job'} (topic {TASK_METRICS})")


def _own_settings(source: Source, known: Known, settings: RoadSettings) -> RoadSettings:
    """Return settings with a prefix of their own, and the clock and window length of what was recorded."""
    roads = []
    for record in source.records((CLOCK,)):
        with contextlib.suppress(RecordRejected):
            roads.append(decode(record.value, ClockSegment).road)
    return replace(
        settings,
        topic_prefix=f"replay-{uuid.uuid4().hex[:8]}-",
        road_clock=bool(roads),
        road=roads[0] if roads else settings.road,
        window_minutes=known.window_minutes(settings.window_minutes),
        health_port=0,
    )


@contextlib.contextmanager
def _own_topics(own: RoadSettings, source: Source, say: Say) -> Iterator[None]:
    """Create the topics of the table under the prefix; take them away again, and the agent's group, whatever happens."""
    full = TopicNames(own.topic_prefix)
    admin = AdminClient({"bootstrap.servers": own.bootstrap, "log_level": 0})
    kept = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete", "retention.ms": "-1"}
    wanted = [
        NewTopic(
            full(topic.name),
            num_partitions=source.partitions.get(topic.name, topic.partitions),
            replication_factor=-1,
            config=topic.config() | kept,
        )
        for topic in TOPICS.values()
    ]
    # Asked first: creating, and taking away again, would each wait for a minute for a broker that is away.
    admin.list_topics(timeout=METADATA_TIMEOUT_S)
    try:
        for future in admin.create_topics(wanted, operation_timeout=REQUEST_TIMEOUT_S).values():
            future.result()
        yield
    finally:
        _remove(admin, own, [topic.topic for topic in wanted], say)


def _remove(admin: AdminClient, own: RoadSettings, topics: Sequence[str], say: Say) -> None:
    """Delete the topics and the agent's group, as far as they are there; say what had to stay."""
    group = f"{own.topic_prefix}{_AGENT_GROUP}"
    futures = admin.delete_topics(list(topics), operation_timeout=REQUEST_TIMEOUT_S) | admin.delete_consumer_groups([group])
    left = []
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THERE:
                left.append(name)
    if left:
        say(f"{len(left)} topics and groups could not be removed and stay: {', '.join(left)}")


@dataclass(slots=True)
class _Watch:
    """What the two processes have answered so far."""

    span_minutes: int
    marks: set[tuple[int, int]] = field(default_factory=set)  # sent and not yet refused, by partition and offset
    windows: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)  # that end a span, by partition and offset
    answered: set[tuple[str, int]] = field(default_factory=set)
    records: int = 0

    def take(self, name: str, message: Message, metrics: str) -> None:
        """Take in one record of a topic (bare name)."""
        self.records += 1
        at = message.partition() or 0, message.offset() or 0
        if name == DECISIONS:
            decision = decode(message.value(), Decision)
            self.answered.add((decision.job, decision.span_end_ms))
        elif name == SNAPSHOTS:
            end_ms = event_ms(record_of(SNAPSHOTS, message))
            if end_ms is not None and is_span_end(end_ms, self.span_minutes):
                self.windows[at] = (message.key() or b"").decode(), end_ms
        else:
            letter = decode(message.value(), DeadLetter)
            if letter.topic == metrics:
                self.marks.discard((letter.partition, letter.offset))
            elif (refused := self.windows.get((letter.partition, letter.offset))) is not None:
                self.answered.add(refused)

    @property
    def is_settled(self) -> bool:
        """Say whether everything sent was read, and every window that ends a span answered."""
        return not self.marks and self.answered.issuperset(self.windows.values())


class _Stream:
    """Sends records in the recorded order and waits for what they come to."""

    def __init__(self, own: RoadSettings, span_minutes: int, supervisor: Supervisor, say: Say) -> None:
        self._full = TopicNames(own.topic_prefix)
        self._supervisor, self._say = supervisor, say
        self._producer: Producer = producer(own)
        self._reader = LogReader(own, (SNAPSHOTS, DECISIONS, DEAD_LETTERS))
        self._watch = _Watch(span_minutes)
        self._unsettled: dict[int, set[str]] = {}  # partition -> jobs with records since the last settling
        self._failed: KafkaError | None = None
        self._sent = 0
        self._said_s = time.monotonic()

    def send(self, source: Source, known: Known, jobs: frozenset[str]) -> None:
        """Send clock, settings and metrics, and wait until all of it is answered.

        A change of a job's settings is sent at its place: after the answers to what was recorded before it.
        """
        for record in source.records((CLOCK,)):
            self._produce(record.topic, record.partition, record.append_ms, record.key, record.value)
        self._flush()
        pending = {job: deque(said) for job, said in known.settings.items()}
        for record in source.records((TASK_METRICS,)):
            if not is_about(record, jobs):
                continue
            job = job_of(record) or ""
            self._send_due(job, pending.get(job, deque()), record.append_ms)
            self._produce(record.topic, record.partition, record.append_ms, record.key, record.value)
            self._unsettled.setdefault(record.partition, set()).add(job)
            self._sent += 1
            self._say_progress()
        self._settle()

    def close(self) -> None:
        """Leave the broker."""
        self._reader.close()

    def _send_due(self, job: str, pending: deque[tuple[int, JobSettings]], append_ms: int) -> None:
        while pending and pending[0][0] <= append_ms:
            if any(job in jobs for jobs in self._unsettled.values()):
                self._settle()
            at_ms, settings = pending.popleft()
            # The policy that is replayed is asked, whatever the settings named.
            self._produce(
                JOB_SETTINGS, ANY_PARTITION, at_ms, job.encode(), encode(msgspec.structs.replace(settings, policy=None))
            )
            self._flush()

    def _settle(self) -> None:
        """Wait until what was sent is read by the Spark job and its windows are answered by the agent."""
        self._flush()  # the client's queue may be full of records
        for partition in sorted(self._unsettled):
            self._producer.produce(self._full(TASK_METRICS), END_MARK, partition=partition, on_delivery=self._marked)
        self._unsettled.clear()
        self._flush()
        moved = self._watch.records, time.monotonic()

        def is_settled() -> bool:
            nonlocal moved
            self._look()
            if self._watch.records != moved[0]:
                moved = self._watch.records, time.monotonic()
            elif time.monotonic() - moved[1] > STALLED_S:
                raise SurescaleError(f"the replay stands still since {STALLED_S:.0f} s")
            return self._watch.is_settled

        self._supervisor.wait(is_settled)

    def _look(self) -> None:
        metrics = self._full(TASK_METRICS)
        for message in self._reader.poll(0.05):
            self._watch.take(self._full.bare(str(message.topic())), message, metrics)
        self._say_progress()

    def _say_progress(self) -> None:
        if time.monotonic() - self._said_s > SAY_EVERY_S:
            self._said_s = time.monotonic()
            self._say(f"{self._sent:,} records sent, {len(self._watch.answered)} spans answered")

    def _produce(self, name: str, partition: int, append_ms: int, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._full(name), value, key, partition, self._delivered, timestamp=append_ms)
                self._producer.poll(0)
                return
            except BufferError:  # the client's queue is full: let it send
                self._producer.poll(0.2)

    def _flush(self) -> None:
        if self._producer.flush(30.0) or self._failed is not None:
            raise ConnectionError(f"Kafka did not take the replayed records: {self._failed or 'no answer within 30 s'}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = error or self._failed

    def _marked(self, error: KafkaError | None, message: Message) -> None:
        self._failed = error or self._failed
        if error is None:
            self._watch.marks.add((message.partition() or 0, message.offset() or 0))
