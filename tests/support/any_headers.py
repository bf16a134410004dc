"""Sends records whose headers have any bytes as names, which no producer of Kafka's libraries does."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as Batch

Headers = Sequence[tuple[bytes, bytes | None]]
BATCH_BYTES = 2**20


class _Name(str):
    """A name of whatever bytes: the library asks it for its encoding and nothing else."""

    __slots__ = ("raw",)
    raw: bytes

    def encode(self, *_: object) -> bytes:
        return self.raw


def _name(raw: bytes) -> _Name:
    made = _Name()
    made.raw = raw
    return made


def send_with_headers(
    bootstrap: str, topic: str, partition: int, records: Iterable[tuple[bytes | None, bytes | None, Headers]]
) -> None:
    """Write records (key, value, headers), each in a batch of its own, and return once the broker has all of them."""
    asyncio.run(_send(bootstrap, topic, partition, records))


async def _send(
    bootstrap: str, topic: str, partition: int, records: Iterable[tuple[bytes | None, bytes | None, Headers]]
) -> None:
    client = AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=8 * BATCH_BYTES, max_batch_size=8 * BATCH_BYTES)
    await client.start()
    try:
        for key, value, headers in records:
            batch = cast(Any, client.create_batch())
            batch._builder = Batch(  # the faster one insists on text
                2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=8 * BATCH_BYTES
            )
            named = [(_name(name), content) for name, content in headers]
            assert batch.append(key=key, value=value, timestamp=None, headers=named) is not None
            await (await client.send_batch(batch, topic, partition=partition))
    finally:
        await client.stop()
