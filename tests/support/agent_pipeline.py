"""A pipeline with agents as its only role: topics, processes, their decisions, and windows to decide on."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Message

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import DECISIONS, TopicNames
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import decode
from surescale.runtime.kafka import LogReader, producer
from tests.support.builders import JOB, row, topology
from tests.support.command_line import SURESCALE
from tests.support.waiting import wait_until


class AgentPipeline:
    """Topics of one test, and agents that serve them."""

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        self._folder = folder
        self._agents: list[subprocess.Popen[bytes]] = []
        self.use(settings)

    def use(self, settings: PipelineSettings) -> None:
        """Go on with these settings."""
        self.settings = settings
        self._names = TopicNames(settings.topic_prefix)
        self._producer = producer(settings)

    def send(self, topic: str, key: str, value: bytes | None) -> None:
        """Write one record and wait until it is acknowledged."""
        self._producer.produce(self._names(topic), value, key=key.encode())
        assert self._producer.flush(20) == 0

    def start(self, command: Sequence[str] = SURESCALE, **environment: str) -> subprocess.Popen[bytes]:
        """Start an agent; its log goes to the test's folder."""
        log = (self._folder / f"agent-{len(self._agents)}.log").open("wb")
        env = os.environ | to_environment(self.settings) | environment
        process = subprocess.Popen([*command, "run", "agent"], env=env, stderr=log, stdout=log)
        self._agents.append(process)
        return process

    def log(self) -> str:
        """Return the log of the newest agent."""
        return (self._folder / f"agent-{len(self._agents) - 1}.log").read_text()

    def stop(self) -> None:
        """End what still runs."""
        for process in self._agents:
            process.kill()
            process.wait()

    def records(self, topic: str, enough: Callable[[list[Message]], bool]) -> list[Message]:
        """Read a topic from its beginning until there is enough."""
        reader = LogReader(self.settings, [topic])
        found: list[Message] = []

        def arrived() -> bool:
            found.extend(reader.read_to_end())
            return enough(found)

        try:
            wait_until(arrived, 60, f"records on {topic}")
        finally:
            reader.close()
        return found

    def decisions(self, count: int) -> list[Decision]:
        """Wait for this many distinct decisions and return all that arrived."""
        found = self.records(DECISIONS, lambda records: len({decision_of(record).decision_id for record in records}) >= count)
        return [decision_of(record) for record in found]


def decision_of(record: Message) -> Decision:
    """Parse a record of the topic ``decisions``."""
    return decode(record.value(), Decision)


def windows(first_minute: int, last_minute: int, *, load: float = 12_000) -> list[bytes]:
    """Return the windows of these minutes; task map, on two subtasks, can do 6000 records a minute."""
    history = WindowHistory(JOB, 60)
    done = min(load, 6_000)
    rows = {
        "source": row(records_in=load, records_out=load, busy_ms=100),
        "map": row(records_in=done, records_out=done, busy_ms=20 * done, parallelism=2, queued_records_last=load - done),
        "sink": row(records_in=6_000, busy_ms=100),
    }
    closed = [history.close(end * MINUTE_MS, rows, topology()) for end in range(first_minute - 20, last_minute + 1)]
    return [encode_window(window) for window in closed[20:]]
