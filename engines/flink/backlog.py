"""What waits in Kafka for a Flink source, and what has arrived there.

Flink's own ``pendingRecords`` sums what each reader's last fetch said, and a reader held back by back pressure seldom fetches: it
has shown 853 records where 134,511 waited. So the broker is asked for the ends, and Flink for the position of the reader in each
partition, both as of the same moment.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from surescale.engines.flink.answers import Metric, known
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import Answer, EndLog, Extent, Partition, Positions

_POSITION = re.compile(
    r"^(?P<source>(?:.*?\.kafkaCluster\.(?P<cluster>.+)|.*?))\.KafkaSourceReader"
    r"\.topic\.(?P<topic>.+)\.partition\.(?P<number>[0-9]{1,9})\.(?P<kind>current|committed)Offset\Z"
)
_REPLACED = re.compile(r"[ .:,]")  # Flink writes these characters of a metric's scope as _


@dataclass(frozen=True, slots=True)
class Backlog:
    """Of one source.

    Attributes:
        arrived: the count of records that came into its topics; None: unknown. See ``Positions.counted``.
        waiting: records that still wait, the least where a part is unknown; None: nothing is known.
        partitions: of its topics.
        partly_unknown: in words, of which partitions it is unknown what waits, where some is known.
        notes: what is to be told of the topics.
    """

    arrived: int | None
    waiting: int | None
    partitions: int
    partly_unknown: str = ""
    notes: tuple[str, ...] = ()


def positions_named(names: Iterable[str]) -> dict[str, tuple[str, int, str]]:
    """Return the metrics that tell a Kafka reader's position: name -> topic as Flink writes it, partition, kind."""
    found = ((name, _POSITION.search(name)) for name in names)
    return {name: (match["topic"], int(match["number"]), match["kind"]) for name, match in found if match}


def partitions_named(names: Iterable[str]) -> int:
    """Return the number of partitions that positions are shown of. Those of one name and number in two clusters are two."""
    found = {(match["cluster"], match["topic"], match["number"]) for name in names if (match := _POSITION.search(name))}
    return len(found)


def check_one_cluster(names: Iterable[str]) -> None:
    """Refuse positions that one broker cannot be asked about: of several clusters, or of a topic that two readers have.

    Raises:
        OffsetsUnavailable: names them, and the fix.
    """
    readers: dict[tuple[str, str], set[str]] = {}
    clusters = set()
    for match in filter(None, map(_POSITION.search, names)):
        clusters.add(match["cluster"])
        readers.setdefault((match["topic"], match["number"]), set()).add(match["source"])
    if len(clusters) > 1:
        named = ", ".join(sorted(each or "unnamed" for each in clusters))
        raise OffsetsUnavailable(
            f"a source reads several Kafka clusters ({named}), and one can be asked: what waits there is unknown; give each "
            "cluster a source of its own"
        )
    twice = sorted((topic, sources) for (topic, _), sources in readers.items() if len(sources) > 1)
    if twice:
        topic, sources = twice[0]
        raise OffsetsUnavailable(
            f"topic {topic} is read by {len(sources)} sources of one task ({', '.join(sorted(sources)[:2])}): what waits there "
            "is unknown; give each a task of its own"
        )


def as_flink_writes(topic: str) -> str:
    """Return a topic's name as it stands in the names of metrics."""
    return _REPLACED.sub("_", topic)


@dataclass(slots=True)
class SourceBacklog:
    """Follows one source vertex. ``look`` is called once a minute; what a partition's reader reached is remembered."""

    broker: TopicOffsets
    ends: EndLog = field(default_factory=EndLog)
    positions: Positions = field(default_factory=Positions)
    _answer: Answer = field(default_factory=lambda: Answer({}))  # the newest
    _as_of_ms: int = 0
    _reached: dict[Partition, int] = field(default_factory=dict)
    _topics: dict[str, str] = field(default_factory=dict)  # as Flink writes it -> as it is
    _seen: dict[str, str] = field(default_factory=dict)  # the same, of all that were ever there

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose ends were noted last, as Flink writes them; empty where the broker did not tell."""
        return frozenset(self._topics)

    def note_ends(self, topics: Iterable[str], now_ms: int) -> None:
        """Ask the broker what the topics hold now.

        Args:
            topics: as Flink writes them.
            now_ms: the present time.

        Raises:
            OffsetsUnavailable: the broker does not tell.
        """
        try:
            self._answer = self.broker.look(self._names(sorted(set(topics))))
        except OffsetsUnavailable:
            self._topics = {}  # held against earlier ends, nothing would seem to arrive
            raise
        self.ends.add(now_ms, {each: extent.end for each, extent in self._answer.extents.items()})

    def look(self, metrics: Mapping[str, Metric], as_of_ms: int) -> Backlog:
        """Return the backlog at the time at which the metrics were true, from ends noted before and after."""
        self._as_of_ms = max(self._as_of_ms, as_of_ms)  # of a fresh attempt it may be a little earlier
        self._note_positions(metrics)
        positions = self.positions
        positions.look(self._at(self._as_of_ms), self._topics.values(), self._as_of_ms)
        notes = tuple(positions.notes)  # a restart reads again what came after the checkpoint, which is nothing to tell
        positions.read(self._reached, self._as_of_ms)
        return Backlog(positions.counted, positions.known, len(positions.lag), positions.partly_unknown, notes)

    def _at(self, when_ms: int) -> Answer:
        """Return what the broker told, with the ends of a time in the past."""
        ends, told = self.ends.at(when_ms), self._answer
        extents = {
            each: Extent(min(extent.start, ends[each]), ends[each], extent.topic_id)
            for each, extent in told.extents.items()
            if each in ends
        }
        late = dict.fromkeys(told.extents.keys() - ends.keys(), "the broker did not tell its end a moment ago")
        return Answer(extents, {**told.unknown, **late}, told.missing)

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

    def _names(self, written: list[str]) -> list[str]:
        """Return the topics' own names. Kafka allows no two that differ only in what Flink replaces."""
        if any(topic not in self._topics for topic in written):
            own = self._seen | {as_flink_writes(topic): topic for topic in self.broker.topics()}
            missing = [topic for topic in written if topic not in own]
            if missing:
                raise OffsetsUnavailable(
                    f"Kafka, which sources read, has no topic {', '.join(missing)}; "
                    "set SURESCALE_SOURCE_BOOTSTRAP to the cluster that has it"
                )
            self._topics = {topic: own[topic] for topic in written}
            self._seen |= self._topics
        return [self._topics[topic] for topic in written]
