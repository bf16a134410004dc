"""A tournament on a real broker: its winner is a record that a running agent serves by, leaves, and that people take back."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.archive import load_graph
from benchmarks.lived_days import Life, life_of
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import ClockSegment
from surescale.contracts.releases import Release
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import CLOCK, DECISIONS, JOB_TOPOLOGY, POLICY_RELEASES, SNAPSHOTS, TopicNames
from surescale.contracts.windows import FIGURE, Window, encode_window
from surescale.policies.registry import load_policy
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.runtime.topic_records import parsed, send
from surescale.simulation.evaluation.judge import EvaluationRequest, setting_of
from surescale.simulation.load.workload import load_workload
from tests.conftest import KafkaForTests
from tests.support.command_line import SURESCALE, started
from tests.support.topic_records import records
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

NAME = "j_756953"
JOB = f"sim/{NAME}"
SERVES = "threshold"


def lived(hours: int) -> Life:
    """Return a job after some hours in a calm world under a rule that does badly."""
    asked = EvaluationRequest(load_parallelism=5.0, runs=1, calibrate="0:10080")
    life = life_of(setting_of(load_graph(NAME), load_workload("clarknet"), asked).trial, 4 * 24 * 60)
    life.serve(load_policy(SERVES), hours)
    return life


class Pipeline:
    """Topics with the windows of some days of one job, and a clock that stands at the end of them."""

    def __init__(self, settings: PipelineSettings, life: Life) -> None:
        self.settings, self.newest = settings, life.windows[-1]
        self.end_ms = self.newest.window_end_ms
        create_topics(settings)
        send(
            settings,
            CLOCK,
            "main",
            ClockSegment(pipeline="main", sequence=0, e0_ms=self.end_ms, w0_ms=0, speed=1.0, until_ms=self.end_ms),
        )
        send(settings, JOB_TOPOLOGY, JOB, self.newest.topology)
        self._put(*life.windows)
        self._reader = LogReader(settings, [DECISIONS])
        self._decisions: dict[int, Decision] = {}

    def surescale(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on this pipeline, as a shell does."""
        given = [*words, "--bootstrap", self.settings.bootstrap, "--prefix", self.settings.topic_prefix]
        return subprocess.run(
            [*SURESCALE, *given],
            env=os.environ | to_environment(self.settings),
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    def releases(self) -> list[Release]:
        """Return all releases in the order in which they were written."""
        return records(self.settings, POLICY_RELEASES, Release)

    def decide(self, minutes: int, work: float = 1.0) -> Decision:
        """Send a window that ends so many minutes later, in which records took so many times the work; return the decision."""
        figures = self.newest.figures.copy()
        figures[..., FIGURE["busy_ms"]] *= work
        old = self.newest
        end_ms = self.end_ms + minutes * MINUTE_MS
        self._put(Window(JOB, end_ms, figures, old.topology, old.hourly_load, hourly_peak=old.hourly_peak))
        return wait_until(lambda: self._arrived(end_ms), 60, f"the decision {minutes} minutes later")

    def _put(self, *windows: Window) -> None:
        client = producer(self.settings)
        for window in windows:
            client.produce(TopicNames(self.settings.topic_prefix)(SNAPSHOTS), encode_window(window), key=JOB.encode())
        assert client.flush(30) == 0

    def _arrived(self, end_ms: int) -> Decision | None:
        for decision in parsed(self._reader.read_to_end(), Decision):
            self._decisions[decision.span_end_ms] = decision
        return self._decisions.get(end_ms)

    def close(self) -> None:
        """Leave the broker."""
        self._reader.close()


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on which the agents' own policy is a poor rule, and an agent that runs."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), policy=SERVES)
    made = Pipeline(settings, lived(76))
    agent = started(settings, tmp_path / "agent.log", "run", "agent")
    yield made
    agent.kill()
    agent.wait()
    made.close()


@pytest.mark.nightly("takes six minutes; the verdict, the release and the departure have tests of their own")
def test_a_winner_serves_leaves_when_reality_differs_and_yields_to_people(pipeline: Pipeline) -> None:
    """From the topics to a record, from the record to decisions, out of them where work doubles, and never against a person."""
    tried = pipeline.surescale("policy", "tournament", "--job", JOB, "--draws", "2", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert f"{SERVES} *" in tried.stdout
    assert pipeline.releases() == []

    held = pipeline.surescale("policy", "tournament", "--job", JOB, "--draws", "2", "--by", "ana")
    assert held.returncode == 0, held.stderr
    (release,) = pipeline.releases()
    assert (release.job, release.set_by, release.valid_from_ms) == (JOB, "tournament (set by ana)", pipeline.end_ms + MINUTE_MS)
    assert release.is_of_tournament
    assert release.policy in held.stdout

    served = pipeline.decide(10)
    assert (served.policy.asked, served.policy.release.tuned) == (release.policy, release.tuned)  # type: ignore[union-attr]
    left = pipeline.decide(40, work=2.0)
    assert left.policy.name == SERVES
    assert "the twin expected" in str(left.policy.left)
    assert pipeline.decide(50).policy.name != SERVES  # once the window is as predicted again

    taken_back = pipeline.surescale("policy", "rollback", "--job", JOB, "--by", "ben")
    assert taken_back.returncode == 0, taken_back.stderr
    assert pipeline.decide(60).policy.name == SERVES
    refused = pipeline.surescale("policy", "tournament", "--job", JOB, "--draws", "2")
    assert refused.returncode == 1
    assert "ben took back what a tournament had released" in refused.stderr


def test_a_young_job_or_a_stranger_is_refused_in_one_line(kafka: KafkaForTests) -> None:
    """Nothing is written for them."""
    pipeline = Pipeline(PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), policy=SERVES), lived(20))
    try:
        young = pipeline.surescale("policy", "tournament", "--job", JOB)
        assert young.returncode == 1
        assert "a tournament needs 3" in young.stderr.splitlines()[-1]
        stranger = pipeline.surescale("policy", "tournament", "--job", "sim/nobody")
        assert stranger.returncode == 1
        assert "nobody" in stranger.stderr.splitlines()[-1]
        assert pipeline.surescale("policy", "tournament", "--all-jobs").returncode == 0
        assert pipeline.releases() == []
    finally:
        pipeline.close()
