"""What the topics of a job hold, asked of their broker; `engines.kafka.positions` says what follows from that.

An engine only tells what its sources let in, which under back pressure is not what came. The end offsets of the topics are: their
growth is what arrived, and their distance from the reader's position is what waits. Offsets also count the markers of
transactions, and records that compaction has removed, so both are a little high for such topics.
"""

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid

from surescale.contracts.errors import SurescaleError
from surescale.contracts.settings import PipelineSettings
from surescale.engines.kafka.positions import Answer, Extent, Partition
from surescale.runtime.kafka import admin_client, end_offsets, log_bounds

ANSWER_TIMEOUT_S = 5.0
AWAY_FOR_S = 30.0  # a broker that has not answered is not asked again for so long: each question may take the whole timeout
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # 16 bytes of 0
_REFUSALS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


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

    def look(self, topics: Sequence[str]) -> Answer:
        """Return what every partition holds; a topic that is not there, or a partition that is not told, is in the answer.

        Raises:
            OffsetsUnavailable: the broker does not answer, or does not let us ask.
        """
        self._check_away()
        ids: dict[Partition, str] = {}
        missing = set()
        described = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout_s) if topics else {}
        for topic, future in described.items():
            try:
                found = future.result()
                ids |= {(topic, each.id): _id(found.topic_id) for each in found.partitions}
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._unknown(error.args[0], topic) from None
                missing.add(topic)
        bounds = log_bounds(self._admin, [TopicPartition(*each) for each in ids], self._timeout_s)
        failed = {each: found for each, found in bounds.items() if isinstance(found, KafkaError)}
        refused = [found for found in failed.values() if found.code() in _REFUSALS]
        if refused or (failed and len(failed) == len(bounds)):
            raise self._unknown(refused[0] if refused else next(iter(failed.values())), ", ".join(topics), is_away=False)
        extents = {each: Extent(*found, ids[each]) for each, found in bounds.items() if not isinstance(found, KafkaError)}
        untold = {each: f"the broker does not tell its offsets ({why.str()}); look at its leader" for each, why in failed.items()}
        return Answer(extents, untold, frozenset(missing))

    def missing(self, topics: Sequence[str]) -> OffsetsUnavailable:
        """Return, to be raised, that the broker does not have some topics."""
        return self._unknown(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), ", ".join(topics))

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

    def _unknown(self, error: KafkaError, topics: str, *, is_away: bool = True) -> OffsetsUnavailable:
        """Return, to be raised, why topics are unknown. A cluster that tells so, or that they are there, is not away."""
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
        if is_away and error.code() < 0:  # the client's own codes: no broker has answered
            self._away = (time.monotonic() + AWAY_FOR_S, away)
        return away

    def _check_away(self) -> None:
        if self._away is not None and time.monotonic() < self._away[0]:
            raise OffsetsUnavailable(str(self._away[1]))


def _id(topic_id: Uuid) -> str:
    """Return a topic's id, empty where the broker has none."""
    return "" if str(topic_id) == _NO_ID else str(topic_id)
