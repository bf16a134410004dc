"""The table of topics. Only ``surescale topics create`` creates them, from this table and ``TopicSettings``."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings

RECORD_BYTES_MAX = 8 * 1024 * 1024  # no managed Kafka is known to take less
WINDOW_BYTES_MAX = RECORD_BYTES_MAX - 64 * 1024  # without the record's overhead

Key = Literal["job", "cluster", "pipeline", "cluster/kind/id", "as the record's"]
Kept = Literal["by time", "compacted", "forever"]

JOB_PARTITIONS = 4
CLUSTER_PARTITIONS = 2  # the same for every cluster-keyed topic: the rescaler's assignment is co-partitioned
RETENTION_HOURS = 7 * 24

_HOUR_MS = 3_600_000
_REPLICAS_MAX = 32_767  # as Kafka's protocol has it

LEFT_TO_THE_BROKER: Final = MappingProxyType(
    {
        "compression.type": "a broker's limit on bytes then lets small records unpack to gigabytes",
        "max.message.bytes": "records beyond the broker's own limit are refused, and the role that sends one waits or ends",
        "min.cleanable.dirty.ratio": "topics that keep the last record of each key take more room",
        "min.insync.replicas": "with 1, a record is acknowledged that only one broker has, and is lost with it",
    }
)
"""Settings that a broker may be left to choose, where it does not let one set them; each with the risk."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its key, its retention, its only writer, what it carries."""

    name: str
    key: Key
    kept: Kept
    written_by: tuple[str, ...]
    carries: str
    partitions: int
    retention_ms: int = RETENTION_HOURS * _HOUR_MS
    replicas: int = 0
    """Copies of each record; 0: as many as the broker makes by default."""
    left: frozenset[str] = frozenset()
    """Settings of ``LEFT_TO_THE_BROKER`` that are."""

    def config(self) -> dict[str, str]:
        """Return the broker's settings for this topic.

        Timestamps are the broker's append times; event time travels inside the records. Freshness compares append times.
        """
        settings = {
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(RECORD_BYTES_MAX),
            "compression.type": "uncompressed",  # else a broker's limit on bytes lets small records unpack to gigabytes
        }
        if self.kept == "compacted":
            settings |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        elif self.kept == "forever":
            settings |= {"cleanup.policy": "delete", "retention.ms": "-1"}
        else:
            settings |= {"cleanup.policy": "delete", "retention.ms": str(self.retention_ms)}
        if self.replicas > 2:  # of two, one must be able to fail
            settings["min.insync.replicas"] = "2"
        return {name: value for name, value in settings.items() if name not in self.left}


TASK_METRICS = "task-metrics"
SNAPSHOTS = "snapshots"
JOB_TOPOLOGY = "job-topology"
CLUSTER_TOPOLOGY = "cluster-topology"
ENGINE_EVENTS = "engine-events"
JOB_SETTINGS = "job-settings"
POLICY_RELEASES = "policy-releases"
CLOCK = "clock"
DECISIONS = "decisions"
SHADOW_DECISIONS = "shadow-decisions"
RESCHEDULE_COMMANDS = "reschedule-commands"
RESCHEDULE_EVENTS = "reschedule-events"
RESCALER_STATE = "rescaler-state"
DEAD_LETTERS = "dead-letters"

_TABLE = (
    Topic(TASK_METRICS, "job", "by time", ("monitor",), "TaskSample, MinuteMarker", JOB_PARTITIONS),
    Topic(SNAPSHOTS, "job", "by time", ("spark_streaming",), "windows (binary, contracts.windows)", JOB_PARTITIONS),
    Topic(JOB_TOPOLOGY, "job", "compacted", ("monitor", "command line"), "JobTopology", JOB_PARTITIONS),
    Topic(JOB_SETTINGS, "job", "forever", ("command line", "API", "rescaler"), "JobSettings", JOB_PARTITIONS),
    Topic(CLUSTER_TOPOLOGY, "cluster", "compacted", ("monitor",), "ClusterTopology", CLUSTER_PARTITIONS),
    Topic(ENGINE_EVENTS, "cluster", "by time", ("monitor",), "EngineEvent", CLUSTER_PARTITIONS),
    Topic(POLICY_RELEASES, "cluster", "forever", ("command line",), "Release", CLUSTER_PARTITIONS),
    Topic(DECISIONS, "cluster", "by time", ("agent",), "Decision", CLUSTER_PARTITIONS),
    Topic(SHADOW_DECISIONS, "cluster", "by time", ("agent",), "ShadowDecision", CLUSTER_PARTITIONS),
    Topic(RESCHEDULE_COMMANDS, "cluster", "by time", ("rescaler",), "RescheduleCommand", CLUSTER_PARTITIONS),
    Topic(
        RESCHEDULE_EVENTS,
        "cluster",
        "by time",
        ("rescaler",),
        "Outcome, Progress, Balance, Drift",
        CLUSTER_PARTITIONS,
    ),
    Topic(RESCALER_STATE, "cluster/kind/id", "compacted", ("rescaler",), "RescalerRecord", CLUSTER_PARTITIONS),
    Topic(CLOCK, "pipeline", "compacted", ("simulated engine",), "ClockSegment", 1),
    Topic(DEAD_LETTERS, "as the record's", "by time", ("the role that refused it",), "DeadLetter", CLUSTER_PARTITIONS),
)

TOPICS: dict[str, Topic] = {topic.name: topic for topic in _TABLE}


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Topic names under a prefix; a replay has its own prefix so it never touches the live pipeline."""

    prefix: str = ""

    def __call__(self, name: str) -> str:
        """Return the full name of a topic of the table."""
        assert name in TOPICS, name
        return f"{self.prefix}{name}"

    def bare(self, full_name: str) -> str:
        """Return the table's name of a full topic name."""
        return full_name.removeprefix(self.prefix)


# librdkafka hashes keys by CRC32 by default, the JVM and aiokafka by murmur2. A key must map to the same partition everywhere.
LIBRDKAFKA_PRODUCER = {
    "partitioner": "murmur2_random",
    "enable.idempotence": True,
    "acks": "all",
    "message.max.bytes": RECORD_BYTES_MAX,
    "linger.ms": 5,
}
LIBRDKAFKA_CONSUMER = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": RECORD_BYTES_MAX,
}


READER_GROUP = "surescale-reader"
"""Group of clients that read whole topics. They join no group and commit nothing, but librdkafka asks who coordinates it."""
STATE_GROUP = "surescale-state"
EXPLAIN_GROUP = "surescale-explain"
RECORDER_GROUP = "surescale-recorder"


def agent_group(topic_prefix: str) -> str:
    """Return the consumer group that all agents of a pipeline share."""
    return f"{topic_prefix}surescale-agent"


def notify_group(topic_prefix: str) -> str:
    """Return the consumer group under which the state service keeps how far its webhook was told. Nobody joins it."""
    return f"{topic_prefix}surescale-notify"


def rescaler_group(topic_prefix: str, cluster: str) -> str:
    """Return the consumer group and transactional id of a cluster's rescaler: one is active per cluster and prefix."""
    return f"{topic_prefix}rescaler-{cluster}"


def monitor_group(topic_prefix: str, cluster: str) -> str:
    """Return the consumer group and transactional id of a cluster's monitors, where several choose the one that watches."""
    return f"{topic_prefix}monitor-{cluster}"


_ROLES = {SNAPSHOTS: agent_group(""), DECISIONS: rescaler_group("", ""), CLOCK: monitor_group("", "")}
"""What a role that joins a group reads, and how the id of that group begins after the prefix."""


def may_be_a_role(group: str) -> bool:
    """Return whether a group can be of a role of surescale, by its id."""
    return any(name in group for name in _ROLES.values())


def is_a_role(group: str, topics: Collection[str]) -> bool:
    """Return whether a group that reads these topics is of a role of some pipeline, whatever its prefix and cluster.

    >>> is_a_role("eu-monitor-shop", ["eu-clock"]), is_a_role("monitor-a", ["orders"]), is_a_role("eu-monitor-a", ["clock"])
    (True, False, False)
    """
    (topic, *others) = topics or ("",)
    its = (topic.removesuffix(read) + name for read, name in _ROLES.items() if topic.endswith(read))
    return not others and any(map(group.startswith, its))


def actuator_group(topic_prefix: str, cluster: str) -> str:
    """Return the consumer group under which the rescaler's actuator keeps its position."""
    return f"{rescaler_group(topic_prefix, cluster)}-actuator"


@dataclass(frozen=True, slots=True)
class TopicSettings(PipelineSettings):
    """Settings of ``surescale topics create``. Topics that exist stay as they are."""

    job_partitions: int = JOB_PARTITIONS
    """Partitions of each topic with one key per job: as many agents can share a pipeline's jobs."""
    cluster_partitions: int = CLUSTER_PARTITIONS
    """Partitions of each topic with one key per cluster: all records of a cluster are in one of them."""
    retention_hours: int = RETENTION_HOURS
    """Hours that records of topics kept by time stay: as far back as recordings, replays and rebuilt views can go."""
    replicas: int = 0
    """Brokers that keep each record; 3 outlive one of them, and then two must have a record before it counts as written. 0: as
    many as the broker's default.replication.factor."""
    topics_leave: str = ""
    """Settings of topics that are left to the broker, separated by commas, for one that does not let them be set:
    compression.type, max.message.bytes, min.cleanable.dirty.ratio, min.insync.replicas. `surescale doctor` names the risk."""

    def __post_init__(self) -> None:
        """Check the numbers and the names.

        Raises:
            SettingsError: a number is too small or large, or a setting may not be left to the broker; names it.
        """
        PipelineSettings.__post_init__(self)
        least_hours = self.window_minutes // 60 + 1  # a window must be whole before its first record expires
        self.check_least(job_partitions=1, cluster_partitions=1, retention_hours=least_hours, replicas=0)
        if self.replicas > _REPLICAS_MAX:
            raise SettingsError(f"SURESCALE_REPLICAS: {self.replicas} is more than Kafka can; set 3, or unset it")
        for name in sorted(self.left - LEFT_TO_THE_BROKER.keys()):
            known = ", ".join(LEFT_TO_THE_BROKER)
            raise SettingsError(f"SURESCALE_TOPICS_LEAVE: {name!r} cannot be left to the broker; only {known} can")

    @property
    def left(self) -> frozenset[str]:
        """Return the settings of topics that are left to the broker."""
        return frozenset(name.strip() for name in self.topics_leave.split(",") if name.strip())

    def topics(self) -> tuple[Topic, ...]:
        """Return the table of topics with these numbers."""
        return tuple(self._chosen(topic) for topic in TOPICS.values())

    def _chosen(self, topic: Topic) -> Topic:
        partitions = {"job": self.job_partitions, "pipeline": topic.partitions}.get(topic.key, self.cluster_partitions)
        retention_ms = self.retention_hours * _HOUR_MS
        return replace(topic, partitions=partitions, retention_ms=retention_ms, replicas=self.replicas, left=self.left)
