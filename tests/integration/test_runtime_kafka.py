"""The Kafka edge that all roles share, against a real broker."""

import asyncio
import logging
import os
import threading

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from surescale.contracts import topics
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TOPICS, TopicNames
from surescale.runtime.backoff import Stopped
from surescale.runtime.kafka import LogReader, admin_client, committed_offsets, create_topics, producer, wait_for_topics
from surescale.runtime.ports import free_port
from surescale.runtime.topic_records import headers_of
from tests.conftest import KafkaForTests
from tests.support.any_headers import send_with_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
LOG = logging.getLogger("test")


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """Settings of a pipeline of its own, whose topics exist."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    wait_for_topics(settings, list(TOPICS), stop=threading.Event(), log=LOG)
    return settings


def send(client: Producer, pipeline: PipelineSettings, *values: bytes, key: str = "sim") -> None:
    """Produce values to ``decisions`` and wait until they are acknowledged."""
    for value in values:
        client.produce(TopicNames(pipeline.topic_prefix)(topics.DECISIONS), key=key, value=value)
    assert client.flush(30) == 0


def values(reader: LogReader) -> list[bytes | None]:
    """Return the values up to the end."""
    return [record.value() for record in reader.read_to_end()]


def threads() -> int:
    """Those of this process, with those of its clients' libraries."""
    return len(os.listdir("/proc/self/task"))


def test_a_reader_that_was_closed_keeps_no_client(pipeline: PipelineSettings) -> None:
    """Even while somebody still refers to it: a rescaler that loses its partition again and again must not grow."""
    before = threads()
    reader = LogReader(pipeline, [topics.DECISIONS])
    assert threads() > before
    reader.close()
    wait_until(lambda: threads() <= before, 10, "the clients' threads to end")


def test_creating_topics_twice_creates_nothing_the_second_time(pipeline: PipelineSettings) -> None:
    """The command may run at every start."""
    assert create_topics(pipeline) == []


def test_creating_topics_without_a_broker_fails_at_the_first_question() -> None:
    """The broker is unreachable; the request to create, which may take a minute, is never sent and so cannot time out."""
    with pytest.raises(KafkaException) as caught:
        create_topics(PipelineSettings(bootstrap=f"127.0.0.1:{free_port()}"))
    assert caught.value.args[0].code() == KafkaError._TRANSPORT


def test_offsets_are_those_of_the_beginning_and_behind_what_is_committed(pipeline: PipelineSettings) -> None:
    """By full name and partition; what lies in an open transaction is not committed yet."""
    client, open_ = producer(pipeline), producer(pipeline, **{"transactional.id": f"{pipeline.topic_prefix}open"})
    send(client, pipeline, b"1", b"2")
    name, admin = TopicNames(pipeline.topic_prefix)(topics.DECISIONS), admin_client(pipeline)
    places = [TopicPartition(name, partition) for partition in range(TOPICS[topics.DECISIONS].partitions)]
    ends = committed_offsets(admin, places, "end")
    assert sorted(ends.values()) == [0, 2]
    assert committed_offsets(admin, places, "beginning") == dict.fromkeys(ends, 0)
    open_.init_transactions(30)
    open_.begin_transaction()
    send(open_, pipeline, b"3")
    assert committed_offsets(admin, places, "end") == ends
    open_.abort_transaction(30)


def test_a_reader_sees_everything_acknowledged_before_it_looked(pipeline: PipelineSettings) -> None:
    """Each call returns what was committed since the last one, once."""
    client, reader = producer(pipeline), LogReader(pipeline, [topics.DECISIONS])
    assert values(reader) == []
    send(client, pipeline, b"1", b"2")
    assert values(reader) == [b"1", b"2"]
    assert values(reader) == []
    send(client, pipeline, b"3")
    assert values(reader) == [b"3"]


def test_a_reader_from_the_end_skips_what_was_there(pipeline: PipelineSettings) -> None:
    """Only records after the reader was made."""
    client = producer(pipeline)
    send(client, pipeline, b"old")
    reader = LogReader(pipeline, [topics.DECISIONS], last=0)
    send(client, pipeline, b"new")
    assert values(reader) == [b"new"]


def test_headers_whose_names_are_no_text_are_none_however_often_they_are_read(pipeline: PipelineSettings) -> None:
    """Of many records: Python's own call of a method looks for errors only at first, and the hole would crash the process."""
    many, topic = 2_000, TopicNames(pipeline.topic_prefix)(topics.CLOCK)
    good, odd = ((b"a", b"1"), (b"a", None)), ((b"a", b"1"), (b"\xff", b"2"))
    send_with_headers(pipeline.bootstrap, topic, 0, [(b"k", b"v", each) for each in [good, odd] * (many // 2)])
    reader = LogReader(pipeline, [topics.CLOCK])
    records = list(reader.read_to_end())
    reader.close()
    expected: list[list[tuple[str, bytes | None]]] = [[("a", b"1"), ("a", None)], []] * (many // 2)
    assert [headers_of(record) for record in records] == expected
    assert [headers_of(record) for record in records] == expected


def test_a_reader_passes_transaction_markers_and_aborted_records(pipeline: PipelineSettings) -> None:
    """The end behind a commit marker is reached; what was aborted is never seen; an open transaction holds nobody up."""
    client = producer(pipeline, **{"transactional.id": f"{pipeline.topic_prefix}x"})
    client.init_transactions(30)
    reader = LogReader(pipeline, [topics.DECISIONS])
    client.begin_transaction()
    send(client, pipeline, b"aborted")
    client.abort_transaction(30)
    client.begin_transaction()
    send(client, pipeline, b"committed")
    client.commit_transaction(30)
    wait_until(lambda: values(reader) == [b"committed"], 10.0, "the committed record")
    client.begin_transaction()
    send(client, pipeline, b"open")
    assert values(reader) == []
    client.commit_transaction(30)
    # The commit is durable when the call returns; its markers reach the partitions a moment later.
    wait_until(lambda: values(reader) == [b"open"], 10.0, "the committed record")


@pytest.mark.parametrize("key", ["sim", "sim/j_1351665", "prod-eu/clicks", "ü/ß"])
def test_one_key_is_one_partition_in_every_client(pipeline: PipelineSettings, key: str) -> None:
    """librdkafka as we set it up and aiokafka (which Faust produces with) hash alike."""
    topic = TopicNames(pipeline.topic_prefix)(topics.TASK_METRICS)

    async def by_aiokafka() -> int:
        client = AIOKafkaProducer(bootstrap_servers=pipeline.bootstrap)
        await client.start()
        try:
            return (await client.send_and_wait(topic, b"x", key=key.encode())).partition
        finally:
            await client.stop()

    client, partitions = producer(pipeline), []
    client.produce(topic, key=key, value=b"x", on_delivery=lambda _error, record: partitions.append(record.partition()))
    client.flush(30)
    assert partitions == [asyncio.run(by_aiokafka())]


def test_waiting_for_a_broker_that_is_away_says_so_and_stops_when_told(caplog: pytest.LogCaptureFixture) -> None:
    """One line names what is waited for; the stop event ends the wait."""
    stop = threading.Event()
    nowhere = PipelineSettings(bootstrap="127.0.0.1:1")
    timer = threading.Timer(4.0, stop.set)
    timer.start()
    with caplog.at_level(logging.WARNING), pytest.raises(Stopped):
        wait_for_topics(nowhere, [topics.DECISIONS], stop=stop, log=LOG)
    assert "waiting for Kafka at 127.0.0.1:1" in caplog.text


def test_topics_that_never_had_a_record_are_named_by_whoever_waits_for_them(
    pipeline: PipelineSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """A Kafka that came back empty is no silence; once there is a record there is no such line."""
    wait_for_topics(pipeline, [topics.DECISIONS], stop=threading.Event(), log=LOG)
    assert "decisions yet; so it is before the first minute" in caplog.text
    caplog.clear()
    send(producer(pipeline), pipeline, b"a")
    wait_for_topics(pipeline, [topics.DECISIONS], stop=threading.Event(), log=LOG)
    assert caplog.text == ""
