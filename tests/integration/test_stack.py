"""The local stack itself: a real broker and a real Redis, used, killed, and brought back."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from surescale.contracts.topics import LIBRDKAFKA_PRODUCER, WINDOW_BYTES_MAX
from surescale.runtime.ports import accepts_connections, is_free
from surescale.services.local_stack.errors import ServerError
from surescale.services.local_stack.servers import LocalBroker, LocalRedis
from tests.conftest import KafkaForTests
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
OWNER = """
import sys
from pathlib import Path
from surescale.services.local_stack.servers import LocalBroker
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.local_stack.supervisor import Role, Supervisor

with Supervisor() as supervisor:
    for server in (LocalBroker(supervisor.folder / "kafka"), LocalRedis(supervisor.folder / "redis")):
        server.prepare()
        supervisor.start(Role(server.name, server.command(), ready=server.answers))
        print(server.port, flush=True)
    print(supervisor.folder, flush=True)
    supervisor.wait(lambda: False)
"""


def create_topic(bootstrap: str, topic: str) -> None:
    """Make a topic of one partition."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(topic, 1)])[topic].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """Write one record and wait for its acknowledgement."""
    producer = Producer({**LIBRDKAFKA_PRODUCER, "bootstrap.servers": bootstrap})
    problems: list[object] = []
    producer.produce(topic, value, on_delivery=lambda problem, _message: problems.append(problem))
    assert producer.flush(60) == 0
    assert problems == [None]


def consume_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Read this many records from the start."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def enough() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) >= count

    try:
        wait_until(enough, 60, f"{count} records of {topic}")
    finally:
        consumer.close()
    return found


def test_a_record_goes_through_the_broker(kafka: KafkaForTests) -> None:
    """What was produced is consumed, through a consumer group."""
    topic = kafka.topic_prefix() + "round"
    create_topic(kafka.bootstrap, topic)
    produce(kafka.bootstrap, topic, b"hello")
    assert consume_all(kafka.bootstrap, topic, 1) == [b"hello"]


def test_the_largest_record_goes_through_the_broker(kafka: KafkaForTests) -> None:
    """The size limits of the pipeline hold in the broker."""
    topic = kafka.topic_prefix() + "large"
    create_topic(kafka.bootstrap, topic)
    produce(kafka.bootstrap, topic, bytes(WINDOW_BYTES_MAX))
    assert len(consume_all(kafka.bootstrap, topic, 1)[0]) == WINDOW_BYTES_MAX


def test_topics_are_not_made_by_accident(kafka: KafkaForTests) -> None:
    """A misspelt topic is an error, not a new topic."""
    topic = kafka.topic_prefix() + "absent"
    asked = Producer({"bootstrap.servers": kafka.bootstrap}).list_topics(topic, timeout=10).topics[topic]
    assert asked.error is not None
    assert asked.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert topic not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics


def test_a_transaction_commits(kafka: KafkaForTests) -> None:
    """One broker is enough for transactions, which the rescaler needs."""
    topic = kafka.topic_prefix() + "transaction"
    create_topic(kafka.bootstrap, topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-id"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"once")
    producer.commit_transaction(60)
    assert consume_all(kafka.bootstrap, topic, 1) == [b"once"]


def test_a_value_goes_through_redis(redis_url: str) -> None:
    """What was set is read back."""
    with redis.Redis.from_url(redis_url) as client:
        client.set("stack:greeting", "hello")
        assert client.get("stack:greeting") == b"hello"


def test_a_killed_redis_comes_back_on_its_port(tmp_path: Path) -> None:
    """Clients find it where it was, and it is empty: a view keeps nothing."""
    server = LocalRedis(tmp_path)
    try:
        server.start()
        server.wait_ready(30)
        with redis.Redis.from_url(server.url) as client:
            client.set("key", "value")
        server.kill()
        assert not server.answers()
        server.start()
        server.wait_ready(30)
        with redis.Redis.from_url(server.url) as client:
            assert client.get("key") is None
    finally:
        server.stop()
    assert is_free(server.port)


def test_a_killed_broker_comes_back_with_its_records(tmp_path: Path) -> None:
    """kill -9 loses no acknowledged record, and the address stays."""
    broker = LocalBroker(tmp_path)
    try:
        broker.start()
        broker.wait_ready()
        create_topic(broker.bootstrap, "kept")
        produce(broker.bootstrap, "kept", b"before")
        broker.kill()
        assert not accepts_connections(broker.port)
        broker.start()
        broker.wait_ready()
        produce(broker.bootstrap, "kept", b"after")
        assert consume_all(broker.bootstrap, "kept", 2) == [b"before", b"after"]
    finally:
        broker.stop()
    assert is_free(broker.port)


def test_a_broker_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    """The port is named before a virtual machine is started for nothing."""
    server = LocalRedis(tmp_path / "redis")
    server.start()
    server.wait_ready(30)
    try:
        with pytest.raises(ServerError, match=f"kafka cannot start: port {server.port} of 127.0.0.1 is taken"):
            LocalBroker(tmp_path / "kafka", ports=(server.port, server.port + 1)).start()
    finally:
        server.stop()


def test_a_server_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    """A data folder of another cluster is refused by Kafka, and Kafka's own words are shown."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=somebody-elses\nnode.id=7\n")
    broker = LocalBroker(tmp_path)
    broker.start()
    with pytest.raises(ServerError, match=r"kafka ended with exit code 1; the last lines of its log:\n(.*\n)*.*node.id"):
        broker.wait_ready(60)


def test_virtual_machine_and_redis_die_with_a_killed_supervisor() -> None:
    """kill -9 of the owner frees the ports and removes the folder."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    kafka_port, redis_port = (int(owner.stdout.readline()) for _ in range(2))
    folder = Path(owner.stdout.readline().strip())
    assert accepts_connections(kafka_port)
    owner.kill()
    owner.communicate()
    wait_until(lambda: is_free(kafka_port) and is_free(redis_port), 20, "the ports to be free")
    wait_until(lambda: not folder.exists(), 20, "the temporary folder to be removed")
