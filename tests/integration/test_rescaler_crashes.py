"""One rescale whose rescaler dies at every write on Kafka, on a real broker: it is carried out once, like any other."""

import contextlib
import logging
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import DeadLetter
from surescale.contracts.rescaler_state import BALANCE, PLACEMENT, ClusterMemory
from surescale.contracts.topics import CLUSTER_TOPOLOGY, DEAD_LETTERS, DECISIONS, JOB_TOPOLOGY
from surescale.contracts.wire import decode
from surescale.engines.ports.actuator import Accepted, EngineUnavailable
from surescale.rescaler.control.job.memory import JobMemory, restored
from surescale.rescaler.service.active import ActiveRescaler, activate
from surescale.rescaler.service.loop import REMEMBERED
from surescale.rescaler.service.session import decisions_of, group_member
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.kafka import batch
from surescale.runtime.kafka_transactions import Fenced
from surescale.runtime.topic_ids import TopicIds
from tests.conftest import KafkaForTests
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, carried_out, cluster, decision, job
from tests.support.crashing_rescaler import EXIT_CODE
from tests.support.fake_engine import FakeEngine
from tests.support.rescaler_pipeline import Pipeline, is_active, kept, opened, reader, served
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
T0 = START_MS
STARTS_MAX = 20
IDLE_S = 3.0
WIDER = {"map": 4, "join": 4}


@contextlib.contextmanager
def made(kafka: KafkaForTests, **chosen: Any) -> Iterator[Pipeline]:
    """A pipeline whose engine warms learners for two minutes."""
    engine = FakeEngine(now_ms=T0, jobs={JOB}, warm_ms=2 * MINUTE_MS)
    with served(engine) as url:
        at: dict[str, Any] = {
            "bootstrap": kafka.bootstrap,
            "topic_prefix": kafka.topic_prefix(),
            "engine_url": url,
            "pipeline_clock": True,
        }
        with opened(RescalerSettings(**at, **chosen), engine) as pipeline:
            yield pipeline


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> Iterator[Pipeline]:
    """A pipeline whose rescaler has the default settings."""
    with made(kafka) as pipeline:
        yield pipeline


def memory_of(pipeline: Pipeline) -> tuple[JobMemory, ClusterMemory]:
    """What the rescaler has written down of the job and of the cluster."""
    records = {(record.kind, record.id): record for record in kept(pipeline.settings)}
    of_job, placement = records.get(("job", JOB)), records.get(("cluster", PLACEMENT))
    return (
        restored(of_job) if of_job else JobMemory(job=JOB),
        decode(bytes(placement.body), ClusterMemory) if placement else ClusterMemory(placement_generation=0),
    )


def is_over(pipeline: Pipeline) -> bool:
    """The rescale has been committed."""
    return memory_of(pipeline)[1].placement_generation == 1


def lives(pipeline: Pipeline, process: subprocess.Popen[str], port: int, minute: int) -> int:
    """Once the process works, let the clock go on, minute by minute, until it has died or all is done; return the minute."""
    wait_until(lambda: process.poll() is not None or is_active(port), 60, "the rescaler")
    while process.poll() is None and not is_over(pipeline):
        try:
            process.wait(IDLE_S)
        except subprocess.TimeoutExpired:
            minute += 1
            pipeline.clock(T0 + minute * MINUTE_MS)
    return minute


def test_a_rescale_survives_a_crash_between_any_two_writes(pipeline: Pipeline) -> None:
    """Each process does one write and dies inside the next: the rescale has one preparation, one commit and one result."""
    act = decision(T0, WIDER)
    pipeline.decide(act)
    minute, starts = 0, 0
    while not is_over(pipeline):
        starts += 1
        assert starts <= STARTS_MAX, pipeline.read().progress
        process, port = pipeline.process("tests.support.crashing_rescaler")
        minute = lives(pipeline, process, port, minute)
        assert process.poll() in (None, EXIT_CODE)
        process.kill()
        process.wait()
    assert starts > 4
    assert pipeline.said(act) == [("commanded", "desired")]
    assert [(command.command_id, command.action) for command in pipeline.commands] == [
        (f"{JOB}#1.0", "prepare"),
        (f"{JOB}#1.1", "commit"),
    ]
    memory, placed = memory_of(pipeline)
    assert (memory.underway, memory.failures) == (None, 0)
    assert (memory.applied.generation, placed.placement_generation) == (1, 1)
    assert set(memory.applied.units) == {"map", "join"}
    assert not [progress for progress in pipeline.progress if progress.status == "failed"]
    assert pipeline.engine.look(JOB).generation == 1


def test_a_command_whose_time_is_up_while_no_rescaler_lives_ends_on_the_topic(pipeline: Pipeline) -> None:
    """Its rescaler died before it could say that the engine had taken it on. The next one says that nobody knows, and goes on."""
    pipeline.decide(decision(T0, WIDER))
    process, _ = pipeline.process("tests.support.crashing_rescaler")
    assert process.wait(PATIENT_S) == EXIT_CODE
    assert [(command.command_id, command.action) for command in pipeline.read().commands] == [(f"{JOB}#1.0", "prepare")]
    assert not pipeline.progress
    late_ms = T0 + 60 * MINUTE_MS
    pipeline.clock(late_ms)
    pipeline.process()
    wait_until(lambda: pipeline.statuses() == ["failed"], 60, "the end")
    assert [(each.command_id, each.code) for each in pipeline.progress] == [(f"{JOB}#1.0", "NOT_REPORTED")]
    pipeline.decide(decision(late_ms, {"map": 3}))
    wait_until(
        lambda: f"{JOB}#2.0" in {each.command_id for each in pipeline.read().progress}, 60, "the next command is carried out"
    )
    assert [each.status for each in pipeline.progress if each.command_id == f"{JOB}#1.0"] == ["failed"]


class Away(FakeEngine):
    """An engine that one process cannot reach."""

    def request(self, command: RescheduleCommand) -> Accepted:
        """Give no answer."""
        raise EngineUnavailable("as the test wants")


@contextlib.contextmanager
def alive(pipeline: Pipeline, engine: FakeEngine) -> Iterator[tuple[ActiveRescaler, Consumer, Status]]:
    """An active rescaler whose rounds the test calls, with its client and its counts; it fences off the former owner."""
    log, status, stop = logging.getLogger("test"), Status(pipeline.settings.cluster), threading.Event()
    topics = TopicIds(pipeline.settings, REMEMBERED)
    with contextlib.closing(group_member(pipeline.settings, status.stable_offset_lag, log)) as member:
        member.assign([decisions_of(pipeline.settings, member)])
        with contextlib.closing(activate(pipeline.settings, member, engine, status, stop, log, topics)) as active:
            yield active, member, status


def test_a_command_is_carried_out_though_its_rescaler_dies_and_a_fenced_one_has_read_it(pipeline: Pipeline) -> None:
    """One is wrongly taken for dead. Its successor commands and dies; the first reads that command and passes it."""
    with alive(pipeline, pipeline.engine) as (first, its_decisions, counts):
        first.round([])
        with alive(pipeline, Away(now_ms=T0)) as (successor, decisions, _):
            pipeline.decide(decision(T0, {"map": 4}))
            successor.round(wait_until(lambda: batch(decisions, 1, 0.1), 30, "the decision"))
            wait_until(lambda: counts.report().get("unknown_commands") == 1, 30, "the first to read the command")
        with pytest.raises(Fenced):
            first.round(wait_until(lambda: batch(its_decisions, 1, 0.1), 30, "the decision"))
    assert [command.command_id for command in pipeline.read().commands] == [f"{JOB}#1.0"]
    with alive(pipeline, pipeline.engine) as (heir, _, _):

        def reports(status: str) -> bool:
            heir.round([])
            return pipeline.statuses()[-1:] == [status]

        wait_until(lambda: reports("accepted"), 30, "the acceptance")
        pipeline.clock(T0 + 2 * MINUTE_MS)
        wait_until(lambda: reports("applied"), 30, "the end")
    assert {each.command_id for each in pipeline.progress} == {f"{JOB}#1.0"}


def test_hosts_that_join_are_balanced_across_crashes(kafka: KafkaForTests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, learners, commit and standbys: each process does a write or two and dies in the next, and each is done once."""
    with made(kafka, placement="spread", balancing_factor="0", standbys=1) as pipeline:
        pipeline.send(CLUSTER_TOPOLOGY, "sim", cluster(1))
        pipeline.send(JOB_TOPOLOGY, JOB, job(units=(0, 1)))
        pipeline.decide(decision(T0))
        minute, starts = 0, 0
        while not is_settled(pipeline):
            starts += 1
            assert starts <= 3 * STARTS_MAX, pipeline.read().progress
            monkeypatch.setenv("CRASH_AFTER_WRITES", str(1 + starts % 2))
            process, port = pipeline.process("tests.support.crashing_rescaler")
            minute = ticks(pipeline, process, port, minute)
            process.kill()
            process.wait()
        commands = [(command.action, command.desired_generation, command.step) for command in pipeline.read().commands]
    assert len(commands) == len(set(commands))
    moves = [command for command in pipeline.commands if command.decision_id.endswith("/balance")]
    assert [command.action for command in moves] == ["prepare", "commit"]
    assert {change.units for command in moves for change in command.changes} == {(4, 1)}
    copies = [command.standbys for command in pipeline.commands if command.action == "standby"]
    assert {each.unit: each.hosts for each in copies[-1]} == {4: ("h0",), 1: ("h1",)}  # type: ignore[union-attr]


def balance_of(pipeline: Pipeline) -> dict[str, Any]:
    """What the rescaler has written down of the hosts."""
    bodies = [bytes(record.body) for record in kept(pipeline.settings) if record.id == BALANCE]
    return dict(msgspec.json.decode(bodies[0])) if bodies else {}


def ticks(pipeline: Pipeline, process: subprocess.Popen[str], port: int, minute: int) -> int:
    """Let the clock and the engine's job go on whenever nothing happens any more, until the process has died; the minute."""
    while process.poll() is None and not is_settled(pipeline):
        try:
            process.wait(IDLE_S)
            break
        except subprocess.TimeoutExpired:
            if not is_active(port):
                continue  # it has only just been started
        if balance_of(pipeline).get("generation") == 1:
            pipeline.send(CLUSTER_TOPOLOGY, "sim", msgspec.structs.replace(cluster(2), version=2, at_ms=T0))
        minute += 1
        pipeline.clock(T0 + minute * MINUTE_MS)
        done = [command for command in pipeline.read().commands if command.action == "commit"]
        if done and pipeline.engine.look(JOB).generation == done[-1].desired_generation:
            pipeline.send(JOB_TOPOLOGY, JOB, carried_out(job(units=(0, 1)), done[-1]))
    return minute


def is_settled(pipeline: Pipeline) -> bool:
    """The hosts that joined have their share, and nothing is left to do."""
    balance = balance_of(pipeline)
    return (balance.get("generation"), balance.get("status")) == (2, "settled")


def refused(of: str) -> tuple[Decision, str]:
    """A decision that the rescaler refuses, and the reason."""
    wanted: dict[str, tuple[Decision, str]] = {
        "unknown job": (decision(T0, {"map": 3}, of="sim/nobody"), "unknown_job"),
        "unknown task": (decision(T0 + 1, {"nobody": 3}), "unknown_task"),
        "fixed task": (decision(T0 + 2, {"source": 2}), "not_scalable"),
        "too wide": (decision(T0 + 3, {"map": 11}), "out_of_bounds"),
        "no change": (decision(T0 + 4, {"map": 2}), "no_change"),
    }
    return wanted[of]


@pytest.mark.parametrize("code", ["UNKNOWN_PARALLEL_UNIT", "STALE_GENERATION", "NOT_ENOUGH_UNITS", "RESCALE_IN_PROGRESS"])
def test_a_refusal_of_the_engine_is_an_event_with_its_code(pipeline: Pipeline, code: str) -> None:
    """The command has failed by name; the next act waits for the back-off, and nothing is a dead letter."""
    pipeline.engine.refuse_with = code
    pipeline.process()
    act, later = decision(T0, WIDER), decision(T0 + 1, WIDER)
    pipeline.decide(act)
    wait_until(lambda: pipeline.statuses() == ["failed"], 60, "the failure")
    assert [(progress.code, progress.command_id) for progress in pipeline.progress] == [(code, f"{JOB}#1.0")]
    pipeline.decide(later)
    wait_until(lambda: pipeline.said(later) == [("pending", "backoff")], 20, "the back-off")


def test_every_refusal_of_a_decision_is_an_event_with_its_reason(pipeline: Pipeline) -> None:
    """What can be read is answered; what cannot goes to dead letters, and only that."""
    pipeline.process()
    cases = [refused(of) for of in ("unknown job", "unknown task", "fixed task", "too wide", "no change")]
    twice = decision(T0 + 5, {"map": 3})
    cases.append((msgspec.structs.replace(twice, tasks=twice.tasks * 2), "repeated_task"))
    pipeline.send(DECISIONS, "sim", b"[]")
    pipeline.decide(*(each for each, _ in cases), decision(T0 - MINUTE_MS, {"map": 3}))
    wait_until(lambda: len(pipeline.read().outcomes) == len(cases) + 1, 60, "an answer to each")
    said = Counter((outcome.status, outcome.reason) for outcome in pipeline.outcomes)
    assert said == Counter(("refused", reason) for reason in [*(reason for _, reason in cases), "older_decision"])
    codes = {outcome.reason: outcome.code for outcome in pipeline.outcomes}
    assert codes == {
        "unknown_job": "UNKNOWN_JOB",
        "unknown_task": "FRAGMENT_NOT_FOUND",
        "not_scalable": "SINGLETON_SCALE",
        "out_of_bounds": "INVALID_PARALLELISM",
        "no_change": "NO_CHANGE",
        "repeated_task": "INVALID_INPUT",
        "older_decision": "STALE_GENERATION",
    }
    letters = reader(pipeline.settings, DEAD_LETTERS)
    refusals = [decode(record.value(), DeadLetter) for record in letters.read_to_end()]
    letters.close()
    assert [letter.refused_by for letter in refusals] == ["rescaler"]
