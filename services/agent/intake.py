"""Watches that windows which wait are taken: Kafka's client, or Faust, may stop reading while all else in the agent turns."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn, Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from contracts.settings import PipelineSettings
from runtime.kafka import METADATA_TIMEOUT_S, admin_client, committed_offsets
from runtime.watchdog import Watchdog
from services.agent.counts import AgentCounts

LOOKS = 8
"""In the time after which a loop hangs."""
Place = tuple[str, int]
"""Topic (full name) and partition."""


class Consumer(Protocol):
    """How far the agent's consumer has come."""

    def positions(self) -> Mapping[Place, int]:
        """Return the offset of the next record to be read of each assigned partition, as far as it is known."""
        ...

    def buffered(self) -> int:
        """Return how many records were read and not taken by whoever answers them."""
        ...


Ends = Callable[[Collection[Place]], Mapping[Place, int]]
"""Returns the offset behind the last committed record of each partition; raises KafkaException while Kafka does not answer."""


class BrokerEnds:
    """Asks the broker with a client of its own, which does not hang with the agent's."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None

    def __call__(self, places: Collection[Place]) -> Mapping[Place, int]:
        """Return the offset behind the last committed record of each partition.

        Raises:
            KafkaException: the broker does not answer.
        """
        admin, self._admin = self._admin or admin_client(self._settings), None
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
        found = committed_offsets(admin, [TopicPartition(*place) for place in places], "end")
        self._admin = admin  # one that failed may not know the leaders any more
        return found


class Intake:
    """A loop that is silent as long as records wait and none is taken, no window is in hand, and Kafka answers."""

    def __init__(self, consumer: Consumer, counts: AgentCounts, ends: Ends) -> None:
        self._consumer, self._counts, self._ends = consumer, counts, ends
        self._windows = -1

    async def watch(self, watchdog: Watchdog, hung_after_s: float) -> NoReturn:
        """Look until cancelled."""
        every_s = hung_after_s / LOOKS
        # It turns seldom, so it gets more time: what stops all loops of the agent is told by another one.
        with watchdog.apart("the intake of windows", more_s=2 * every_s) as loop:
            while True:
                if await self.is_well():
                    loop.beat()
                await asyncio.sleep(every_s)

    async def is_well(self) -> bool:
        """Say whether windows were taken since the last call, or none had to be."""
        before, self._windows = self._windows, self._counts.windows
        if self._windows != before or self._counts.in_hand or not self._counts.partitions:
            return True
        if self._consumer.buffered():
            return False
        positions = self._consumer.positions()
        if not positions:
            return True  # it is about to learn where to begin, from a broker that may be away
        with contextlib.suppress(KafkaException, TimeoutError):
            ends = await asyncio.to_thread(self._ends, positions)
            return all(ends[place] <= position for place, position in positions.items())
        return True
