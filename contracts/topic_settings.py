"""How topics are created: what an operator chooses once, before a pipeline's first start."""

from dataclasses import dataclass, replace

from contracts.settings import PipelineSettings
from contracts.topics import CLUSTER_PARTITIONS, JOB_PARTITIONS, RETENTION_HOURS, TOPICS, Topic

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class TopicSettings(PipelineSettings):
    """Settings of ``surescale topics create``. Topics that exist stay as they are."""

    job_partitions: int = JOB_PARTITIONS
    """Partitions of each topic with one key per job: as many agents can share a pipeline's jobs."""
    cluster_partitions: int = CLUSTER_PARTITIONS
    """Partitions of each topic with one key per cluster: all records of a cluster are in one of them."""
    retention_hours: int = RETENTION_HOURS
    """Hours that records of topics kept by time stay: as far back as recordings, replays and rebuilt views can go."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            SettingsError: one is too small; names the setting.
        """
        PipelineSettings.__post_init__(self)
        least_hours = self.window_minutes // 60 + 1  # a window must be whole before its first record expires
        self.check_least(job_partitions=1, cluster_partitions=1, retention_hours=least_hours)

    def topics(self) -> tuple[Topic, ...]:
        """Return the table of topics with these numbers."""
        return tuple(self._chosen(topic) for topic in TOPICS.values())

    def _chosen(self, topic: Topic) -> Topic:
        partitions = {"job": self.job_partitions, "pipeline": topic.partitions}.get(topic.key, self.cluster_partitions)
        return replace(topic, partitions=partitions, retention_ms=self.retention_hours * _HOUR_MS)
