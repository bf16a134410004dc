"""`surescale job explain` on a real broker: found by decision, command and job; decided again from what Kafka holds."""

import json

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from surescale.contracts.commands import Balance, Outcome, Progress, RescheduleCommand, SlotMove, TaskChange
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, EngineEvent, JobTopology, TaskSpec
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    CLOCK,
    DECISIONS,
    ENGINE_EVENTS,
    EXPLAIN_GROUP,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    SNAPSHOTS,
    TopicNames,
)
from surescale.contracts.windows import encode_window
from surescale.runtime.kafka import create_topics, producer
from surescale.runtime.topic_records import append_ms, send
from surescale.services.agent.decider import Decider
from surescale.services.recomputation import records as explain_log
from surescale.services.recomputation.records import Log
from surescale.services.tools.explain.command import command
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, window_at
from tests.support.command_line import job_command
from tests.support.explained import course

pytestmark = pytest.mark.integration

SETTINGS = JobSettings(job=JOB, version=2, parallelism_max=5)


@pytest.fixture(scope="module")
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline on which two spans were decided on; the first decision was delivered twice, the window of the second is gone."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
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
    for event in aftermath.engine_events:
        send(settings, ENGINE_EVENTS, "sim", event)
    for decision in (first, decided(610)):
        send(settings, DECISIONS, "sim", decision)
    return settings


def test_who_lets_a_job_act_hears_what_its_newest_decision_would_be(pipeline: PipelineSettings) -> None:
    """Decided again on the same window under the new limits; a window that is gone is said to be."""
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=window_at(600).topology.tasks)
    send(pipeline, JOB_TOPOLOGY, JOB, topology)
    at = ["--bootstrap", pipeline.bootstrap, "--prefix", pipeline.topic_prefix]
    said = CliRunner().invoke(job_command, ["set", JOB, "--mode", "act", "--max", "3", *at], catch_exceptions=False).output
    assert "now: what would be decided is not known: the window" in said
    send(pipeline, DECISIONS, "sim", decided(600))
    said = CliRunner().invoke(job_command, ["set", JOB, "--mode", "advise", *at], catch_exceptions=False).output
    assert "asked again about the window of its newest decision, would change" in said
    send(pipeline, DECISIONS, "sim", decided(610))  # the newest one again


OWN_ACT = f"{JOB}@37200000/balance"


@pytest.fixture(scope="module")
def followed(pipeline: PipelineSettings) -> PipelineSettings:
    """The same pipeline on which units then followed a host that was lost: the command is appended before its outcome."""
    command_id, base = f"{JOB}#7.0", {"cluster": "sim", "job": JOB}
    prepare = RescheduleCommand(
        **base,
        command_id=command_id,
        desired_generation=7,
        step=0,
        action="prepare",
        base_placement_generation=2,
        decision_id=OWN_ACT,
        gate_reason="desired",
        gate_cause="trigger",
        issued_at_ms=37_200_000,
        changes=(TaskChange(task="map", before=2, after=2, added_units=(8,), removed_units=(2,)),),
    )
    commit = replace(prepare, command_id=f"{JOB}#7.1", step=1, action="commit", issued_at_ms=37_260_000)
    outcome = Outcome(
        **base, decision_id=OWN_ACT, span_end_ms=37_200_000, status="commanded", reason="desired", at_ms=37_200_000,
        command_id=command_id, detail="hosts changed: 1 unit goes to m2",
    )  # fmt: skip
    look = Balance(
        cluster="sim", generation=2, sequence=0, status="moving", reason="cheaper_hosts", at_ms=37_200_000, hosts_version=2,
        moves=(SlotMove(job=JOB, unit=2, host="l1", to_unit=8, to_host="m2"),),
    )  # fmt: skip
    step = base | {"status": "applied", "desired_generation": 7}
    lost = EngineEvent(cluster="sim", sequence=70, at_ms=37_140_000, kind="host_lost", host="l1")
    send(pipeline, ENGINE_EVENTS, "sim", lost)
    for command_sent in (prepare, commit):
        send(pipeline, RESCHEDULE_COMMANDS, "sim", command_sent)
    ready = Progress(**step, command_id=command_id, at_ms=37_260_000)
    done = Progress(**step, command_id=commit.command_id, at_ms=37_261_000)
    for record in (look, outcome, ready, done):
        send(pipeline, RESCHEDULE_EVENTS, "sim", record)
    named = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map", label="Map of clicks"),))
    send(pipeline, JOB_TOPOLOGY, JOB, named)
    return pipeline


@pytest.mark.parametrize("asked", [OWN_ACT, f"{JOB}#7.0", f"{JOB}#7.1"])
def test_an_act_that_no_policy_decided_is_found_with_its_cause_and_all_its_steps(followed: PipelineSettings, asked: str) -> None:
    """By its own id and by the ids of its commands."""
    found = json.loads(explain(followed, asked, "--json").output)
    assert (found["own_act"], found["look"]["moves"][0]["to_host"]) == ("balance", "m2")
    assert [each["command_id"] for each in found["commands"]] == [f"{JOB}#7.0", f"{JOB}#7.1"]
    assert [each["command_id"] for each in found["progress"]] == [f"{JOB}#7.0", f"{JOB}#7.1"]
    assert [each["kind"] for each in found["engine_events"]] == ["host_lost"]
    assert "Map of clicks" in explain(followed, asked).output


def test_what_no_policy_decided_cannot_be_decided_again(followed: PipelineSettings) -> None:
    """There is no window that it came from."""
    refused = explain(followed, OWN_ACT, "--recompute")
    assert refused.exit_code == 2
    assert "no policy decided this" in refused.output


def decided(minute: int) -> Decision:
    """Return the decision on a minute's window."""
    answerer = Decider(lambda _: SETTINGS, policy="sure", folder="", seed=0)
    decision = answerer.answer(encode_window(window_at(minute)))
    assert decision is not None
    return decision


def explain(pipeline: PipelineSettings, *arguments: str) -> Result:
    """Run `surescale job explain`."""
    return CliRunner().invoke(command, [*arguments, "--bootstrap", pipeline.bootstrap, "--prefix", pipeline.topic_prefix])


def test_a_decision_is_found_with_all_that_became_of_it(pipeline: PipelineSettings) -> None:
    """By its id and by its command's id the same document comes, though the decision was delivered twice."""
    by_decision = json.loads(explain(pipeline, decided(600).decision_id, "--json").output)
    assert [outcome["status"] for outcome in by_decision["outcomes"]] == ["pending", "commanded"]
    assert by_decision["commands"][0]["changes"][0]["added_units"] == [8, 9]
    assert [step["status"] for step in by_decision["progress"]] == ["applied"]
    assert [event["kind"] for event in by_decision["engine_events"]] == ["job_restarted"]
    assert json.loads(explain(pipeline, f"{JOB}#4.0", "--json").output) == by_decision


def test_a_job_stands_for_its_newest_decision(pipeline: PipelineSettings) -> None:
    """Given a job, the newest decision on it is explained, as text."""
    result = explain(pipeline, JOB)
    assert result.exit_code == 0
    assert result.output.startswith(decided(610).decision_id)
    assert "No outcome yet" in result.output


def test_deciding_again_from_kafka_gives_the_same_bytes(pipeline: PipelineSettings) -> None:
    """Window, settings of that version and the model by its hash are fetched; the record is the same."""
    result = explain(pipeline, decided(600).decision_id, "--recompute")
    assert result.exit_code == 0, result.output
    assert "recomputed: the same bytes" in result.output
    cut = explain(pipeline, decided(600).decision_id, "--without", "map", "--without", "-3")
    assert cut.exit_code == 0, cut.output
    assert [line.split()[0] for line in cut.output.splitlines() if line.startswith(("map ", "-3 "))][-2:] == ["map", "-3"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([f"{JOB}@1/sure"], "no decision 'sim/clicks@1/sure' is in Kafka"),
        ([f"{JOB}#9.0"], "no command 'sim/clicks#9.0' is in Kafka"),
        ([JOB, "--recompute"], "is no longer in Kafka"),
        ([f"{JOB}#4.0", "--recompute", "--policy-folder", "tests"], "the model is not available: sure of hash"),
    ],
)
def test_what_is_gone_is_one_line(pipeline: PipelineSettings, wanted: list[str], words: str) -> None:
    """Unknown ids, a window that is gone and a model that is not in the folder are said in one line."""
    result = explain(pipeline, *wanted)
    assert result.exit_code == 1
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_log_is_read_in_pieces_from_its_end(pipeline: PipelineSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest piece comes first, each record once, each piece in order."""
    monkeypatch.setattr(explain_log, "CHUNK_OFFSETS", 3)
    for sequence in range(8):
        send(pipeline, CLOCK, "x", ClockSegment(pipeline="x", sequence=sequence, e0_ms=0, w0_ms=0, speed=1.0, until_ms=sequence))
    log = Log(pipeline, EXPLAIN_GROUP)
    pieces = [[int(record.offset() or 0) for record in piece] for piece in log.newest_first(CLOCK)]
    newest = next(iter(log.newest_first(CLOCK)))[-1]
    since = [int(record.offset() or 0) for record in log.since(CLOCK, append_ms(newest))]
    log.close()
    assert pieces == [[5, 6, 7], [2, 3, 4], [0, 1]]
    assert since[-1] == 7


def _send_raw(settings: PipelineSettings, topic: str, raw: bytes) -> None:
    client = producer(settings)
    client.produce(TopicNames(settings.topic_prefix)(topic), raw, key=JOB.encode())
    assert client.flush(20) == 0
