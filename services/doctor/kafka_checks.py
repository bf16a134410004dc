"""Checks of Kafka: is it there, are the topics right, does somebody read them, and how long ago did each role write."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from statistics import mode
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # these names are not in its __all__
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    MemberDescription,
    ResourceType,
)

from surescale.contracts.ids import cluster_of
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.messages import JobTopology
from surescale.contracts.plurals import counted
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    CLOCK,
    DECISIONS,
    JOB_TOPOLOGY,
    LEFT_TO_THE_BROKER,
    READER_GROUP,
    SNAPSHOTS,
    TASK_METRICS,
    TOPICS,
    Topic,
    TopicNames,
    agent_group,
    monitor_group,
    notify_group,
    rescaler_group,
)
from surescale.contracts.topology import has_ended
from surescale.engines.ports.findings import Finding, in_words
from surescale.runtime.kafka import (
    EMPTY,
    GROUP_REQUEST_TIMEOUT_S,
    METADATA_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    LogReader,
    admin_client,
    batch,
    committed_offsets,
    consumer,
    creation,
    end_offsets,
    on_one_broker,
)
from surescale.runtime.kafka_errors import Refusals, Refused, is_record
from surescale.runtime.kafka_security import uses_tokens
from surescale.runtime.oauth_tokens import NoToken, fetch_token
from surescale.runtime.topic_records import append_ms, parsed, read_topics
from surescale.services.state.notify.watch import WATCHED

T = TypeVar("T")
SETTINGS_THAT_MATTER = ("compression.type", "cleanup.policy", "max.message.bytes", "message.timestamp.type")
LAG_MAX = 1_000
LATE_S = 180.0
CLOCK_APART_S = 60.0
"""A minute's records come every minute; later than this, the role that writes them is not at work."""
_LAST_RECORDS = 3  # markers of transactions take offsets too
_COORDINATOR_MOVES = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""For a moment, after a broker's start or its first group."""
_WRITERS = {TASK_METRICS: "the monitor", SNAPSHOTS: "the Spark job"}


class KafkaChecks:
    """Checks of one pipeline's Kafka. Asks only, and joins no group."""

    def __init__(self, settings: PipelineSettings, left: frozenset[str] = frozenset()) -> None:
        """``left``: settings of topics that are left to the broker."""
        self._settings, self._left = settings, left
        self._full = TopicNames(settings.topic_prefix)
        self._refusals = Refusals(settings)
        self._admin: AdminClient  # there once a broker has answered
        self._metadata: ClusterMetadata | None = None
        self.ahead_s = 0.0
        """By how much this machine's clock is ahead of Kafka's, as far as that is known."""

    def token(self) -> Iterator[Finding]:
        """Check that the issuer of tokens gives one, if there is an issuer."""
        if not uses_tokens(self._settings):
            return
        try:
            yield Finding("ok", "token", fetch_token(self._settings).shown())
        except NoToken as error:
            wrong, _, remedy = str(error).rpartition("; ")
            yield Finding("problem", "token", wrong or remedy, remedy)

    def broker(self) -> Iterator[Finding]:
        """Check that a broker answers."""
        began_s = time.monotonic()
        try:
            self._admin = admin_client(self._settings, error_cb=self._refusals.hear)
            with self._refusals.explained(self._admin):
                self._metadata = self._admin.list_topics(timeout=METADATA_TIMEOUT_S)
        except Refused as error:
            yield Finding(
                "problem", "kafka", f"{self._settings.bootstrap} does not let us in: {error}",
                "set the SURESCALE_KAFKA_ settings that it names, or let the broker accept this client",
            )  # fmt: skip
            return
        except KafkaException as error:
            yield Finding(
                "problem", "kafka", f"{self._settings.bootstrap} does not answer: {error.args[0].str()}",
                "start it, or set SURESCALE_BOOTSTRAP; with TLS or SASL, see SURESCALE_KAFKA_SECURITY_PROTOCOL",
            )  # fmt: skip
            return
        took_ms = 1000 * (time.monotonic() - began_s)
        yield Finding("ok", "kafka", f"{counted(len(self._metadata.brokers), 'broker')}, answered in {took_ms:.0f} ms")

    @property
    def answers(self) -> bool:
        """Say whether a broker has answered."""
        return self._metadata is not None

    def topics(self) -> Iterator[Finding]:
        """Check that every topic is there, with its partitions and the settings that matter."""
        if self._metadata is None:
            return
        there = self._metadata.topics
        missing = [topic.name for topic in TOPICS.values() if self._full(topic.name) not in there]
        present = [topic for topic in TOPICS.values() if topic.name not in missing]
        if missing:
            yield Finding(
                "problem", "topics", f"missing: {', '.join(missing)}", f"create them: {creation(self._settings).strip('`')}"
            )
        wrong = [*self._partitions(present), *self._configurations(present), *self._replicas(present)]
        yield from wrong
        partitions = self._parts_of(topic.name for topic in present)
        if not missing and not any(end_offsets(self._admin, partitions, REQUEST_TIMEOUT_S).values()):
            yield Finding("warning", "topics", f"all {len(TOPICS)} are there, and none ever had a record", EMPTY)
        elif not (missing or wrong):
            left = "".join(f"; {name} is left to the broker: {LEFT_TO_THE_BROKER[name]}" for name in sorted(self._left))
            yield Finding("ok", "topics", f"all {len(TOPICS)} are there, set up as they should be{left}")

    def _parts_of(self, names: Iterable[str]) -> list[TopicPartition]:
        assert self._metadata is not None, "topics are looked at only where a broker answered"
        topics = map(self._full, names)
        return [TopicPartition(topic, number) for topic in topics for number in self._metadata.topics[topic].partitions]

    def _committed(self, group: str, partitions: list[TopicPartition]) -> dict[tuple[str, int], int]:
        """Return where a group stands, by topic and partition."""
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        read = self._answer(self._admin.list_consumer_group_offsets(asked, request_timeout=GROUP_REQUEST_TIMEOUT_S)[group])
        return {(each.topic, each.partition): each.offset for each in read.topic_partitions}

    def _partitions(self, topics: list[Topic]) -> Iterator[Finding]:
        """Find topics whose number of partitions is not that of most with the same key; it is chosen when they are made."""
        assert self._metadata is not None, "topics are looked at only where a broker answered"
        counts = {topic: len(self._metadata.topics[self._full(topic.name)].partitions) for topic in topics}
        for topic, found in counts.items():
            alike = [count for other, count in counts.items() if other.partitions == topic.partitions]
            wanted = mode(alike) if len(alike) > 1 else topic.partitions
            if found != wanted:
                yield Finding(
                    "problem", "topics", f"{self._full(topic.name)} has {counted(found, 'partition')}, not {wanted}",
                    "records of one key must stay in one partition: use a new prefix, or create the topic again while nothing "
                    "runs",
                )  # fmt: skip

    def _configurations(self, topics: list[Topic]) -> Iterator[Finding]:
        if not topics:
            return
        asked = {ConfigResource(ResourceType.TOPIC, self._full(topic.name)): topic for topic in topics}
        for resource, future in self._admin.describe_configs(list(asked), request_timeout=REQUEST_TIMEOUT_S).items():
            wanted = asked[resource].config()
            found = future.result()
            for key in SETTINGS_THAT_MATTER:
                if key in wanted and key not in self._left and not _serves(key, found[key].value, wanted[key]):
                    yield Finding(
                        "warning", "topics", f"{resource.name}: {key} is {found[key].value}, not {wanted[key]}",
                        f"kafka-configs.sh --alter --topic {resource.name} --add-config {key}={wanted[key]}",
                    )  # fmt: skip

    def _replicas(self, topics: list[Topic]) -> Iterator[Finding]:
        """Find topics that are lost with one broker. A Kafka of one broker has no others: it is there to try things."""
        assert self._metadata is not None, "topics are looked at only where a broker answered"
        once = on_one_broker({(name := self._full(topic.name)): self._metadata.topics[name] for topic in topics})
        if once and len(self._metadata.brokers) > 1:
            yield Finding(
                "warning", "topics", f"{counted(len(once), 'topic')}, such as {once[0]}, on one broker each, and lost with it",
                "create topics with `surescale topics create --replicas 3`; present ones need kafka-reassign-partitions.sh",
            )  # fmt: skip

    def groups(self) -> Iterator[Finding]:
        """Check that agent and rescaler are members of their groups and keep up; say which of several monitors watches."""
        if self._metadata is None:
            return
        prefix, cluster = self._settings.topic_prefix, self._settings.cluster
        yield from self._monitors(monitor_group(prefix, cluster))
        yield from self._group(agent_group(prefix), SNAPSHOTS, "the agent", "surescale run agent")
        yield from self._group(rescaler_group(prefix, cluster), DECISIONS, f"the rescaler of {cluster}", "surescale run rescaler")

    def _monitors(self, group: str) -> Iterator[Finding]:
        """Say which monitor watches, where they choose one (``SURESCALE_LEADER_ELECT``); a single one has no group."""
        members = self._members(group)
        active = [member.client_id for member in members if member.assignment and member.assignment.topic_partitions]
        others = [member.client_id for member in members if member.client_id not in active]
        if not members:
            return
        if not active:
            remedy = "one of them takes over within 15 s; if none does, look at their logs"
            yield Finding("warning", "the monitors", f"none of {', '.join(others)} watches {self._settings.cluster}", remedy)
        elif not others:
            detail = f"{active[0]} watches {self._settings.cluster}, and none stands by"
            yield Finding("warning", "the monitors", detail, "start a second one on another machine: docs/deploy.md")
        else:
            stand = "stands" if len(others) == 1 else "stand"
            detail = f"{active[0]} watches {self._settings.cluster}; {', '.join(others)} {stand} by"
            yield Finding("ok", "the monitors", detail)

    def _group(self, group: str, topic: str, who: str, command: str) -> Iterator[Finding]:
        name = self._full(topic)
        if self._metadata is None or name not in self._metadata.topics:
            return
        members = len(self._members(group))
        if not members:
            yield Finding("problem", who, f"nobody reads {name}: group {group} has no member", f"start {command}")
            return
        lag = self._lag(group, topic)
        detail = f"{counted(members, 'member')}, {counted(lag, 'record')} of {name} still to read"
        if lag > LAG_MAX:
            yield Finding("warning", who, detail, f"look at its log and /health; another {command} shares the partitions")
        else:
            yield Finding("ok", who, detail)

    def notified(self) -> tuple[int, float | None] | None:
        """Return how many records the state service's webhook has not been told about, and for how many seconds the oldest waits.

        None if nothing was told yet, and where no broker answers. The seconds are unknown where the topic's record is gone.

        Raises:
            KafkaException: a right is missing, or the broker does not answer.
        """
        if self._metadata is None or any(self._full(name) not in self._metadata.topics for name in WATCHED):
            return None
        partitions = self._parts_of(WATCHED)
        ends = committed_offsets(self._admin, partitions, "end")
        stands = self._committed(notify_group(self._settings.topic_prefix), partitions)
        told = {key: offset for key, offset in stands.items() if (offset or -1) >= 0}
        if not told:
            return None
        behind = {key: end - told[key] for key, end in ends.items() if key in told and end > told[key]}
        return sum(behind.values()), self._oldest_s({key: told[key] for key in behind})

    def _oldest_s(self, starts: dict[tuple[str, int], int]) -> float | None:
        """Return how long ago the oldest record from these offsets on was appended."""
        if not starts:
            return None
        with closing(consumer(self._settings, READER_GROUP, **{"enable.partition.eof": True})) as client:
            client.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in starts.items()])
            left, times = set(starts), []
            deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
            while left and time.monotonic() < deadline_s:
                for message in batch(client, 100, 0.5):
                    key = (message.topic() or "", message.partition() or 0)
                    if is_record(message) and key in left:
                        times.append(message.timestamp()[1])
                    left.discard(key)
        return time.time() - min(times) / 1000 if times else None

    def _members(self, group: str) -> list[MemberDescription]:
        """Return the members of a group; none of one that nobody ever joined."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                asked = self._admin.describe_consumer_groups([group], request_timeout=GROUP_REQUEST_TIMEOUT_S)
                return list(self._answer(asked[group]).members)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return []
                if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _answer(self, future: Future[T]) -> T:
        try:
            return future.result(REQUEST_TIMEOUT_S)
        except FutureTimeout:
            raise TimeoutError(f"{self._settings.bootstrap} did not answer within {REQUEST_TIMEOUT_S:.0f} s") from None

    def _lag(self, group: str, topic: str) -> int:
        partitions = self._parts_of([topic])
        ends, reached = committed_offsets(self._admin, partitions, "end"), self._committed(group, partitions)
        return sum(max(0, end - max(0, reached.get(key, 0))) for key, end in ends.items())

    def clock(self, ahead_of_redis_s: float | None) -> Iterator[Finding]:
        """Check this machine's clock by the newest record, which Kafka has dated.

        A record of the future says that it is behind. An old one says that it is ahead, or that nobody writes: it is ahead if
        the record is new by the clock of Redis. Ages are told by Kafka's clock from then on.

        Args:
            ahead_of_redis_s: by how much it is ahead of that of Redis; None: nobody knows.
        """
        if self._metadata is None:
            return
        there = [topic for topic in _WRITERS if self._full(topic) in self._metadata.topics]
        age_s = min((age_s for topic in there if (age_s := self._age_s(topic)) is not None), default=0.0)
        if age_s < -CLOCK_APART_S:
            self.ahead_s, who = age_s, "Kafka's"
        elif ahead_of_redis_s is not None and ahead_of_redis_s > CLOCK_APART_S and age_s > LATE_S:
            if not -CLOCK_APART_S <= age_s - ahead_of_redis_s <= LATE_S:
                return
            self.ahead_s, who = ahead_of_redis_s, "Kafka's and that of Redis"
        else:
            return
        where = "ahead of" if self.ahead_s > 0 else "behind"
        detail = f"this machine's clock is {in_words(abs(self.ahead_s))} {where} {who}"
        yield Finding("problem", "clock", detail, "set it right (NTP); ages here are by Kafka's clock")

    def writers(self) -> Iterator[Finding]:
        """Check how long ago monitor and Spark job wrote. A simulated clock may stand still, and then nobody need write."""
        if self._metadata is None or any(self._full(topic) not in self._metadata.topics for topic in _WRITERS):
            return
        for topic, who in _WRITERS.items():
            age_s = self._age_s(topic)
            waited_s = self._first_s(TASK_METRICS) if age_s is None and topic == SNAPSHOTS else None
            if waited_s is not None and waited_s > LATE_S and not self._has_simulated_clock():
                detail = f"{self._full(topic)} is empty, though the monitor has written for {in_words(waited_s)}"
                yield Finding("problem", who, detail, "look at its log and /health; start it if it does not run")
            elif age_s is None:
                yield Finding(
                    "warning", who, f"{self._full(topic)} is empty", f"start {who}; a job's first minute takes a minute"
                )
            elif age_s > LATE_S:
                detail = f"last wrote to {self._full(topic)} {in_words(age_s)} ago"
                remedy = "look at its log and /health"
                if self._has_simulated_clock():
                    yield Finding("warning", who, detail, f"{remedy}; a finished trace ends so too")
                else:
                    yield Finding("problem", who, detail, f"{remedy}; start it if it does not run")
            else:
                yield Finding("ok", who, f"wrote to {self._full(topic)} {in_words(max(0.0, age_s))} ago")

    def monitors(self) -> Iterator[Finding]:
        """Check that the monitor of each cluster tells of its jobs: what that of another one writes hides that it does not."""
        if self._metadata is None or any(
            self._full(topic) not in self._metadata.topics for topic in (TASK_METRICS, JOB_TOPOLOGY)
        ):
            return
        age_s = self._age_s(TASK_METRICS)
        if age_s is None or age_s > LATE_S:
            return  # of all of them, which is said already
        records = read_topics(self._settings, [JOB_TOPOLOGY])[JOB_TOPOLOGY]
        told = [(topology, append_ms(record) / 1000) for record in records for topology in parsed([record], JobTopology)]
        for cluster, silent_s in silent_clusters(told, time.time() - self.ahead_s).items():
            yield Finding(
                "problem", f"the monitor of {cluster}", f"last reported its jobs {in_words(silent_s)} ago",
                "look at its log and /health, and whether its engine answers; `surescale job forget JOB` ends jobs that are gone "
                "for good",
            )  # fmt: skip

    def _first_s(self, topic: str) -> float:
        """Return how long ago somebody first wrote what a topic still has; 0 if that is nothing."""
        starts = committed_offsets(self._admin, self._parts_of([topic]), "beginning")
        age_s = self._oldest_s(starts)
        return 0.0 if age_s is None else age_s - self.ahead_s

    def _has_simulated_clock(self) -> bool:
        return self._metadata is not None and self._full(CLOCK) in self._metadata.topics and self._age_s(CLOCK) is not None

    def _age_s(self, topic: str) -> float | None:
        """Return how long ago, by the broker's append time, somebody wrote to a topic; None if it is empty."""
        with closing(LogReader(self._settings, [topic], last=_LAST_RECORDS)) as reader:
            newest_ms = max((record.timestamp()[1] for record in reader.read_to_end()), default=None)
        return None if newest_ms is None else time.time() - self.ahead_s - newest_ms / 1000


def silent_clusters(told: Iterable[tuple[JobTopology, float]], now_s: float) -> dict[str, float]:
    """Return for how many seconds nobody has told of any job of a cluster, by cluster, where that is too long.

    Jobs that have ended are not missed, nor are those of the simulated engine, which are told of only when they change.

    Args:
        told: topologies in the order of the topic, with the time of each in seconds.
        now_s: the present time.
    """
    newest = {topology.job: (topology, at_s) for topology, at_s in told}
    seen_s: dict[str, float] = {}
    for job, (topology, at_s) in newest.items():
        if not (has_ended(topology) or is_simulated(topology.engine)):
            seen_s[cluster_of(job)] = max(at_s, seen_s.get(cluster_of(job), at_s))
    return {cluster: now_s - at_s for cluster, at_s in sorted(seen_s.items()) if now_s - at_s > LATE_S}


def _serves(key: str, found: str | None, wanted: str) -> bool:
    """Say whether a topic's setting is as good as the one wanted: it may take larger records."""
    if key == "max.message.bytes" and (found or "").isdecimal():
        return int(found or 0) >= int(wanted)
    return found == wanted
