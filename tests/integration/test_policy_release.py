"""Releases and settings reach a running agent: from a stated event minute on, without a restart."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from contracts.clock import MINUTE_MS
from contracts.decisions import Decision
from contracts.job_settings import JobSettings
from contracts.messages import ClockSegment, ClusterTopology, JobTopology, PolicyRelease, TaskSpec
from contracts.settings import RoadSettings, to_environment
from contracts.topics import (
    CLOCK,
    CLUSTER_TOPOLOGY,
    DECISIONS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    POLICY_RELEASES,
    SNAPSHOTS,
    TopicNames,
)
from contracts.windows import encode_window
from policies.registry import SHIPPED
from policies.released_policy import card_hash
from runtime.kafka import LogReader, create_topics, producer
from runtime.whole_topics import parsed, read_whole, send
from services.tools.policy_releases.command import command
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, window_at
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class Road:
    """A road of its own: topics, a policy folder, a clock that stands at minute 599."""

    def __init__(self, settings: RoadSettings) -> None:
        self.settings = settings
        create_topics(settings)
        segment = ClockSegment(road="main", sequence=0, e0_ms=599 * MINUTE_MS, w0_ms=0, speed=1.0, until_ms=599 * MINUTE_MS)
        send(settings, CLOCK, "main", segment)
        self._reader = LogReader(settings, [DECISIONS])
        self._decisions: dict[int, Decision] = {}

    def policy(self, *arguments: str) -> Result:
        """Run `surescale policy` on this road, with its folder."""
        return self.command(*arguments, "--policy-folder", self.settings.policy_folder)

    def command(self, *arguments: str) -> Result:
        """Run `surescale policy` on this road."""
        options = ["--bootstrap", self.settings.bootstrap, "--prefix", self.settings.topic_prefix]
        return CliRunner().invoke(command, [*arguments, *options])

    def decide(self, minute: int) -> Decision:
        """Send the window of a span's end and return the agent's decision on it."""
        client = producer(self.settings)
        client.produce(TopicNames(self.settings.topic_prefix)(SNAPSHOTS), encode_window(window_at(minute)), key=JOB.encode())
        assert client.flush(20) == 0
        return wait_until(lambda: self._arrived(minute), 60, f"the decision on minute {minute}")

    def releases(self) -> list[PolicyRelease]:
        """Return all records of releases."""
        return parsed(read_whole(self.settings, [POLICY_RELEASES])[POLICY_RELEASES], PolicyRelease)

    def _arrived(self, minute: int) -> Decision | None:
        for decision in parsed(self._reader.read_to_end(), Decision):
            self._decisions[decision.span_end_ms // MINUTE_MS] = decision
        return self._decisions.get(minute)

    def close(self) -> None:
        """Leave the broker."""
        self._reader.close()


@pytest.fixture
def road(kafka: KafkaForTests, tmp_path: Path) -> Iterator[Road]:
    """A road whose policy folder holds the shipped package."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "policies" / "sure")
    made = Road(
        RoadSettings(
            bootstrap=kafka.bootstrap,
            topic_prefix=kafka.topic_prefix(),
            policy="target-utilisation",
            policy_folder=str(tmp_path / "policies"),
        )
    )
    yield made
    made.close()


@pytest.fixture
def start_agent(road: Road, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Start the agent as a process; it is stopped afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with (tmp_path / "agent.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", "from services.cli import main; main()", "agent"],
                    env=os.environ | to_environment(road.settings),
                    stdout=log,
                    stderr=log,
                )
            )

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_release_takes_effect_at_its_minute_in_a_running_agent(road: Road, start_agent: Callable[[], None]) -> None:
    """Decisions before and after carry their hashes; rollback, a job's own policy and a foreign hash do as they say."""
    sha256 = card_hash(Path(road.settings.policy_folder) / "sure")
    start_agent()
    assert road.decide(600).policy.name == "target-utilisation"
    assert road.policy("release", "target-utilisation", "--from", "now").exit_code == 0
    assert road.policy("release", "sure", "--from", str(615 * MINUTE_MS), "--by", "ann").exit_code == 0
    assert (road.decide(610).policy.name, road.decide(620).policy.sha256) == ("target-utilisation", sha256)
    send(road.settings, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1, policy="hold"))
    assert (road.decide(630).policy.name, road.decide(640).settings_version) == ("hold", 1)
    send(road.settings, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=2))
    assert road.decide(650).policy.sha256 == sha256
    assert road.policy("rollback").exit_code == 0
    assert road.decide(660).policy.name == "target-utilisation"
    foreign = PolicyRelease(cluster="sim", policy="sure", sha256="f" * 64, valid_from_ms=661 * MINUTE_MS)
    send(road.settings, POLICY_RELEASES, "sim", foreign)
    fallen_back = road.decide(670).policy
    assert (fallen_back.name, fallen_back.asked) == ("target-utilisation", "sure")
    assert "ffffffffffff" in (fallen_back.fallback_reason or "")


def test_a_release_is_a_record_that_list_shows(road: Road) -> None:
    """Who, what, hash and minute are kept, and `policy list` tells which release is in force or to come."""
    assert road.policy("release", "sure", "--from", "1970-01-01T10:30", "--by", "ann").exit_code == 0
    (released,) = road.releases()
    assert (released.policy, released.valid_from_ms, released.set_by) == ("sure", 630 * MINUTE_MS, "ann")
    assert released.sha256 == card_hash(Path(road.settings.policy_folder) / "sure")
    told = road.policy("list").output
    assert "1970-01-01 10:30" in told
    assert "to come" in told
    assert "no release in force" in told


def test_a_cluster_that_no_monitor_has_named_is_refused(road: Road) -> None:
    """A slip would otherwise be kept forever and change nothing. Before the first monitor there is nothing to compare with."""
    for topic, key, named in (
        (CLUSTER_TOPOLOGY, "sim", ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=())),
        (JOB_TOPOLOGY, "shop/orders", JobTopology(job="shop/orders", version=1, at_ms=0, tasks=(TaskSpec(task="a"),))),
    ):
        send(road.settings, topic, key, named)
    refused = road.policy("release", "sure", "--cluster", "shopp")
    assert str(refused.exception) == "--cluster: there is no cluster 'shopp'; known: shop"
    assert road.releases() == []
    assert [road.policy("release", "sure", "--cluster", cluster).exit_code for cluster in ("sim", "shop")] == [0, 0]


def test_a_policy_that_fails_its_check_is_not_released(road: Road) -> None:
    """A damaged package is one clear line, and nothing is published."""
    graph = Path(road.settings.policy_folder) / "sure" / "sampler.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    for name in ("sure", "nonesuch"):
        result = road.policy("release", name, "--from", "now")
        assert str(result.exception).startswith(f"policy {name}: ")
        assert "\n" not in str(result.exception)
    assert road.releases() == []
