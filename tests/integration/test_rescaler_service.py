"""The rescaler as a process, against a real broker and an engine behind real HTTP."""

import contextlib
import dataclasses
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, PeriodBounds
from surescale.contracts.messages import (
    DeadLetter,
    JobTopology,
)
from surescale.contracts.settings import to_environment
from surescale.contracts.topics import (
    DEAD_LETTERS,
    DECISIONS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    RESCALER_STATE,
    RESCHEDULE_COMMANDS,
    TOPICS,
    TopicNames,
)
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.service import metrics
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.traces import Traces
from surescale.rescaler.service.transactions import Transactions, partition_of
from surescale.runtime.kafka import producer
from surescale.runtime.kafka_transactions import Fenced
from surescale.runtime.ports import free_ports
from surescale.services.tools.topics import command as topics_command
from tests.conftest import KafkaForTests
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision, job
from tests.support.fake_engine import FakeEngine
from tests.support.metrics import scraped
from tests.support.rescaler_pipeline import Pipeline, health, is_active, kept, opened, reader, served
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
T0 = START_MS
LAST = {"held", "commanded", "superseded", "refused"}


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> Iterator[Pipeline]:
    """A pipeline of its own with an engine that answers."""
    engine = FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(
            bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), engine_url=url, pipeline_clock=True
        )
        with opened(settings, engine) as made:
            yield made


def test_a_decision_becomes_an_outcome_a_command_and_a_rescaled_job(pipeline: Pipeline) -> None:
    """The whole way of one act: commanded, accepted by the engine, applied when the clock gets there; SIGTERM ends it."""
    process, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    hold, act = decision(T0 - MINUTE_MS), decision(T0, {"map": 4})
    pipeline.decide(hold, act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "desired")], 20, "the command")
    assert pipeline.said(hold) == [("held", "hold")]
    (command,) = pipeline.commands
    assert command.changes[0].after == 4
    wait_until(lambda: pipeline.statuses() == ["accepted"], 20, "the acceptance")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: pipeline.statuses() == ["accepted", "applied"], 20, "the end of the rescale")
    assert (pipeline.progress[-1].at_ms, pipeline.progress[-1].duration_ms) == (T0 + 2 * MINUTE_MS, MINUTE_MS)
    assert health(port)["commands"] == 1
    page = scraped(port)
    assert page.labels(metrics.OUTCOMES) == {("held", "hold"), ("commanded", "desired")}
    assert page.labels(metrics.PROGRESS) == {("accepted",), ("applied",)}
    assert (page[metrics.ACTIVE], page[metrics.COMMANDS], page[metrics.APPLY_DURATION]) == (1, 1, 1)
    assert (page.of(metrics.RECORDS_READ, topic=DECISIONS), page[metrics.OUTCOME_DELAY]) == (2, 2)
    assert page.labels(metrics.RENT) == {(JOB,)}
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENT_S) == 0


def test_a_waiting_act_goes_when_the_clock_reaches_its_time(pipeline: Pipeline) -> None:
    """An act during the cooldown is promised a time, and commanded in a transaction of its own when it has come."""
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    first, second = decision(T0, {"map": 4}), decision(T0 + 2 * MINUTE_MS, {"map": 3})
    pipeline.decide(first)
    wait_until(lambda: pipeline.statuses() == ["accepted"], 20, "the acceptance")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 20, "the end of the rescale")
    pipeline.decide(second)
    wait_until(lambda: pipeline.said(second) == [("pending", "cooldown")], 20, "the promise")
    pipeline.clock(T0 + 3 * MINUTE_MS)
    wait_until(lambda: pipeline.said(second) == [("pending", "cooldown"), ("commanded", "desired")], 20, "the second command")
    assert [outcome.at_ms for outcome in pipeline.outcomes if outcome.decision_id == second.decision_id][1] == T0 + 150_000


def test_an_act_that_waits_into_a_period_keeps_its_bounds(pipeline: Pipeline) -> None:
    """One that was accepted before a maximum begins is refused when its wait ends after that; what fits is carried out."""
    night = PeriodBounds(period=ExcludedPeriod(starts="00:13", ends="06:00"), most=4)
    pipeline.send(JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1, minimum_within=(night,)))
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    first, second = decision(T0, {"map": 5}), decision(T0 + 2 * MINUTE_MS, {"map": 6})
    pipeline.decide(first)
    wait_until(lambda: pipeline.statuses() == ["accepted"], 20, "the acceptance")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 20, "the end of the rescale")
    pipeline.decide(second)
    wait_until(lambda: pipeline.said(second) == [("pending", "cooldown")], 20, "the promise")
    pipeline.clock(T0 + 3 * MINUTE_MS)
    wait_until(lambda: pipeline.said(second)[1:] == [("refused", "out_of_bounds")], 20, "the refusal")
    assert pipeline.outcomes[-1].detail == "tasks[0].desired: 6 for 'map', allowed 1 to 4; max 4 until 06:00 UTC"
    pipeline.clock(T0 + 10 * MINUTE_MS)
    wide, narrow = decision(T0 + 9 * MINUTE_MS, {"map": 6}), decision(T0 + 10 * MINUTE_MS, {"map": 4})
    pipeline.decide(wide, narrow)
    wait_until(lambda: pipeline.said(narrow)[-1:] == [("commanded", "desired")], 20, "the command")
    assert pipeline.said(wide) == [("refused", "out_of_bounds")]


def test_after_an_outage_a_newer_decision_takes_the_place_of_a_stale_act(pipeline: Pipeline) -> None:
    """The new process reads what waits before it lets timers fire that were due an hour ago."""
    process, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    first, stale, newer = (decision(T0 + at * MINUTE_MS, {"map": 4 + at % 7}) for at in (0, 2, 60))
    pipeline.decide(first)
    wait_until(lambda: pipeline.statuses() == ["accepted"], 20, "the acceptance")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 20, "the end of the rescale")
    pipeline.decide(stale)
    wait_until(lambda: pipeline.said(stale) == [("pending", "cooldown")], 20, "the promise")
    process.kill()
    process.wait()
    pipeline.clock(T0 + 60 * MINUTE_MS)
    pipeline.decide(newer)
    pipeline.process()
    wait_until(lambda: pipeline.said(newer) == [("commanded", "desired")], 60, "the newer act")
    assert pipeline.said(stale)[1:] == [("superseded", "newer_decision")]


def test_what_is_wrong_goes_to_dead_letters_and_nothing_stops(pipeline: Pipeline) -> None:
    """A record that does not parse, a decision of a clock one hour ahead, and one under another's id are set aside.

    Other clusters' are skipped.
    """
    pipeline.process()
    late, good = decision(T0 + 60 * MINUTE_MS, {"map": 3}), decision(T0, {"map": 3})
    pipeline.send(DECISIONS, "sim", b"{not json")
    forged = encode(decision(T0, {"map": 4}, of="sim/other")).replace(b'"job":"sim/other"', f'"job":"{JOB}"'.encode())
    pipeline.send(DECISIONS, "sim", forged)
    pipeline.decide(late, decision(T0, {"map": 3}, of="other/clicks"), good)
    letters = reader(pipeline.settings, DEAD_LETTERS)
    wait_until(lambda: pipeline.said(good) == [("commanded", "desired")], 60, "the good decision")
    refused = [decode(record.value(), DeadLetter) for record in letters.read_to_end()]
    letters.close()
    assert [(letter.reason, letter.field) for letter in refused] == [
        ("not_json", ""), ("invalid_field", "decision_id"), ("ahead_of_clock", "span_end_ms"),
    ]  # fmt: skip
    assert pipeline.said(late) == []
    assert {outcome.job for outcome in pipeline.outcomes} == {JOB}


def test_a_record_of_the_view_that_makes_no_sense_is_ignored(pipeline: Pipeline) -> None:
    """A cyclic topology and settings that do not parse leave those before in force."""
    tasks = job().tasks
    cyclic: JobTopology = msgspec.structs.replace(
        job(), tasks=(msgspec.structs.replace(tasks[0], upstream=("sink",)), *tasks[1:])
    )
    pipeline.send(JOB_TOPOLOGY, JOB, cyclic)
    pipeline.send(JOB_SETTINGS, JOB, b'{"type":"job-settings/1","job":"sim/clicks","mode":"fast"}')
    _, port = pipeline.process()
    act = decision(T0, {"map": 3})
    pipeline.decide(act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "desired")], 60, "the command")
    assert health(port)["rejected"] == 2


def test_a_forged_command_changes_nothing(pipeline: Pipeline) -> None:
    """Anybody may write to the topic; only what the rescaler remembers as outstanding reaches the engine."""
    _, port = pipeline.process()
    act, later = decision(T0, {"map": 4}), decision(T0 + 3 * MINUTE_MS, {"map": 3})
    pipeline.decide(act)
    wait_until(lambda: pipeline.statuses() == ["accepted"], 60, "the acceptance")
    (own,) = pipeline.commands
    forgeries: list[dict[str, Any]] = [
        {"command_id": "whatever-i-like"},
        {"desired_generation": 2**53, "command_id": f"{JOB}#{2**53}.0"},
        {"changes": (msgspec.structs.replace(own.changes[0], units=(8, 9, 10, 11)),)},
        {"job": "sim/nobody"},
    ]
    for forged in forgeries:
        pipeline.send(RESCHEDULE_COMMANDS, "sim", msgspec.structs.replace(own, **forged))
    wait_until(lambda: health(port).get("unknown_commands") == len(forgeries), 20, "the refusals")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 20, "the end of the rescale")
    pipeline.clock(T0 + 3 * MINUTE_MS)
    pipeline.decide(later)
    wait_until(lambda: pipeline.statuses()[2:] == ["accepted", "applied", "accepted"], 30, "the next rescale, with its learners")
    assert pipeline.engine.asked == [f"{JOB}#1.0", f"{JOB}#2.0", f"{JOB}#2.1"]


def test_a_copy_of_the_command_under_way_changes_nothing(pipeline: Pipeline) -> None:
    """Applying a command twice changes nothing, so a copy does not supersede its original."""
    _, port = pipeline.process()
    pipeline.decide(decision(T0, {"map": 4}))
    wait_until(lambda: pipeline.statuses() == ["accepted"], 60, "the acceptance")
    (own,) = pipeline.commands
    pipeline.send(RESCHEDULE_COMMANDS, "sim", own)
    pipeline.send(RESCHEDULE_COMMANDS, "sim", msgspec.structs.replace(own, command_id="read-after-the-copy"))
    wait_until(lambda: health(port).get("unknown_commands") == 1, 20, "the record after the copy")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: len(pipeline.statuses()) > 1, 20, "the end of the rescale")
    assert pipeline.statuses() == ["accepted", "applied"]
    assert pipeline.engine.asked == [own.command_id]


def test_killed_at_any_time_nothing_is_missing_or_doubled(pipeline: Pipeline) -> None:
    """Killed again and again while decisions come in, the rescaler answers each once, and each command is asked for."""
    acts = [decision(T0 + index, {"map": 3 + index % 5}) for index in range(60)]
    process, _ = pipeline.process()
    for index, act in enumerate(acts):
        pipeline.decide(act)
        if index % 20 == 10:
            wait_until(lambda: bool(pipeline.read().outcomes), 60, "the first outcome")
            process.kill()
            process.wait()
            process, _ = pipeline.process()
    last = acts[-1]
    wait_until(lambda: bool(pipeline.said(last)), 60, "an outcome of the last act")
    counted = Counter((outcome.decision_id, outcome.sequence) for outcome in pipeline.outcomes)
    assert set(counted.values()) == {1}
    ended = Counter(outcome.decision_id for outcome in pipeline.outcomes if outcome.status in LAST)
    assert ended == Counter({act.decision_id: 1 for act in acts[:-1]})
    assert set(pipeline.said(last)) == {("pending", "rescale_in_progress")}
    wait_until(lambda: bool(pipeline.engine.asked), 20, "the engine to be asked")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 60, "the end of the rescale")
    pipeline.clock(T0 + 3 * MINUTE_MS)
    wait_until(lambda: pipeline.said(last)[-1] == ("commanded", "desired"), 30, "the command for the last act")
    assert [command.command_id for command in pipeline.commands] == ["sim/clicks#1.0", "sim/clicks#2.0"]


def test_a_second_process_waits_and_takes_over(pipeline: Pipeline) -> None:
    """Of two processes one works; when it is killed the other goes on where it was."""
    one = pipeline.process()
    wait_until(lambda: is_active(one[1]), 60, "the first rescaler")
    other = pipeline.process()
    wait_until(lambda: health(other[1]).get("state") in ("standby", "active"), 60, "the second rescaler")
    active, standby = wait_until(lambda: sides(one, other), 60, "one active rescaler")
    assert health(standby[1])["ready"] is False
    first, second = decision(T0, {"map": 4}), decision(T0 + 1, {"map": 5})
    pipeline.decide(first)
    wait_until(lambda: pipeline.said(first) == [("commanded", "desired")], 30, "the first command")
    active[0].kill()
    wait_until(lambda: is_active(standby[1]), 60, "the second rescaler to take over")
    pipeline.decide(second)
    wait_until(
        lambda: pipeline.said(second)[-1:] == [("pending", "rescale_in_progress")], 30, "an answer that knows of the first"
    )
    pipeline.clock(T0 + 2 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 30, "the first command's end, reported by the second process")


def sides(*processes: tuple[subprocess.Popen[str], int]) -> list[tuple[subprocess.Popen[str], int]] | None:
    """The processes, the active one first; None while there is not exactly one."""
    states = {health(port).get("state"): (process, port) for process, port in processes}
    return [states["active"], states["standby"]] if {"active", "standby"} <= set(states) else None


def test_decisions_behind_an_open_transaction_are_shown(pipeline: Pipeline) -> None:
    """Nothing behind it can be read, and no lag grows; the time does, until the transaction ends."""
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the rescaler")
    hanging = producer(pipeline.settings, **{"transactional.id": "somebody-else"})
    hanging.init_transactions(60)
    hanging.begin_transaction()
    hanging.produce(TopicNames(pipeline.settings.topic_prefix)(DECISIONS), key="sim", value=b"{")
    assert hanging.flush(20) == 0
    act = decision(T0, {"map": 4})
    pipeline.decide(act)
    wait_until(lambda: scraped(port)[metrics.HELD_BACK] > 5, 60, "the time that it has waited")
    assert pipeline.said(act) == []
    hanging.abort_transaction(20)
    wait_until(lambda: pipeline.said(act) == [("commanded", "desired")], 30, "the command")
    wait_until(lambda: scraped(port)[metrics.HELD_BACK] == 0, 30, "the end of the wait")


def test_a_process_that_was_paused_for_too_long_is_fenced(pipeline: Pipeline) -> None:
    """A rescaler that wakes up after another has taken over cannot write, and ends with one line and a code that is not 0."""
    # However long this takes, its group keeps its place: else it would join again, and be the newest rescaler.
    pipeline.settings = dataclasses.replace(pipeline.settings, session_ms=120_000)
    sleeper, port = pipeline.process()
    wait_until(lambda: is_active(port), 60, "the first rescaler")
    # A client that hangs (confluentinc/librdkafka#5456) has it begin anew, as the newest one. Then it is fenced again.
    for at_ms in range(T0, T0 + 8):
        sleeper.send_signal(signal.SIGSTOP)
        producer(pipeline.settings, **{"transactional.id": pipeline.settings.group}).init_transactions(60)
        sleeper.send_signal(signal.SIGCONT)
        act = decision(at_ms, {"map": 4})
        pipeline.decide(act)
        with contextlib.suppress(subprocess.TimeoutExpired):
            sleeper.wait(PATIENT_S / 8)
            break
    assert sleeper.wait(PATIENT_S) == 1
    assert sleeper.stderr is not None
    sleeper.stderr.seek(0)
    assert sleeper.stderr.read().splitlines()[-1] == "surescale: another process is the rescaler of cluster 'sim' now"
    assert pipeline.said(act) == []


@pytest.mark.parametrize(("sends_before", "sends_after"), [(True, False), (False, True), (True, True)])
def test_a_rescaler_that_is_fenced_within_a_transaction_ends(pipeline: Pipeline, sends_before: bool, sends_after: bool) -> None:
    """Taken for a lost transaction, it would begin anew, and fence the one that has taken over."""

    class Overtaken(Transactions):
        def _produce(self, *_: object) -> None:
            topic, where = TopicNames(pipeline.settings.topic_prefix)(RESCALER_STATE), {"partition": self._state_partition}
            if sends_before:
                self._producer.produce(topic, key="sim/request/first", **where)
                assert self._producer.flush(20) == 0
            begun()
            if sends_after:
                self._producer.produce(topic, key="sim/request/second", **where)

    def begun(kind: type[Transactions] = Transactions) -> Transactions:
        return kind(pipeline.settings, cast(Consumer, pipeline.client), threading.Event())  # asked for partitions only

    with pytest.raises(Fenced, match="another process is the rescaler of cluster 'sim' now"):
        begun(Overtaken).write(Effects(), [], [], None, Traces())


def test_memory_lies_in_the_partition_of_its_cluster(pipeline: Pipeline) -> None:
    """Records of the memory lie where the cluster's decisions lie, and are enough to start elsewhere."""
    pipeline.process()
    act = decision(T0, {"map": 4})
    pipeline.decide(act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "desired")], 60, "the command")
    log = reader(pipeline.settings, RESCALER_STATE, DECISIONS)
    records = list(log.read_to_end())
    log.close()
    assert {record.partition() for record in records} == {partition_of("sim", TOPICS[DECISIONS].partitions)}
    kinds = Counter(record.kind for record in kept(pipeline.settings))
    assert kinds == Counter({"cluster": 1, "job": 1, "request": 1})


def test_a_memory_that_cannot_be_read_holds_its_job_until_it_is_skipped(pipeline: Pipeline) -> None:
    """Records that are no memory stop nobody; the job's next act is refused, and carried out once its record was skipped."""
    topic = TopicNames(pipeline.settings.topic_prefix)(RESCALER_STATE)
    where = partition_of("sim", TOPICS[RESCALER_STATE].partitions)
    for key in (
        b"\xff\xfe",
        b"other/job/x",
        b"sim/",
        b"sim/x",
        b"sim/job/sim/\xff",
        b"sim/cluster/balance",
        f"sim/job/{JOB}".encode(),
    ):
        pipeline.client.produce(topic, b"junk", key=key, partition=where)
    assert pipeline.client.flush(20) == 0
    process, port = pipeline.process()
    first, second = decision(T0, {"map": 4}), decision(T0 + 1, {"map": 4})
    pipeline.decide(first)
    wait_until(lambda: pipeline.said(first) == [("refused", "memory_unreadable")], 60, "the refusal")
    assert is_active(port)
    skipped = ["skip", RESCALER_STATE, f"sim/job/{JOB}", "--by", "ana", "--why", "it is junk"]
    environment = to_environment(pipeline.settings)
    assert "stop them first" in str(CliRunner().invoke(topics_command, skipped, env=environment).exception)
    process.terminate()
    process.wait(PATIENT_S)
    done = CliRunner().invoke(topics_command, skipped, env=environment)
    assert done.output.strip() == f"sim/job/{JOB} skipped; the rescaler of cluster sim begins without it", done.exception
    letters = reader(pipeline.settings, DEAD_LETTERS)
    said = [(each.reason, each.message) for record in letters.read_to_end() if (each := decode(record.value(), DeadLetter))]
    letters.close()
    assert said == [("skipped", "skipped by ana: it is junk")]
    pipeline.process()
    pipeline.decide(second)
    wait_until(lambda: pipeline.said(second) == [("commanded", "desired")], 60, "the command")


def test_an_engine_that_is_away_is_waited_for(pipeline: Pipeline) -> None:
    """A command waits for the engine and is carried out when it returns; the rescaler stays up."""
    (engine_port,) = free_ports(1)
    pipeline.settings = dataclasses.replace(pipeline.settings, engine_url=f"http://127.0.0.1:{engine_port}")
    _, port = pipeline.process()
    act = decision(T0, {"map": 4})
    pipeline.decide(act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "desired")], 60, "the command")
    with served(pipeline.engine, engine_port):
        wait_until(lambda: pipeline.statuses() == ["accepted"], 30, "the acceptance")
    assert is_active(port)
