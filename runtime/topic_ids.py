"""Notices topics that were deleted and made again: under an old name, what a role remembers of them is no longer there.

Kafka gives each topic an id of its own. A broker that lost its disk, or somebody who deletes and creates a topic, leaves the
name and another id.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from surescale.contracts.errors import SurescaleError
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TopicNames
from surescale.runtime.kafka import METADATA_TIMEOUT_S, admin_client
from surescale.runtime.threads import background

LOOK_EVERY_S = 10.0


class TopicsMadeAgain(SurescaleError):
    """Topics that a role has a memory of were made again; the role ends so that its supervisor starts it anew."""


class TopicIds:
    """The ids of some topics, as of the last look."""

    def __init__(self, settings: PipelineSettings, names: Sequence[str]) -> None:
        """``names``: bare ones."""
        self._full = TopicNames(settings.topic_prefix)
        self._settings, self._names = settings, names
        self._admin: AdminClient | None = None
        self._known: dict[str, tuple[int, int]] = {}
        self._made_again: set[str] = set()

    def accept(self) -> None:
        """Take the topics that were made again for the known ones."""
        self._made_again.clear()

    def look(self) -> tuple[str, ...]:
        """Return the topics (bare names) that were made again and not accepted yet; the first look only learns.

        Raises:
            KafkaException: a topic is not there, or the broker does not answer.
        """
        admin, self._admin = self._admin or admin_client(self._settings), None
        now = {self._full.bare(name): id_ for name, id_ in topic_ids(admin, [self._full(name) for name in self._names]).items()}
        self._admin = admin  # one that failed is given up
        known, self._known = self._known, now
        self._made_again.update(name for name in self._names if known.get(name, now[name]) != now[name])
        return tuple(name for name in self._names if name in self._made_again)


def topic_ids(admin: AdminClient, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return what tells each topic (full name) from another one that had its name before.

    Raises:
        KafkaException: a topic is not there, or the broker does not answer.
    """
    found = admin.describe_topics(TopicCollection(list(names)), request_timeout=METADATA_TIMEOUT_S)
    ids = {name: future.result().topic_id for name, future in found.items()}
    return {name: (id_.get_most_significant_bits(), id_.get_least_significant_bits()) for name, id_ in ids.items()}


@contextlib.contextmanager
def ended_by_new_topics(
    settings: PipelineSettings, names: Sequence[str], stop: threading.Event, log: logging.Logger
) -> Iterator[None]:
    """Set ``stop`` once a topic (bare names) that was there was made again. The block is the role's work.

    Raises:
        TopicsMadeAgain: at the end of the block, if that ended it; names the topics.
    """
    ids, over, told = TopicIds(settings, names), threading.Event(), list[str]()

    def watch() -> None:
        while not (told or stop.is_set()):
            with contextlib.suppress(KafkaException):  # the role itself says that it waits for Kafka, or for its topics
                told.extend(ids.look())
            if told:
                stop.set()
            elif over.wait(LOOK_EVERY_S):
                return

    watcher = background(watch, "kafka-topics", lambda: over.is_set() or stop.is_set())
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    if told:
        which = ", ".join(told)
        raise TopicsMadeAgain(
            f"{which} made again, and what this role remembers went with the old ones: it ends, to be started again"
        )
