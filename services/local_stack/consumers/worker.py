"""One member of a consumer group: reads a topic, works on each record, writes it to another topic, and commits.

    python -m surescale.services.local_stack.consumers.worker --bootstrap HOST:PORT --group G --from TOPIC --to TOPIC --index 0

A plain client, as many are: at-least-once, with the offset committed after the output is acknowledged. When it is asked to end
(SIGTERM) or gives a partition away, it finishes the records in hand first and commits them, so an orderly end repeats nothing.
It shows at http://127.0.0.1:PORT how long and on how many records it has worked. It ends by itself, in order, when nobody holds
the lock on the file named by --while any more: the kernel lets go of it even if the owner is killed outright. If Kafka has gone
with the owner, it ends all the same: a synchronous commit waits for a broker for ever.
"""

import argparse
import fcntl
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from prometheus_client import CollectorRegistry, Counter, start_http_server

from surescale.runtime.threads import background

BATCH_RECORDS = 20  # the client is polled, and can give partitions away, between two batches
COMMIT_S = 0.5
FLUSH_S = 30.0
GIVE_AWAY_S = 3.0  # well within the session's timeout
GIVE_AWAY_POLL_S = 0.05
DESERTED_POLL_S = 0.5
END_S = 15.0
"""For an orderly end after the owner's."""
REPEATED = "the last records are repeated by another member:"
# A cooperative member keeps its partitions over a rebalance, so what it could not commit then it commits later. If they are lost
# indeed, the client says so (`on_lost`).
_LATER = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}
)


class Worker:
    """One consumer with its producer."""

    def __init__(self, options: argparse.Namespace, busy: Counter, records: Counter) -> None:
        self._options, self._busy, self._records = options, busy, records
        client = {"bootstrap.servers": options.bootstrap, "client.id": f"{options.group}-{options.index}-{options.port}"}
        self._consumer = Consumer(
            {
                **client,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,  # a rebalance is noticed with a heartbeat
                "fetch.wait.max.ms": 100,
                "topic.metadata.refresh.interval.ms": 10_000,
            }
        )
        self._producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
        self._done: dict[tuple[str, int], int] = {}
        self._problem: object = None
        self._is_ending = False
        self._committed_s = 0.0

    def run(self) -> None:
        """Work until asked to end.

        Raises:
            KafkaException: Kafka refuses.
        """
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        topic = getattr(self._options, "from")
        self._consumer.subscribe([topic], on_revoke=self._give_away, on_lost=self._lose)
        try:
            while not self._is_ending:
                for record in self._consumer.consume(BATCH_RECORDS, 0.1):
                    if record.error() is not None:
                        raise KafkaException(record.error())
                    self._work_on(record)
                self._producer.poll(0)
                if time.monotonic() - self._committed_s > COMMIT_S:
                    self._commit()
            self._commit()
        finally:
            self._consumer.close()

    def end_with(self, owner: Path) -> None:
        """Wait until nobody holds the file, then end, in order if that takes no longer than `END_S`."""
        while is_held(owner):
            time.sleep(DESERTED_POLL_S)
        self._end()
        time.sleep(END_S)
        os._exit(1)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def _work_on(self, record: Message) -> None:
        began_s = time.perf_counter()
        value, at, partition = record.value() or b"", record.offset(), record.partition()
        assert at is not None
        assert partition is not None
        # Work of the processor, then a call to a service that answers after a while.
        hashlib.pbkdf2_hmac("sha256", value, b"surescale", self._options.rounds)
        time.sleep(self._options.wait_ms / 1_000)
        # The time of the first record goes along, so that the end of the chain shows how late it is.
        since_ms = record.timestamp()[1]
        self._producer.produce(self._options.to, value, key=record.key(), timestamp=since_ms, on_delivery=self._delivered)
        self._done[str(record.topic()), partition] = at + 1
        self._busy.inc(time.perf_counter() - began_s)
        self._records.inc()

    def _delivered(self, error: object, _record: object) -> None:
        self._problem = self._problem or error

    def _commit(self) -> bool:
        """Commit what has come out; return False if the group rebalances, to be called again.

        Nothing is committed if Kafka did not take an output: a later member reads it again.
        """
        self._committed_s = time.monotonic()
        if not self._done:
            return True
        if self._producer.flush(FLUSH_S) or self._problem is not None:
            raise KafkaException(self._problem)
        offsets = [TopicPartition(topic, partition, at) for (topic, partition), at in self._done.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in _LATER:
                raise
            return False
        self._done.clear()
        return True

    def _give_away(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        until_s = time.monotonic() + GIVE_AWAY_S
        while not self._commit() and time.monotonic() < until_s:
            time.sleep(GIVE_AWAY_POLL_S)  # until the group's leader has dealt out the partitions
        self._lose(_consumer, partitions)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Forget what may no longer be committed, and say so; the next reader works on it again."""
        for each in partitions:
            if self._done.pop((each.topic, each.partition), None) is not None:
                print(f"{REPEATED} {each.topic}/{each.partition}: the partition went before the commit", flush=True)


def main() -> None:
    """Run one worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bootstrap", "group", "from", "to"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=500, help="of PBKDF2 for each record")
    parser.add_argument("--wait-ms", type=float, default=0.0, help="for each record, as for the answer of a service")
    parser.add_argument("--while", dest="held", default="", help="a file; the worker ends when nobody holds its lock any more")
    options = parser.parse_args()
    registry = CollectorRegistry()
    busy = Counter("worker_busy_seconds", "Time spent on records", registry=registry)
    records = Counter("worker_records", "Records worked on", registry=registry)
    start_http_server(options.port, addr="127.0.0.1", registry=registry)
    worker = Worker(options, busy, records)
    if options.held:
        background(lambda: worker.end_with(Path(options.held)), "owner").start()
    worker.run()


def hold(path: Path) -> IO[str]:
    """Make the file and hold its lock, until what is returned is closed or this process ends, however it ends.

    Raises:
        OSError: the file cannot be made, or somebody else holds it.
    """
    file = path.open("a")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def is_held(path: Path) -> bool:
    """Return whether somebody holds the lock; nobody does if there is no such file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


if __name__ == "__main__":
    main()
