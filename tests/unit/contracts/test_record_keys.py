"""Records whose key and body disagree: every reader of every topic that keeps records for ever passes them."""

import logging
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Message as KafkaRecord

from surescale.contracts.access import readers
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import Message
from surescale.contracts.partitioner import partition_of
from surescale.contracts.record_keys import decode_under, record_key
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import RESCALER_STATE, TOPICS
from surescale.contracts.wire import encode
from surescale.rescaler.service.memory import memory_in
from surescale.rescaler.service.pipeline_view import PipelineView
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.kafka import LogReader
from surescale.runtime.topic_records import memories, parsed
from surescale.services.agent.job_settings import JobSettingsView
from surescale.services.state.notify.watch import WATCHED, Watch
from surescale.services.state.write.projections import Record, project
from surescale.spark_streaming.pipeline_clock import PipelineClock
from tests.support.hostile_records import KINDS
from tests.wire.messages import MESSAGES

LOG = logging.getLogger("test")
KEPT = sorted(name for name, topic in TOPICS.items() if topic.kept != "by time")
OTHER = {"job": "sim/other", "cluster": "other", "pipeline": "other"}
WRONG_KEYS = (None, b"", b"\xff", b"x", b"sim", b"sim/other", b"other", b"sim/*", b"sim/clicks ", b"Sim/clicks", b"sim/job/sim/x")


def goods(topic: str) -> list[Message]:
    """Return a good record of each kind."""
    return [MESSAGES[name] for name in KINDS[topic]]


def key_of(message: Message) -> bytes:
    """Return the key of a good record."""
    if isinstance(message, RescalerRecord):
        return f"{message.cluster}/{message.kind}/{message.id}".encode()
    return str(record_key(message)).encode()


def on_kafka(topic: str, key: bytes | None, value: bytes) -> KafkaRecord:
    """Return a record as the client gives it, in the partition of cluster sim."""
    partition = partition_of("sim", TOPICS[topic].partitions)
    given: dict[str, Any] = {"topic": topic, "partition": partition, "offset": 7, "key": key, "value": value, "error": None}
    given |= {"timestamp": (2, 1_000), "headers": None}
    return cast(KafkaRecord, SimpleNamespace(**{name: lambda each=each: each for name, each in given.items()}))


class Log:
    """A reader of one record."""

    def __init__(self, record: KafkaRecord) -> None:
        self._left, self.partitions = [record], range(TOPICS[str(record.topic())].partitions)

    def read_to_end(self) -> Iterator[KafkaRecord]:
        """Yield it, once."""
        while self._left:
            yield self._left.pop()

    def close(self) -> None:
        """Do nothing."""


def by_monitor(topic: str, record: KafkaRecord) -> bool:
    """Its own look at topologies and hosts; the clock is read as everywhere."""
    return bool(parsed([record], type(MESSAGES[KINDS[topic][0]])))


def by_spark(topic: str, record: KafkaRecord) -> bool:
    """The clock that dates its records."""
    clock = PipelineClock(PipelineSettings(), stop=threading.Event(), log=LOG)
    clock._read(cast(LogReader, Log(record)))
    return bool(clock._segments)


def by_agent(topic: str, record: KafkaRecord) -> bool:
    """Settings and releases."""
    view = JobSettingsView(PipelineSettings(), stop=threading.Event(), log=LOG)
    taken: list[bool] = []
    view._topics._count = lambda _, is_taken: taken.append(is_taken)
    view._topics._taken([record])
    return taken == [True]


def by_rescaler(topic: str, record: KafkaRecord) -> bool:
    """Its memory, and its view of the world."""
    if topic == RESCALER_STATE:
        found = memory_in([record], "sim", int(record.partition() or 0), lambda _: None)
        return "sim/clicks" in {each.id if isinstance(each, RescalerRecord) else each.key.id for each in found}
    status = Status("sim")
    view = PipelineView(RescalerSettings(), lambda: cast(LogReader, Log(record)), status, LOG)
    before = deepcopy((view.view(), view._clock))
    view.refresh()
    return (view.view(), view._clock) != before


def by_view(topic: str, record: KafkaRecord) -> bool:
    """What is shown."""
    try:
        return bool(project(Record(topic, 0, 7, record.key(), record.value(), 1_000)))
    except RecordRejected:
        return False


def by_notifier(topic: str, record: KafkaRecord) -> bool:
    """What people are told, and what it remembers for that."""
    watch = Watch()
    told = watch.take(Record(topic, 0, 7, record.key(), record.value(), 1_000))
    return bool(told) or bool(watch._memory.jobs)


def by_operator(topic: str, record: KafkaRecord) -> bool:
    """Commands: job, policy, explain, recordings, tournaments; ScaledStreams and requests over HTTP read as they do."""
    return bool(memories([record]) if topic == RESCALER_STATE else parsed([record], type(MESSAGES[KINDS[topic][0]])))


READERS: dict[str, tuple[Callable[[str, KafkaRecord], bool], ...]] = {
    "monitor": (by_monitor,),
    "spark": (by_spark,),
    "agent": (by_agent,),
    "rescaler": (by_rescaler,),
    "state-service": (by_view, by_notifier),
    "operator": (by_operator,),
}
PLACES = [
    pytest.param(topic, reads, id=f"{topic} {reads.__name__}")
    for topic in KEPT
    for role in readers(topic)
    for reads in READERS[role]
    if reads is not by_notifier or topic in WATCHED
]


@pytest.mark.parametrize(("topic", "reads"), PLACES)
def test_a_record_under_another_key_is_passed(topic: str, reads: Callable[[str, KafkaRecord], bool]) -> None:
    """The same record is taken under its own key, so it is the key that is refused."""
    taken = 0
    for message in goods(topic):
        value = encode(message)
        taken += reads(topic, on_kafka(topic, key_of(message), value))
        for key in WRONG_KEYS:
            if key != key_of(message):
                assert not reads(topic, on_kafka(topic, key, value)), key
    assert taken


@pytest.mark.parametrize("topic", sorted(set(KEPT) - {RESCALER_STATE}))
def test_the_body_of_another_under_a_good_key_is_passed(topic: str) -> None:
    """Whoever may write to the topic cannot make one job's key say another's things.

    Bodies of a rescaler's memory say cluster, kind and id: ``tests/unit/contracts/test_rescaler_state.py``.
    """
    for message in goods(topic):
        own = TOPICS[topic].key
        other = {own: OTHER[own]} | ({"job": None} if own == "cluster" and hasattr(message, "job") else {})
        changed = encode(msgspec.structs.replace(message, **other))
        for role in readers(topic):
            for reads in READERS[role]:
                assert not reads(topic, on_kafka(topic, key_of(message), changed)), reads.__name__


@pytest.mark.parametrize("topic", sorted(set(TOPICS) & set(KINDS) - {RESCALER_STATE}))
def test_a_kind_of_record_lies_under_the_key_that_the_table_of_topics_says(topic: str) -> None:
    """That field of the record, where the topic keeps records for ever."""
    for message in goods(topic):
        expected = msgspec.to_builtins(message)[TOPICS[topic].key] if topic in KEPT else None
        assert record_key(message) == expected


def test_every_topic_of_documents_is_in_the_table_of_kinds() -> None:
    """A new topic cannot be forgotten: its records are among the hostile ones, and its readers are asked here."""
    assert set(KINDS) == set(TOPICS) - {"snapshots"}
    assert {role for topic in KEPT for role in readers(topic)} <= set(READERS)


def test_the_refusal_names_both() -> None:
    """In one line, cut."""
    message = MESSAGES["topology"]
    with pytest.raises(RecordRejected, match=r"key: the record is about 'sim/clicks', and its key is b'x{100}'"):
        decode_under(b"x" * 30_000, encode(message), type(message))
