"""What waits in Kafka for a Flink source, and what has arrived there.

Flink's own ``pendingRecords`` sums what each reader's last fetch said, and a reader held back by back pressure seldom fetches: it
has shown 853 records where 134,511 waited. So the broker is asked for the ends, and Flink for the position of the reader in each
partition, both as of the same moment.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engines.flink.answers import Metric, known
from engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from engines.kafka.positions import EndLog, Partition

_POSITION = re.compile(
    r"\.KafkaSourceReader\.topic\.(?P<topic>.+)\.partition\.(?P<number>\d+)\.(?P<kind>current|committed)Offset$"
)
_REPLACED = re.compile(r"[ .:,]")  # Flink writes these characters of a metric's scope as _


@dataclass(frozen=True, slots=True)
class Backlog:
    """Of one source: records that ever arrived in its topics, and those that still wait (None: unknown)."""

    arrived: int
    waiting: int | None
    partitions: int


def positions_named(names: Iterable[str]) -> dict[str, tuple[str, int, str]]:
    """Return the metrics that tell a Kafka reader's position: name -> topic as Flink writes it, partition, kind."""
    found = ((name, _POSITION.search(name)) for name in names)
    return {name: (match["topic"], int(match["number"]), match["kind"]) for name, match in found if match}


def as_flink_writes(topic: str) -> str:
    """Return a topic's name as it stands in the names of metrics."""
    return _REPLACED.sub("_", topic)


@dataclass(slots=True)
class SourceBacklog:
    """Follows one source vertex. ``look`` is called once a minute; what a partition's reader reached is remembered."""

    broker: TopicOffsets
    ends: EndLog = field(default_factory=EndLog)
    _reached: dict[Partition, int] = field(default_factory=dict)
    _topics: dict[str, str] = field(default_factory=dict)  # as Flink writes it -> as it is

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose ends were noted last, as Flink writes them; empty where the broker did not tell."""
        return frozenset(self._topics)

    def note_ends(self, topics: Iterable[str], now_ms: int) -> None:
        """Ask the broker how long the topics are now.

        Args:
            topics: as Flink writes them.
            now_ms: the present time.

        Raises:
            OffsetsUnavailable: the broker does not tell.
        """
        try:
            self.ends.add(now_ms, self.broker.ends(self._names(sorted(set(topics)))))
        except OffsetsUnavailable:
            self._topics = {}  # held against earlier ends, nothing would seem to arrive
            raise

    def look(self, metrics: Mapping[str, Metric], as_of_ms: int) -> Backlog:
        """Return the backlog at the time at which the metrics were true, from ends noted before and after."""
        ends = self.ends.at(as_of_ms)
        self._note_positions(metrics)
        waiting = [self._waiting(partition, end) for partition, end in ends.items()]
        total = sum(each for each in waiting if each is not None)
        return Backlog(sum(ends.values()), None if None in waiting else total, len(ends))

    def _note_positions(self, metrics: Mapping[str, Metric]) -> None:
        read: dict[Partition, int] = {}
        for name, (topic, number, kind) in positions_named(metrics).items():
            offset = known(metrics[name].max)
            if offset is None or topic not in self._topics:
                continue  # -1: nothing read or committed since the attempt began
            partition = (self._topics[topic], number)
            if kind == "current":
                read[partition] = offset + 1
            else:
                self._reached[partition] = max(self._reached.get(partition, 0), offset)
        self._reached |= read  # may go back: a restart reads again what came after the checkpoint

    def _waiting(self, partition: Partition, end: int) -> int | None:
        if end == 0:
            return 0
        reached = self._reached.get(partition)
        return None if reached is None else max(0, end - reached)

    def _names(self, written: list[str]) -> list[str]:
        """Return the topics' own names. Kafka allows no two that differ only in what Flink replaces."""
        if any(topic not in self._topics for topic in written):
            own = {as_flink_writes(topic): topic for topic in self.broker.topics()}
            missing = [topic for topic in written if topic not in own]
            if missing:
                raise OffsetsUnavailable(
                    f"Kafka, which sources read, has no topic {', '.join(missing)}; "
                    "set SURESCALE_SOURCE_BOOTSTRAP to the cluster that has it"
                )
            self._topics = {topic: own[topic] for topic in written}
        return [self._topics[topic] for topic in written]
