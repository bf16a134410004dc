"""Replays recorded task metrics through a Spark job and an agent, on topics of its own that it removes afterwards.

The topics keep the append times that are sent, and every record goes to the partition it came from. So the Spark job sees what
it saw the first time, and its windows have the same bytes.

Metrics are sent in their order; each step waits until the Spark job and the agent have answered.
"""

import contextlib
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected, SurescaleError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, DeadLetter
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    CLOCK,
    DEAD_LETTERS,
    DECISIONS,
    JOB_SETTINGS,
    SNAPSHOTS,
    TASK_METRICS,
    TOPICS,
    TopicNames,
    agent_group,
)
from surescale.contracts.wire import decode, encode
from surescale.policies.policy import Policy, is_span_end
from surescale.runtime.kafka import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, LogReader, admin_client, producer
from surescale.runtime.kafka_errors import readable_errors
from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
from surescale.services.local_stack.supervisor import Supervisor
from surescale.services.tools.recording.format import event_ms, is_about, job_of
from surescale.services.tools.recording.replay import AgentAnswers, Known, Replayed, agreement, learn, replay
from surescale.services.tools.recording.sources import SAY_EVERY_S, KafkaSource, Say, Source, record_of

ANSWERED_ON = (SNAPSHOTS, DECISIONS, DEAD_LETTERS)
STALLED_S = 180.0
ANY_PARTITION = -1  # chosen by the key
END_MARK = b'{"type":"end-of-replay"}'
"""The Spark job refuses this record, and its dead letter shows how far the job has read."""


@dataclass(slots=True)
class Answers:
    """What the two processes have answered so far. Places are (partition, offset)."""

    span_minutes: int
    marks: set[tuple[int, int]] = field(default_factory=set)  # places of end marks that were not refused yet
    windows: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)  # job and end of windows that end a span
    answered: set[tuple[str, int]] = field(default_factory=set)  # job and end of spans
    records: int = 0

    def take(self, name: str, message: Message, metrics: str) -> None:
        """Take in one record of a topic (bare name); ``metrics`` is the full name of the topic that is replayed."""
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
    def is_complete(self) -> bool:
        """Return whether everything sent was read, and every window that ends a span was answered."""
        return not self.marks and self.answered.issuperset(self.windows.values())


class RecordStream:
    """Sends the records of a source to a pipeline of its own.

    ``reader`` reads the topics in ``ANSWERED_ON``. ``wait`` polls a condition until it holds, watching the processes.
    """

    def __init__(
        self,
        client: Producer,
        reader: LogReader,
        names: TopicNames,
        span_minutes: int,
        *,
        wait: Callable[[Callable[[], bool]], None],
        say: Say,
    ) -> None:
        self._producer, self._reader, self._full, self._wait, self._say = client, reader, names, wait, say
        self._answers = Answers(span_minutes)
        self._unsettled: dict[int, set[str]] = {}  # partition -> jobs with records that may not be answered yet
        self._failed: KafkaError | None = None
        self._sent = 0
        self._said_s = time.monotonic()

    def send(self, source: Source, known: Known, jobs: frozenset[str]) -> None:
        """Send clock, settings and metrics (of these jobs; none named: of all), and wait until all of it is answered.

        A change of a job's settings is sent at its place: after the answers to everything recorded before it.

        Raises:
            ConnectionError: Kafka does not take the records.
            SurescaleError: no answer came for ``STALLED_S``.
        """
        for record in source.records((CLOCK,)):
            self._produce(record.topic, record.partition, record.append_ms, record.key, record.value)
        self._flush()
        pending = {job: deque(changes) for job, changes in known.settings.items()}
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

    def _send_due(self, job: str, pending: deque[tuple[int, JobSettings]], append_ms: int) -> None:
        while pending and pending[0][0] <= append_ms:
            if any(job in jobs for jobs in self._unsettled.values()):
                self._settle()
            at_ms, settings = pending.popleft()
            # The replayed policy decides, whatever the settings name.
            value = encode(msgspec.structs.replace(settings, policy=None))
            self._produce(JOB_SETTINGS, ANY_PARTITION, at_ms, job.encode(), value)
            self._flush()

    def _settle(self) -> None:
        """Wait until the Spark job has read everything sent, and the agent has answered its windows.

        A mark's dead letter may overtake the windows that the job wrote with it. The job reads the second mark only after Kafka
        has acknowledged those windows.
        """
        self._flush()  # the client's queue may be full of records
        partitions = sorted(self._unsettled)
        self._unsettled.clear()
        for _ in range(2):
            for partition in partitions:
                self._producer.produce(self._full(TASK_METRICS), END_MARK, partition=partition, on_delivery=self._marked)
            self._flush()
            self._wait_for_answers()

    def _wait_for_answers(self) -> None:
        moved = self._answers.records, time.monotonic()

        def is_settled() -> bool:
            nonlocal moved
            self._read_answers()
            if self._answers.records != moved[0]:
                moved = self._answers.records, time.monotonic()
            elif time.monotonic() - moved[1] > STALLED_S:
                raise SurescaleError(f"the replay has made no progress for {STALLED_S:.0f} s")
            return self._answers.is_complete

        self._wait(is_settled)

    def _read_answers(self) -> None:
        self._take(self._reader.poll(0.05))
        if self._answers.is_complete:
            self._take(self._reader.read_to_end())  # topics are delivered in any order: windows may come after dead letters
        self._say_progress()

    def _take(self, messages: Iterable[Message]) -> None:
        metrics = self._full(TASK_METRICS)
        for message in messages:
            self._answers.take(self._full.bare(str(message.topic())), message, metrics)

    def _say_progress(self) -> None:
        if time.monotonic() - self._said_s > SAY_EVERY_S:
            self._said_s = time.monotonic()
            self._say(f"{self._sent:,} records sent, {len(self._answers.answered)} spans answered")

    def _produce(self, name: str, partition: int, append_ms: int, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._full(name), value, key, partition, on_delivery=self._delivered, timestamp=append_ms)
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
            self._answers.marks.add((message.partition() or 0, message.offset() or 0))


ROLES = ("spark", "agent")
_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


def replay_through_spark(
    source: Source, policies: Sequence[Policy], known: Known, settings: PipelineSettings, *, jobs: frozenset[str], say: Say
) -> tuple[Replayed, AgentAnswers]:
    """Send a source's metrics through both processes. The agent decides with the first policy; then all policies decide here.

    ``settings`` name the Kafka to use, the first policy and the seed.

    Raises:
        SurescaleError: there are no task metrics, a process ended, or the replay came to a standstill.
        ConnectionError: Kafka does not answer.
    """
    _check_metrics(source, jobs)
    own = _own_settings(source, known, settings)
    with readable_errors(own), own_topics(own, source, say), Supervisor(progress=say) as supervisor:
        arguments = ["--master", "local[2]", "--checkpoint", str(supervisor.folder / "checkpoint")]
        roles = pipeline_roles(own, PipelinePorts.free(), spark_env=spark_environment(say), spark_arguments=arguments)
        chosen = [role for role in roles if role.name in ROLES]
        supervisor.start_together(chosen)
        with contextlib.closing(LogReader(own, ANSWERED_ON)) as reader:
            stream = RecordStream(
                producer(own), reader, TopicNames(own.topic_prefix), policies[0].span_minutes, wait=supervisor.wait, say=say
            )
            stream.send(source, known, jobs)
        made = KafkaSource(own, (JOB_SETTINGS, DECISIONS, SNAPSHOTS))
        again = learn(made)
        found = replay(made, policies, known, seed=own.seed, made_again=True)
        directly = replay(made, policies[:1], again, seed=own.seed, made_again=True).policies[0].recorded
        return found, AgentAnswers(len(again.decisions), agreement(known, again, policies[0].name), directly)


def _check_metrics(source: Source, jobs: frozenset[str]) -> None:
    """Refuse a source without metrics before anything starts."""
    seen: set[str | None] = set()
    for record in source.records((TASK_METRICS,)):
        seen.add(job_of(record))
        if (jobs and jobs <= seen) or not jobs:
            return
    missing = sorted(jobs - {job for job in seen if job})
    raise SurescaleError(f"{source.name} has no task metrics of {missing[0] if missing else 'any job'} (topic {TASK_METRICS})")


def _own_settings(source: Source, known: Known, settings: PipelineSettings) -> PipelineSettings:
    """Return settings with a prefix of their own, and the clock and window length of the recording."""
    pipelines = []
    for record in source.records((CLOCK,)):
        with contextlib.suppress(RecordRejected):
            pipelines.append(decode(record.value, ClockSegment).pipeline)
    return replace(
        settings,
        topic_prefix=f"replay-{uuid.uuid4().hex[:8]}-",
        pipeline_clock=bool(pipelines),
        pipeline=pipelines[0] if pipelines else settings.pipeline,
        window_minutes=known.window_minutes(settings.window_minutes),
        health_port=0,
    )


@contextlib.contextmanager
def own_topics(own: PipelineSettings, source: Source, say: Say) -> Iterator[None]:
    """Create the topics of the table under the prefix. At the end remove them and the agent's group, whatever happens.

    Raises:
        KafkaException: the broker does not answer or refuses.
    """
    full = TopicNames(own.topic_prefix)
    admin = admin_client(own)
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
    # Asked first: with no broker, creating and removing would each wait a minute.
    admin.list_topics(timeout=METADATA_TIMEOUT_S)
    try:
        for future in admin.create_topics(wanted, operation_timeout=REQUEST_TIMEOUT_S).values():
            future.result()
        yield
    finally:
        _remove(admin, own, [topic.topic for topic in wanted], say)


def _remove(admin: AdminClient, own: PipelineSettings, topics: Sequence[str], say: Say) -> None:
    """Delete the topics and the agent's group where they exist; report what could not be deleted."""
    group = agent_group(own.topic_prefix)
    futures = admin.delete_topics(list(topics), operation_timeout=REQUEST_TIMEOUT_S) | admin.delete_consumer_groups([group])
    left = []
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THERE:
                left.append(name)
    if left:
        say(f"{len(left)} topics and groups could not be removed: {', '.join(left)}")
