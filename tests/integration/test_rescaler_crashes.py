"""One rescale whose rescaler dies at every write on Kafka, on a real broker: it is carried out once, like any other."""

import subprocess
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from contracts.messages import DeadLetter, Decision
from contracts.topics import DEAD_LETTERS, DECISIONS
from contracts.wire import decode
from rescaler.actuators.fake import FakeEngine
from rescaler.control.memory import ClusterMemory, JobMemory
from rescaler.service.session import remembered
from rescaler.service.settings import RescalerSettings
from tests.conftest import KafkaForTests
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.crashing_rescaler import EXIT_CODE
from tests.support.rescaler_road import Road, opened, reader, served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
T0 = START_MS
STARTS_MAX = 20
WIDER = {"map": 4, "join": 4}


@pytest.fixture
def road(kafka: KafkaForTests) -> Iterator[Road]:
    """A road whose engine warms learners for two minutes."""
    engine = FakeEngine(now_ms=T0, jobs={JOB}, warm_ms=2 * MINUTE_MS)
    with served(engine) as url:
        settings = RescalerSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), engine_url=url, road_clock=True)
        with opened(settings, engine) as made:
            yield made


def memory_of(road: Road) -> tuple[JobMemory, ClusterMemory]:
    """What the rescaler has written down of the job and of the cluster."""
    bodies = {(record.kind, record.id): bytes(record.body) for record in remembered(road.settings)}
    job = decode(bodies["job", JOB], JobMemory) if ("job", JOB) in bodies else JobMemory(job=JOB)
    cluster = [body for (kind, _), body in bodies.items() if kind == "cluster"]
    return job, decode(cluster[0], ClusterMemory) if cluster else ClusterMemory()


def is_over(road: Road) -> bool:
    """The rescale has been committed."""
    return memory_of(road)[1].placement_generation == 1


def lives(road: Road, process: subprocess.Popen[str], minute: int) -> int:
    """Let the clock go on, minute by minute, until the process has died or all is done; return the minute."""
    while process.poll() is None and not is_over(road):
        try:
            process.wait(6)
        except subprocess.TimeoutExpired:
            minute += 1
            road.clock(T0 + minute * MINUTE_MS)
    return minute


def test_a_rescale_survives_a_crash_between_any_two_writes(road: Road) -> None:
    """Each process does one write and dies inside the next: the rescale has one preparation, one commit and one result."""
    act = decision(T0, WIDER)
    road.decide(act)
    minute, starts = 0, 0
    while not is_over(road):
        starts += 1
        assert starts <= STARTS_MAX, road.read().progress
        process, _ = road.process("tests.support.crashing_rescaler")
        minute = lives(road, process, minute)
        assert process.poll() in (None, EXIT_CODE)
        process.kill()
        process.wait()
    assert starts > 4
    assert road.said(act) == [("commanded", "desired")]
    assert [(command.command_id, command.action) for command in road.commands] == [
        (f"{JOB}#1.0", "prepare"),
        (f"{JOB}#1.1", "commit"),
    ]
    memory, cluster = memory_of(road)
    assert (memory.rescaling, memory.outstanding, memory.failures) == (None, None, 0)
    assert (memory.applied_generation, cluster.placement_generation) == (1, 1)
    assert set(memory.applied_units) == {"map", "join"}
    assert not [progress for progress in road.progress if progress.status == "failed"]
    assert road.engine.look(JOB).generation == 1


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
def test_a_refusal_of_the_engine_is_an_event_with_its_code(road: Road, code: str) -> None:
    """The command has failed by name; the next act waits for the back-off, and nothing is a dead letter."""
    road.engine.refuse_with = code
    road.process()
    act, later = decision(T0, WIDER), decision(T0 + 1, WIDER)
    road.decide(act)
    wait_until(lambda: road.statuses() == ["failed"], 60, "the failure")
    assert [(progress.code, progress.command_id) for progress in road.progress] == [(code, f"{JOB}#1.0")]
    road.decide(later)
    wait_until(lambda: road.said(later) == [("pending", "backoff")], 20, "the back-off")


def test_every_refusal_of_a_decision_is_an_event_with_its_reason(road: Road) -> None:
    """What can be read is answered; what cannot goes to dead letters, and only that."""
    road.process()
    cases = [refused(of) for of in ("unknown job", "unknown task", "fixed task", "too wide", "no change")]
    twice = decision(T0 + 5, {"map": 3})
    cases.append((msgspec.structs.replace(twice, tasks=twice.tasks * 2), "repeated_task"))
    road.send(DECISIONS, "sim", b"[]")
    road.decide(*(each for each, _ in cases), decision(T0 - MINUTE_MS, {"map": 3}))
    wait_until(lambda: len(road.read().outcomes) == len(cases) + 1, 60, "an answer to each")
    said = Counter((outcome.status, outcome.reason) for outcome in road.outcomes)
    assert said == Counter(("refused", reason) for reason in [*(reason for _, reason in cases), "older_decision"])
    codes = {outcome.reason: outcome.code for outcome in road.outcomes}
    assert codes == {
        "unknown_job": "UNKNOWN_JOB",
        "unknown_task": "FRAGMENT_NOT_FOUND",
        "not_scalable": "SINGLETON_SCALE",
        "out_of_bounds": "INVALID_PARALLELISM",
        "no_change": "NO_CHANGE",
        "repeated_task": "INVALID_INPUT",
        "older_decision": "STALE_GENERATION",
    }
    letters = reader(road.settings, DEAD_LETTERS)
    refusals = [decode(record.value(), DeadLetter) for record in letters.read_to_end()]
    letters.close()
    assert [letter.refused_by for letter in refusals] == ["rescaler"]
