"""Recording and replaying on a real broker, by the commands themselves: a recorded pipeline replays to the same decisions."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, JOB_SETTINGS, JOB_TOPOLOGY, SNAPSHOTS, TASK_METRICS
from surescale.contracts.windows import Window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, sample, topology
from tests.support.record_columns import records_of
from tests.support.waiting import PATIENT_S
from tests.unit.services.tools.recording.windows import FIRST_MINUTE, decided, windows

pytestmark = pytest.mark.integration

SURESCALE = [sys.executable, "-m", "surescale.services.cli"]
MINUTE_MS = 60_000
Metric = TaskSample | MinuteMarker
OTHER = "sim/other"
LIMITS = JobSettings(job=JOB, version=1, parallelism_max=6, policy="target-utilisation")
TIGHT = JobSettings(job=JOB, version=1, parallelism_max=2)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A pipeline with an hour on its topics, and where recordings go."""

    settings: PipelineSettings
    folder: Path

    def surescale(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command against the pipeline."""
        place = ["--bootstrap", self.settings.bootstrap, "--prefix", self.settings.topic_prefix]
        command = [*SURESCALE, *arguments, *place]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SURESCALE_")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)

    def record(self, name: str, *arguments: str) -> Path:
        """Record to a new file."""
        path = self.folder / name
        done = self.surescale("recording", "create", "--out", str(path), *arguments)
        assert done.returncode == 0, done.stderr
        return path

    def replay(self, origin: str, *arguments: str) -> dict[str, Any]:
        """Replay and return the document."""
        done = self.surescale("recording", "replay", origin, "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Recorded:
    """A pipeline of its own with all topics."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    return Recorded(settings, tmp_path)


@pytest.fixture
def hour(pipeline: Recorded) -> Recorded:
    """Settings, topology, an hour of windows of one job with the rule's decisions on them, and one window of another job."""
    made = windows({minute: 60_000.0 * (1 + minute % 5) for minute in range(FIRST_MINUTE - 19, FIRST_MINUTE + 41)})
    client = producer(pipeline.settings)
    _send(client, pipeline, JOB_SETTINGS, JOB, encode(LIMITS))
    _send(client, pipeline, JOB_TOPOLOGY, JOB, encode(topology()))
    assert client.flush(20) == 0
    for window in made:
        _send(client, pipeline, SNAPSHOTS, JOB, encode_window(window))
    _send(client, pipeline, SNAPSHOTS, OTHER, b"of another job")
    for decision in decided(made, "target-utilisation", seed=5, settings=LIMITS):
        _send(client, pipeline, DECISIONS, cluster_of(JOB), encode(decision))
    assert client.flush(20) == 0
    return pipeline


def _send(client: Producer, pipeline: Recorded, topic: str, key: str, value: bytes) -> None:
    client.produce(f"{pipeline.settings.topic_prefix}{topic}", value, key.encode())


def _figures(found: dict[str, Any], policy: int = 0) -> dict[str, Any]:
    return dict(found["policies"][policy]["recorded"])


def test_a_recorded_hour_replays_to_the_same_decisions_from_file_and_from_topic(hour: Recorded) -> None:
    """Six spans, byte for byte, by either way; and both ways give the same document."""
    path = hour.record("hour.ssrec", "--job", JOB)
    from_file, from_topic = hour.replay(str(path), "--job", JOB), hour.replay("snapshots", "--job", JOB)
    same = {"same": 6, "different": 0, "other_hash": 0, "unmatched": 0, "differences": []}
    assert _figures(from_file) == _figures(from_topic) == same
    assert from_file | {"source": ""} == from_topic | {"source": ""} | {"refused": 0}


def test_two_policies_are_laid_side_by_side(hour: Recorded) -> None:
    """People get a table with a column per policy, the figures and the agreement."""
    path = hour.record("hour.ssrec", "--job", JOB)
    done = hour.surescale("recording", "replay", str(path), "--policy", "target-utilisation", "--policy", "hold")
    assert done.returncode == 0, done.stderr
    assert "replays to the same decisions, byte for byte: 6 of 6" in " ".join(done.stdout.split())
    assert "hold: it has no recorded decisions to compare with" in " ".join(done.stdout.split())


def test_a_stretch_of_time_holds_only_its_windows(hour: Recorded) -> None:
    """--from and --until cut by event time; settings stay, so the decisions are the same."""
    begin, end = FIRST_MINUTE * MINUTE_MS, (FIRST_MINUTE + 20) * MINUTE_MS
    path = hour.record("part.ssrec", "--job", JOB, "--from", str(begin), "--until", str(end))
    found = hour.replay(str(path))
    assert (found["windows"], _figures(found)["same"], _figures(found)["unmatched"]) == (20, 2, 0)


def test_what_cannot_be_recorded_or_replayed_is_one_line_and_changes_nothing(hour: Recorded) -> None:
    """A cut file, a job that is not there, a name that is nothing, a file that exists: exit code 1, one line, no file more."""
    path = hour.record("hour.ssrec", "--job", JOB)
    cut = hour.folder / "cut.ssrec"
    cut.write_bytes(path.read_bytes()[:-300])
    before = {file: file.read_bytes() for file in hour.folder.iterdir()}
    for arguments, message in [
        (["recording", "replay", str(cut)], "truncated or altered"),
        (["recording", "replay", str(path), "--job", "sim/ghost"], "no windows of sim/ghost"),
        (["recording", "replay", "nothing"], "neither a file nor one of the topics"),
        (["recording", "replay", str(path), "--through", "spark"], "no task metrics of any job"),
        (["recording", "create", "--out", str(path), "--job", JOB], "exists; name another file"),
        (["recording", "create", "--out", str(path) + "2", "--job", "sim/ghost"], "no records of job sim/ghost"),
    ]:
        done = hour.surescale(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        last = done.stderr.splitlines()[-1]  # a slow machine says how far it is before
        assert last.startswith("surescale: ")
        assert message in last
    assert {file: file.read_bytes() for file in hour.folder.iterdir()} == before


def test_a_broker_that_is_away_is_one_line(tmp_path: Path) -> None:
    """No trace, no endless wait."""
    command = [*SURESCALE, "recording", "create", "--job", JOB, "--out", str(tmp_path / "x"), "--bootstrap", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENT_S)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("surescale: Kafka at 127.0.0.1:1 does not answer")


@pytest.fixture
def metrics(pipeline: Recorded) -> Recorded:
    """Twenty minutes of task metrics as a monitor sends them, new settings after the first span, and the decisions on them.

    The windows are computed here, by the pure step of the Spark job, from the records as the broker took them.
    """
    client = producer(pipeline.settings)
    _send(client, pipeline, JOB_TOPOLOGY, JOB, encode(topology()))
    for minute in range(FIRST_MINUTE - 9, FIRST_MINUTE + 11):
        _send_minute(client, pipeline, minute)
        if minute == FIRST_MINUTE:
            _send(client, pipeline, JOB_SETTINGS, JOB, encode(TIGHT))
            assert client.flush(20) == 0
    assert client.flush(20) == 0
    made = _computed_windows(pipeline.settings)
    decisions = decided([made[9]], "target-utilisation") + decided([made[19]], "target-utilisation", settings=TIGHT)
    for decision in decisions:
        _send(client, pipeline, DECISIONS, cluster_of(JOB), encode(decision))
    assert client.flush(20) == 0
    return pipeline


def _send_minute(client: Producer, pipeline: Recorded, minute: int) -> None:
    end_ms, passed = minute * MINUTE_MS, minute - FIRST_MINUTE + 10
    counted = {"records_in": 1_000 * passed, "records_out": 1_000 * passed, "busy_ms": 50_000 * passed}
    for task, subtask in (("source", 0), ("map", 0), ("map", 1), ("sink", 0)):
        each = sample(task=task, subtask=subtask, sampled_at_ms=end_ms, idle_ms=0, **counted)
        _send(client, pipeline, TASK_METRICS, JOB, encode(each))
    _send(client, pipeline, TASK_METRICS, JOB, encode(MinuteMarker(job=JOB, minute_end_ms=end_ms, topology=topology())))
    assert client.flush(20) == 0


def _computed_windows(settings: PipelineSettings) -> list[Window]:
    reader = LogReader(settings, [TASK_METRICS])
    records = [
        (Coordinates(record.partition() or 0, record.offset() or 0, record.timestamp()[1]), decode(record.value(), Metric))
        for record in reader.read_to_end()
    ]
    reader.close()
    clock = np.array([at.append_ms for at, _ in records])
    return list(Minutes(MinuteRules(window_minutes=60)).feed(records_of(records), clock).windows)


def test_recorded_metrics_go_through_spark_and_the_agent_to_the_same_decisions(metrics: Recorded) -> None:
    """Both spans are decided as recorded, byte for byte, settings changed in between; the replay's topics are gone afterwards."""
    path = metrics.record("metrics.ssrec", "--job", JOB)
    found = metrics.replay(str(path), "--through", "spark", "--policy", "target-utilisation", "--policy", "hold")
    agreed = {"same": 2, "different": 0, "other_hash": 0, "unmatched": 0, "differences": []}
    assert found["agent"] == {"decisions": 2, "recorded": agreed, "directly": agreed}
    assert (found["windows"], _figures(found)) == (20, agreed)
    assert [span["actions"][1] for span in found["spans"]] == ["hold", "hold"]
    topics = AdminClient({"bootstrap.servers": metrics.settings.bootstrap}).list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("replay-")]
