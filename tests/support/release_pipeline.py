"""A pipeline on which policies are released: topics, a policy folder, `surescale policy`, an agent, and what it decides.

A test file takes the fixtures it needs by name: ``pipeline = release_pipeline.pipeline``.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import ClockSegment
from surescale.contracts.releases import Release
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, DECISIONS, POLICY_RELEASES, SNAPSHOTS, TopicNames
from surescale.contracts.windows import encode_window
from surescale.policies.registry import SHIPPED
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.runtime.topic_records import parsed, send
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, window_at
from tests.support.command_line import policy_command as command
from tests.support.command_line import started
from tests.support.topic_records import records
from tests.support.waiting import wait_until


class ReleasePipeline:
    """A pipeline of its own: topics, a policy folder, a clock that stands at minute 599."""

    def __init__(self, settings: PipelineSettings) -> None:
        self.settings = settings
        create_topics(settings)
        segment = ClockSegment(pipeline="main", sequence=0, e0_ms=599 * MINUTE_MS, w0_ms=0, speed=1.0, until_ms=599 * MINUTE_MS)
        send(settings, CLOCK, "main", segment)
        self._reader = LogReader(settings, [DECISIONS])
        self._decisions: dict[int, Decision] = {}

    def policy(self, *arguments: str) -> Result:
        """Run `surescale policy` on this pipeline, with its folder."""
        return self.command(*arguments, "--policy-folder", self.settings.policy_folder)

    def command(self, *arguments: str) -> Result:
        """Run `surescale policy` on this pipeline."""
        options = ["--bootstrap", self.settings.bootstrap, "--prefix", self.settings.topic_prefix]
        return CliRunner().invoke(command, [*arguments, *options])

    def decide(self, minute: int) -> Decision:
        """Send the window of a span's end and return the agent's decision on it."""
        client = producer(self.settings)
        client.produce(TopicNames(self.settings.topic_prefix)(SNAPSHOTS), encode_window(window_at(minute)), key=JOB.encode())
        assert client.flush(20) == 0
        return wait_until(lambda: self._arrived(minute), 60, f"the decision on minute {minute}")

    def releases(self) -> list[Release]:
        """Return all records of releases."""
        return records(self.settings, POLICY_RELEASES, Release)

    def serving(self) -> list[Release]:
        """Return those of policies that should serve, in the shadow or withdrawn ones left out."""
        return [each for each in self.releases() if each.role == "serve" and not each.withdrawn]

    def _arrived(self, minute: int) -> Decision | None:
        for decision in parsed(self._reader.read_to_end(), Decision):
            self._decisions[decision.span_end_ms // MINUTE_MS] = decision
        return self._decisions.get(minute)

    def close(self) -> None:
        """Leave the broker."""
        self._reader.close()


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Iterator[ReleasePipeline]:
    """A pipeline whose policy folder holds the shipped package."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "policies" / "sure")
    made = ReleasePipeline(
        PipelineSettings(
            bootstrap=kafka.bootstrap,
            topic_prefix=kafka.topic_prefix(),
            policy="target-utilisation",
            policy_folder=str(tmp_path / "policies"),
        )
    )
    yield made
    made.close()


@pytest.fixture
def start_agent(pipeline: ReleasePipeline, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Start the agent as a process; it is stopped afterwards."""
    running = []
    yield lambda: running.append(started(pipeline.settings, tmp_path / "agent.log", "run", "agent"))
    for process in running:
        process.kill()
        process.wait()
