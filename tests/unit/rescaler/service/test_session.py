"""A session without its Kafka: in which order news is heard, how it begins, and what is left of an activation that fails."""

import logging
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from surescale.contracts.commands import Progress
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import EngineEvent
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.wire import encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from surescale.rescaler.service.active import ActiveRescaler, in_order
from surescale.rescaler.service.actuator import ActuatorReports, ActuatorThread
from surescale.rescaler.service.pipeline_view import PipelineView
from surescale.rescaler.service.session import Session
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.rescaler.service.traces import Traces
from surescale.rescaler.service.transactions import Transactions
from surescale.runtime.kafka_clock import KafkaClock
from surescale.runtime.kafka_transactions import TransactionLost
from surescale.runtime.topic_ids import TopicIds
from tests.support.controller_world import (
    CLUSTER,
    JOB,
    MINUTE_MS,
    OTHER_JOB,
    START_MS,
    cluster,
    decision,
    job,
    view,
    without_units,
)


def report(status: str, at_ms: int, of: str = f"{JOB}#1.0") -> Progress:
    """What an actuator reported on a command."""
    return Progress(
        cluster=CLUSTER,
        job=of.partition("#")[0],
        command_id=of,
        desired_generation=1,
        status=status,  # type: ignore[arg-type]
        at_ms=at_ms,
    )


def test_reports_on_one_command_keep_their_order() -> None:
    """An actuator that began again reports the acceptance at its own time, and an end that came before that."""
    accepted, failed = report("accepted", 130), report("failed", 100)
    assert in_order([accepted, failed]) == [accepted, failed]


def test_reports_on_different_commands_go_by_time_then_job() -> None:
    """Whoever reported first."""
    late, early = report("applied", 200, f"{JOB}#1.0"), report("applied", 100, f"{OTHER_JOB}#1.0")
    same = report("applied", 200, f"{OTHER_JOB}#2.0")
    assert in_order([same, late, early]) == [early, late, same]


def test_events_go_by_time() -> None:
    """Then by sequence."""
    events = [
        EngineEvent(cluster=CLUSTER, sequence=sequence, at_ms=at_ms, kind="checkpoint_completed", job=JOB)
        for sequence, at_ms in ((3, 20), (2, 20), (1, 30))
    ]
    assert [event.sequence for event in in_order(events)] == [2, 3, 1]


class Closes:
    """An active rescaler that only notes that it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Note it."""
        self.is_closed = True


class Member:
    """A client that gets the cluster's partition at once, from a broker that goes away before the committed offset is read."""

    def subscribe(self, topics: list[str], on_assign: Any, **_: object) -> None:
        """Assign the partition."""
        on_assign(self, [TopicPartition(topics[0], 0)])

    def poll(self, _: float) -> None:
        """Nothing has arrived."""

    def committed(self, *_: object) -> Any:
        """Fail."""
        raise KafkaException("the broker is away")


def test_an_activation_that_fails_leaves_no_actuator_behind() -> None:
    """The broker went away between the memory and the committed offset: a second actuator would work beside the next one."""
    opened, log, member = Closes(), logging.getLogger("test"), cast(Consumer, Member())
    decisions, status, stop = TopicPartition("decisions", 0), Status(CLUSTER), threading.Event()
    session = Session(CLUSTER, member, decisions, lambda: cast(ActiveRescaler, opened), status, stop, log)
    with pytest.raises(KafkaException):
        session.run()
    assert opened.is_closed


class Topics:
    """The topics of the memory."""

    def __init__(self) -> None:
        self.made_again: tuple[str, ...] = ()

    def look(self) -> tuple[str, ...]:
        """Which were made again."""
        return self.made_again


class World:
    """Everything around an active rescaler, without Kafka: what it sees, and what it writes."""

    is_in_lockstep = False

    def __init__(self, seen: View) -> None:
        self.seen, self.time_ms = seen, START_MS
        self.clock = KafkaClock(lambda: self.time_ms + self.ahead_ms, lambda: self.time_ms)
        self.ahead_ms = 0
        self.looks = 0
        self.see_time()
        self.written: list[Effects] = []
        self.reports: list[Progress] = []
        self.topics = Topics()

    def view(self) -> View:
        """The world as the test wants it."""
        return self.seen

    def now_ms(self) -> int:
        """The time as this machine's clock has it."""
        return self.time_ms + self.ahead_ms

    def at_ms(self, wall_ms: int) -> int:
        """The wall's clock is the pipeline's."""
        return wall_ms

    def apart_ms_max(self) -> int:
        """Two minutes."""
        return 2 * MINUTE_MS

    def see_time(self) -> None:
        """Kafka acknowledges something at once."""
        self.looks += 1
        self.clock.appended(self.time_ms, 0)

    def is_up_to_date(self) -> bool:
        """Nothing is missing."""
        return True

    def refresh(self) -> list[EngineEvent]:
        """No news."""
        return []

    def look(self) -> tuple[list[EngineEvent], bool]:
        """No news."""
        return [], False

    def check(self) -> None:
        """The actuator is well."""

    def has_reports(self) -> bool:
        """The actuator has something to say."""
        return bool(self.reports)

    def take(self) -> ActuatorReports:
        """What the actuator says; it has read nothing."""
        told, self.reports = ActuatorReports(self.reports, None), []
        return told

    def start(self) -> None:
        """The actuator starts, if it has not."""

    def write(self, effects: Effects, *_: object) -> None:
        """Keep what is written."""
        self.written.append(effects)


def active(world: World, records: Sequence[RescalerRecord] = (), status: Status | None = None) -> ActiveRescaler:
    """A rescaler in this world that remembers this."""
    settings = RescalerSettings()
    return ActiveRescaler(
        settings,
        Controller(CLUSTER, settings.control(), records),
        cast(Transactions, world),
        cast(PipelineView, world),
        cast(ActuatorThread, world),
        status or Status(CLUSTER),
        logging.getLogger("test"),
        Traces(),
        cast(TopicIds, world.topics),
    )


def test_an_active_rescaler_begins_by_looking_at_the_world() -> None:
    """A job lost its units while none was active: nothing new has to happen for it to be started again."""
    world = World(view(without_units(job())))
    active(world).round([])
    assert [command.decision_id for effects in world.written for command in effects.commands] == [f"{JOB}@{START_MS}/recovery"]


def test_nothing_is_commanded_once_the_memory_has_lost_its_topic() -> None:
    """The session ends, and with it what it remembered."""
    world = World(view(without_units(job())))
    rescaler = active(world)
    world.topics.made_again = ("rescaler-state",)
    with pytest.raises(TransactionLost, match="rescaler-state made again"):
        rescaler.round([])
    assert world.written == []


class Arrived:
    """A decision as a consumer hands it over."""

    topic = staticmethod(lambda: "decisions")
    partition = staticmethod(lambda: 0)
    timestamp = staticmethod(lambda: (1, START_MS))
    headers = staticmethod(lambda: None)

    def __init__(self, decided: Decision, offset: int) -> None:
        self._raw, self._offset = encode(decided), offset

    def value(self) -> bytes:
        """Its bytes."""
        return self._raw

    def offset(self) -> int:
        """Where it lies."""
        return self._offset


def arrived(*decisions: Decision) -> list[Message]:
    """Decisions as a consumer hands them over."""
    return [cast(Message, Arrived(each, offset)) for offset, each in enumerate(decisions)]


def test_of_the_decisions_of_an_outage_only_the_newest_is_carried_out() -> None:
    """Each knows the newest of those that wait."""
    world = World(view(job()))
    world.time_ms = START_MS + 11 * MINUTE_MS
    active(world).round(arrived(*(decision(START_MS + n * 10 * MINUTE_MS, {"map": 3 + n}) for n in range(2))))
    statuses = [outcome.status for effects in world.written for outcome in effects.outcomes]
    assert statuses == ["superseded", "commanded"]


def test_what_was_due_before_an_outage_gives_way_to_what_waits_after_it() -> None:
    """Before timers fire."""
    world = World(view(job(units=(0, 1)), hosts=cluster(1)))
    one = active(world)
    one.round(arrived(decision(START_MS, {"map": 8}, floor=8)))
    world.seen, world.time_ms = view(job(units=(0, 1)), hosts=cluster(3)), START_MS + 20 * MINUTE_MS
    one.round(arrived(decision(world.time_ms, {"map": 3})))
    assert [outcome.status for outcome in world.written[-1].outcomes] == ["superseded", "commanded"]


def test_a_report_is_written_with_what_it_changes() -> None:
    """In one transaction with the memory, so nobody reads of an end that a crash could undo. A late report is not written."""
    world = World(view(job()))
    one = active(world)
    one.round(arrived(decision(START_MS, {"map": 3})))
    world.reports = [report("accepted", START_MS), report("applied", START_MS + 1), report("failed", START_MS + 2)]
    one.round([])
    assert [each.status for each in world.written[-1].progress] == ["accepted", "applied"]
    assert f"{CLUSTER}/job/{JOB}" in [record.key for record in world.written[-1].records]


def test_a_command_that_nobody_reported_on_in_time_ends_in_the_first_round() -> None:
    """The process before died; whoever takes over after the deadline writes the end, before its actuator reads the command."""
    world = World(view(job()))
    before = active(world)
    before.round(arrived(decision(START_MS, {"map": 3})))
    records = [each.record for each in world.written[-1].records if each.record is not None]
    world.time_ms, world.seen = START_MS + 3_600_000, view(job())
    active(world, records).round([])
    (end,) = world.written[-1].progress
    assert (end.command_id, end.status, end.code) == (f"{JOB}#1.0", "failed", "NOT_REPORTED")


DAY_MS = 24 * 60 * MINUTE_MS


@pytest.mark.parametrize("minutes", [-24 * 60, -30, -5, 5, 30, 24 * 60])
def test_while_its_clock_is_apart_a_rescaler_holds_every_job_says_why_and_then_goes_on(minutes: int) -> None:
    """A decision that lies ahead of a clock that is behind is no dead letter; one that is ahead leaves no times to come."""
    world, status = World(view(job())), Status(CLUSTER)
    rescaler = active(world, status=status)
    status.state = "active"
    world.time_ms, world.ahead_ms = START_MS + MINUTE_MS, minutes * MINUTE_MS
    rescaler.round(arrived(decision(START_MS, {"map": 4})))
    (held,) = [record for effects in world.written for record in effects.records]
    assert held.record is not None
    assert held.record.summary is not None
    (degraded,) = [each for each in held.record.summary.conditions if each.type == "Degraded"]
    assert (degraded.status, degraded.reason) == (True, "ClockApart")
    assert abs(degraded.last_transition_ms - world.time_ms) <= 1, "by Kafka's clock"
    long = "24 h" if abs(minutes) > 60 else f"{abs(minutes)} min"
    assert f"is {long} {'ahead of' if minutes > 0 else 'behind'} Kafka's; set it right (NTP)" in degraded.message
    assert rescaler.is_held
    assert (status.report()["ready"], status.report()["clock"]) == (False, degraded.message.removeprefix("nothing is done: "))
    rescaler.round(arrived())
    assert len(world.written) == 1, "said once"
    world.ahead_ms = 0
    rescaler.round([])
    healthy, done = world.written[1:]
    assert [each.reason for record in healthy.records for each in record.record.summary.conditions][-1] == "Healthy"  # type: ignore[union-attr]  # it has both
    assert [outcome.status for outcome in done.outcomes] == ["commanded"]
    assert not rescaler.is_held
    assert status.report()["ready"]


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_clock_that_is_a_minute_apart_holds_nothing(minutes: int) -> None:
    """So much is allowed."""
    world = World(view(job()))
    rescaler = active(world)
    world.time_ms, world.ahead_ms = START_MS + 2 * MINUTE_MS, minutes * MINUTE_MS
    rescaler.round(arrived(decision(START_MS + MINUTE_MS, {"map": 4})))
    assert [outcome.status for effects in world.written for outcome in effects.outcomes] == ["commanded"]


def test_kafka_is_asked_again_when_it_was_its_clock_that_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set right while nothing is written."""
    world = World(view(job()))
    rescaler = active(world)
    world.clock.appended(START_MS - DAY_MS, 0)
    monkeypatch.setattr("surescale.rescaler.service.active.SEE_TIME_EVERY_S", 1e9)
    rescaler.round([])
    assert rescaler.is_held
    assert world.looks == 1
    monkeypatch.setattr("surescale.rescaler.service.active.SEE_TIME_EVERY_S", 0.0)
    rescaler.round([])
    assert not rescaler.is_held
    assert world.looks == 2
