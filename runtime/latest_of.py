"""What topics say by now, for a role that keeps a view of them, like a GlobalKTable of Kafka Streams."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from confluent_kafka import KafkaException, Message

from surescale.contracts.errors import RecordRejected
from surescale.contracts.topics import TopicNames
from surescale.runtime.kafka import LogReader
from surescale.runtime.topic_records import key_of, value_of

T = TypeVar("T")


class LatestOf(Generic[T]):
    """Reads topics from their beginning and hands each record to the function of its topic, which keeps what is new in it.

    A record that does not parse or contradicts itself is counted and skipped with a warning; what was known stays in force.
    """

    def __init__(
        self,
        names: TopicNames,
        take: Mapping[str, Callable[[bytes | None, bytes | None], T | None]],
        opened: Callable[[], LogReader],
        log: logging.Logger,
        *,
        count: Callable[[str, bool], None],
    ) -> None:
        """Read nothing yet.

        Args:
            names: full names of the topics.
            take: by topic (bare name), what takes a record's key and value. It returns news for ``refresh``, or None, and
                raises `RecordRejected`.
            opened: opens a reader of these topics.
            log: of the role.
            count: is told of every record its topic, and whether it was taken.
        """
        self._names, self._take, self._opened, self._log, self._count = names, take, opened, log, count
        self._reader: LogReader | None = None

    def refresh(self) -> list[T]:
        """Take everything that was committed before this call, and return the news.

        Raises:
            TimeoutError, KafkaException: Kafka does not answer. The next call begins at the beginning.
        """
        reader, self._reader = self._reader or self._opened(), None
        try:
            records = list(reader.read_to_end())
        except (KafkaException, TimeoutError):
            # What it had read so far is lost, and its metadata may be out of date.
            reader.close()
            raise
        self._reader = reader
        return self._taken(records)

    def look(self) -> tuple[list[T], set[str]]:
        """Take what has arrived meanwhile, without asking for more; return the news and the topics (bare names) it came from."""
        self._reader = self._reader or self._opened()
        records = self._reader.poll(0)
        return self._taken(records), {self._names.bare(str(record.topic())) for record in records}

    def close(self) -> None:
        """Leave the broker."""
        if self._reader is not None:
            self._reader.close()

    def _taken(self, records: Iterable[Message]) -> list[T]:
        found = []
        for record in records:
            topic = self._names.bare(str(record.topic()))
            try:
                news = self._take[topic](key_of(record), value_of(record))
            except RecordRejected as error:
                self._count(topic, False)
                where = f"{record.topic()}[{record.partition()}]@{record.offset()}"
                self._log.warning("the record at %s is ignored: %s", where, error)
                continue
            self._count(topic, True)
            found += [news] if news is not None else []
        return found
