"""How far the topics of a job have grown, asked of their broker.

An engine only tells what its sources let in, which under back pressure is not what came. The end offsets of the topics are: their
growth is what arrived, and their distance from the reader's position is what waits. Offsets also count the markers of
transactions, and records that compaction has removed, so both are a little high for such topics.
"""

import bisect
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

from contracts.errors import SurescaleError
from contracts.settings import PipelineSettings
from runtime.kafka import admin_client, end_offsets

ANSWER_TIMEOUT_S = 5.0
AWAY_FOR_S = 30.0  # a broker that has not answered is not asked again for so long: each question may take the whole timeout
POINTS_MAX = 32  # of the ends of one job's topics: a few minutes
_REFUSALS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

Partition = tuple[str, int]
"""Topic and number."""


class OffsetsUnavailable(SurescaleError):
    """The broker does not tell; the message names it and the fix, in one line."""


class TopicOffsets:
    """Asks one Kafka cluster, all partitions at once. Thread-safe."""

    def __init__(self, settings: PipelineSettings, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Args:
            settings: bootstrap servers and credentials.
            timeout_s: of each of the two requests.

        Raises:
            SettingsError: a file of the credentials cannot be read.
        """
        self._admin = admin_client(settings)
        self._bootstrap, self._timeout_s = settings.bootstrap, timeout_s
        self._away: tuple[float, OffsetsUnavailable] | None = None

    def ends(self, topics: Sequence[str]) -> dict[Partition, int]:
        """Return the offset after the last record of every partition.

        Raises:
            OffsetsUnavailable: the broker does not answer, does not know a topic, or does not let us ask.
        """
        self._check_away()
        partitions = self._partitions(topics)  # asked each time: some may have been added
        try:
            return end_offsets(self._admin, partitions, self._timeout_s)
        except KafkaException as error:
            raise self._unknown(error.args[0], ", ".join(topics)) from None

    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics that we may see.

        Raises:
            OffsetsUnavailable: as ``ends``.
        """
        self._check_away()
        try:
            return tuple(sorted(self._admin.list_topics(timeout=self._timeout_s).topics))
        except KafkaException as error:
            raise self._unknown(error.args[0], "all topics") from None

    def _partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        described = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout_s)
        found: list[TopicPartition] = []
        for topic, future in described.items():
            try:
                found += [TopicPartition(topic, each.id) for each in future.result().partitions]
            except KafkaException as error:
                raise self._unknown(error.args[0], topic) from None
        return found

    def _unknown(self, error: KafkaError, topics: str) -> OffsetsUnavailable:
        where = f"Kafka at {self._bootstrap}, which sources read"
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return OffsetsUnavailable(
                f"{where}, has no topic {topics}; set SURESCALE_SOURCE_BOOTSTRAP to the cluster that has it"
            )
        if error.code() in _REFUSALS:
            return OffsetsUnavailable(f"{where}, does not let us describe {topics}; grant DESCRIBE to the user of the monitor")
        away = OffsetsUnavailable(
            f"{where}, does not answer ({error.str()}); set SURESCALE_SOURCE_BOOTSTRAP to brokers that the monitor reaches, and "
            "SURESCALE_SOURCE_KAFKA_... to its credentials"
        )
        self._away = (time.monotonic() + AWAY_FOR_S, away)
        return away

    def _check_away(self) -> None:
        if self._away is not None and time.monotonic() < self._away[0]:
            raise OffsetsUnavailable(str(self._away[1]))


@dataclass(frozen=True, slots=True)
class _Point:
    at_ms: int
    ends: Mapping[Partition, int]


class EndLog:
    """The ends of one job's topics over the last minutes, to be read at the time at which a figure was true.

    An engine's figures may be seconds old; held against fresh ends they would show records waiting that had only just come.
    """

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=POINTS_MAX)

    def add(self, at_ms: int, ends: Mapping[Partition, int]) -> None:
        """Note the ends at a time, which must not be before the last one noted."""
        if not self._points or at_ms > self._points[-1].at_ms:
            self._points.append(_Point(at_ms, dict(ends)))

    def age_ms(self, partition: Partition, offset: int, now_ms: int) -> int | None:
        """Return how long ago a partition's end passed an offset; None if that was before the first known ends."""
        points = [(point.at_ms, point.ends[partition]) for point in self._points if partition in point.ends]
        after = bisect.bisect_right(points, offset, key=lambda point: point[1])
        if after == 0:
            return None
        if after == len(points):
            return 0  # not passed yet
        (early_ms, low), (late_ms, high) = points[after - 1], points[after]
        return max(0, now_ms - round(early_ms + (late_ms - early_ms) * (offset - low) / (high - low)))

    def at(self, when_ms: int) -> dict[Partition, int]:
        """Return the end of each partition at a time: between two known ones in proportion, else the nearest known one."""
        points = list(self._points)
        after = bisect.bisect_left(points, when_ms, key=lambda point: point.at_ms)
        if not points:
            return {}
        if after in (0, len(points)):
            return dict(points[min(after, len(points) - 1)].ends)
        early, late = points[after - 1], points[after]
        share = (when_ms - early.at_ms) / (late.at_ms - early.at_ms)
        return {each: end - round((end - early.ends.get(each, end)) * (1 - share)) for each, end in late.ends.items()}
