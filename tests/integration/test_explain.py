"""`surescale explain` on a real broker: found by decision, command and job; decided again from what Kafka holds."""

import json

import pytest
from click.testing import CliRunner, Result

from contracts.messages import ClockSegment, Decision, JobSettings
from contracts.settings import RoadSettings
from contracts.topics import (
    CLOCK,
    DECISIONS,
    ENGINE_EVENTS,
    JOB_SETTINGS,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    SNAPSHOTS,
    TopicNames,
)
from contracts.windows import encode_window
from runtime.kafka import create_topics, producer
from services.agent.answering import Answerer
from services.explain import log as explain_log
from services.explain.command import command
from services.explain.log import Log
from services.road_topics import append_ms, send
from tests.conftest import KafkaForTests
from tests.support.builders import JOB
from tests.unit.services.test_agent_answering import window_at
from tests.unit.services.test_explain import course

pytestmark = pytest.mark.integration

SETTINGS = JobSettings(job=JOB, version=2, parallelism_max=5)


@pytest.fixture(scope="module")
def road(kafka: KafkaForTests) -> RoadSettings:
    """A road on which two spans were decided on; the first decision was delivered twice, the window of the second is gone."""
    settings = RoadSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    for version in (1, 2):
        send(settings, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=version, parallelism_max=3 + version))
    for minute in (599, 600):
        _send_raw(settings, SNAPSHOTS, encode_window(window_at(minute)))
    first = decided(600)
    aftermath = course(first)
    send(settings, DECISIONS, "sim", first)
    for record in (aftermath.outcomes[0], *aftermath.outcomes[1:], *aftermath.progress):
        send(settings, RESCHEDULE_EVENTS, "sim", record)
    for command_sent in aftermath.commands:
        send(settings, RESCHEDULE_COMMANDS, "sim", command_sent)
    for event in aftermath.events:
        send(settings, ENGINE_EVENTS, "sim", event)
    for decision in (first, decided(610)):
        send(settings, DECISIONS, "sim", decision)
    return settings


def decided(minute: int) -> Decision:
    """Return the decision on a minute's window."""
    answerer = Answerer(lambda _: SETTINGS, policy="sure", folder="", seed=0)
    decision = answerer.answer(encode_window(window_at(minute)))
    assert decision is not None
    return decision


def explain(road: RoadSettings, *arguments: str) -> Result:
    """Run `surescale explain`."""
    return CliRunner().invoke(command, [*arguments, "--bootstrap", road.bootstrap, "--prefix", road.topic_prefix])


def test_a_decision_is_found_with_all_that_became_of_it(road: RoadSettings) -> None:
    """By its id and by its command's id the same document comes, though the decision was delivered twice."""
    by_decision = json.loads(explain(road, decided(600).decision_id, "--json").output)
    assert [outcome["status"] for outcome in by_decision["outcomes"]] == ["pending", "commanded"]
    assert by_decision["commands"][0]["changes"][0]["added_units"] == [8, 9]
    assert [step["status"] for step in by_decision["progress"]] == ["applied"]
    assert [event["kind"] for event in by_decision["engine_events"]] == ["job_restarted"]
    assert json.loads(explain(road, f"{JOB}#4.0", "--json").output) == by_decision


def test_a_job_stands_for_its_newest_decision(road: RoadSettings) -> None:
    """Given a job, the newest decision on it is explained, as text."""
    result = explain(road, JOB)
    assert result.exit_code == 0
    assert result.output.startswith(decided(610).decision_id)
    assert "No outcome yet" in result.output


def test_deciding_again_from_kafka_gives_the_same_bytes(road: RoadSettings) -> None:
    """Window, settings of that version and the model by its hash are fetched; the record is the same."""
    result = explain(road, decided(600).decision_id, "--recompute")
    assert result.exit_code == 0, result.output
    assert "recomputed: the same bytes" in result.output


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([f"{JOB}@1/sure"], "no decision 'sim/clicks@1/sure' is in Kafka"),
        ([f"{JOB}#9.0"], "no command 'sim/clicks#9.0' is in Kafka"),
        ([JOB, "--recompute"], "is no longer in Kafka"),
        ([f"{JOB}#4.0", "--recompute", "--policy-folder", "tests"], "the model cannot be had: sure of hash"),
    ],
)
def test_what_is_gone_is_one_line(road: RoadSettings, wanted: list[str], words: str) -> None:
    """Unknown ids, a window that is gone and a model that is not in the folder are said in one line."""
    result = explain(road, *wanted)
    assert result.exit_code == 1
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_log_is_read_in_pieces_from_its_end(road: RoadSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest piece comes first, each record once, each piece in order."""
    monkeypatch.setattr(explain_log, "CHUNK_OFFSETS", 3)
    for sequence in range(8):
        send(road, CLOCK, "x", ClockSegment(road="x", sequence=sequence, e0_ms=0, w0_ms=0, speed=1.0, until_ms=sequence))
    log = Log(road)
    pieces = [[int(record.offset() or 0) for record in piece] for piece in log.newest_first(CLOCK)]
    newest = next(iter(log.newest_first(CLOCK)))[-1]
    since = [int(record.offset() or 0) for record in log.since(CLOCK, append_ms(newest))]
    log.close()
    assert pieces == [[5, 6, 7], [2, 3, 4], [0, 1]]
    assert since[-1] == 7


def _send_raw(settings: RoadSettings, topic: str, raw: bytes) -> None:
    client = producer(settings)
    client.produce(TopicNames(settings.topic_prefix)(topic), raw, key=JOB.encode())
    assert client.flush(20) == 0
