"""The actuator's thread without its Kafka: which commands reach the engine, and what ends one of them."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import Message

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.wire import encode
from surescale.engines.ports.actuator import JobStatus
from surescale.rescaler.control.job.memory import CommandStatus
from surescale.rescaler.service import actuator
from surescale.rescaler.service.actuator import ActuatorThread
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.rescaler.service.traces import Traces
from tests.support.controller_world import CLUSTER, JOB, OTHER_JOB, START_MS, controller, decision, job, view
from tests.support.fake_engine import FakeEngine

T0 = START_MS


class Kafka:
    """An actuator's client, which hands over commands; and what the actuator says in the end."""

    def __init__(self, *values: bytes) -> None:
        self._left = [cast(Message, Read(value, offset)) for offset, value in enumerate(values)]
        self.reports: list[Progress] = []
        self.carried_out_to: int | None = None

    def poll(self, _: float) -> Message | None:
        """Return the next record."""
        return self._left.pop(0) if self._left else None

    def committed(self, at: list[Any], _: float) -> list[Any]:
        """Return the beginning."""
        return at

    def assign(self, _: list[Any]) -> None:
        """Read what the test wants."""

    def consumer_group_metadata(self) -> str:
        """Return the group in short."""
        return "actuators"

    def close(self) -> None:
        """Nothing is open."""


class Read:
    """A record as a consumer hands it over."""

    topic = staticmethod(lambda: "reschedule-commands")
    error = staticmethod(lambda: None)
    headers = staticmethod(lambda: None)

    def __init__(self, value: bytes, offset: int) -> None:
        self.value, self.offset = lambda: value, lambda: offset


class Crashing(FakeEngine):
    """An engine whose client has a fault that shows with one job."""

    def request(self, command: RescheduleCommand) -> Any:
        """Fail for one job."""
        if command.job == JOB:
            raise ZeroDivisionError("as the test wants")
        return super().request(command)


def commands() -> tuple[Any, list[RescheduleCommand]]:
    """What a rescaler knows, and its two commands."""
    of, seen = controller(), view(job(), job(OTHER_JOB, units=(1, 5)))
    made = [*of.on_decision(decision(T0, {"map": 3}), seen, T0).commands]
    made += of.on_decision(decision(T0, {"map": 3}, of=OTHER_JOB), seen, T0).commands
    return of.status_of, made


def worked(
    monkeypatch: pytest.MonkeyPatch, engine: FakeEngine, status_of: Any, *values: bytes, until: Callable[[], bool] = lambda: True
) -> tuple[Kafka, Status]:
    """Let an actuator work through these records."""
    kafka, status, looks = Kafka(*values), Status(CLUSTER), threading.Semaphore(0)
    monkeypatch.setattr(actuator, "consumer", lambda *_: kafka)
    monkeypatch.setattr(actuator, "partitions_of", lambda *_: [0])

    def now_ms() -> int:
        looks.release()
        return T0

    worker = ActuatorThread(RescalerSettings(), engine, status_of, now_ms, status, logging.getLogger("test"), Traces())
    worker.start()
    rounds = 0
    while rounds < len(values) + 2 or not until():
        assert looks.acquire(timeout=20)
        rounds += 1
    worker.stop()
    worker.check()
    has_reports, told = worker.has_reports(), worker.take()
    assert has_reports == bool(told.reports)
    assert not worker.take().reports  # each is handed over once
    kafka.reports = list(told.reports)
    kafka.carried_out_to = told.carried_out.at.offset if told.carried_out else None
    return kafka, status


def test_only_commands_of_its_own_rescaler_reach_the_engine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Forged ones are counted, and named now and then; one that cannot be read is passed."""
    status_of, (own, other) = commands()
    forged = [
        msgspec.structs.replace(own, command_id="whatever-i-like"),
        msgspec.structs.replace(own, desired_generation=2**53),
        msgspec.structs.replace(own, changes=()),
        msgspec.structs.replace(own, job="sim/nobody"),
    ]
    engine = FakeEngine(now_ms=T0, jobs={JOB, OTHER_JOB})
    values = [b"{", *map(encode, forged), encode(own), encode(msgspec.structs.replace(own, job="noslash")), encode(other)]
    kafka, status = worked(monkeypatch, engine, status_of, *values)
    assert engine.asked == [own.command_id, other.command_id]
    assert {report.command_id for report in kafka.reports} == {own.command_id, other.command_id}
    assert (status.report()["unknown_commands"], status.report()["rejected"]) == (4, 2)
    assert sum("not a command of this rescaler" in record.message for record in caplog.records) == 1


def test_a_command_that_is_over_is_passed_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read again after a restart."""
    _, (own, _) = commands()
    engine = FakeEngine(now_ms=T0, jobs={JOB})
    kafka, status = worked(monkeypatch, engine, lambda _: CommandStatus.OVER, encode(own))
    assert (engine.asked, kafka.reports, kafka.carried_out_to) == ([], [], 1)
    assert "unknown_commands" not in status.report()


def test_an_unknown_command_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is of the process that has just taken over, that is not written: positions are part of transactions."""
    _, (own, _) = commands()
    kafka, _ = worked(monkeypatch, FakeEngine(now_ms=T0), lambda _: CommandStatus.UNKNOWN, encode(own))
    assert kafka.carried_out_to == 1


def test_an_error_nobody_foresaw_fails_one_command_and_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on, and the command's offset is passed."""
    status_of, (own, other) = commands()
    engine = Crashing(now_ms=T0, jobs={JOB, OTHER_JOB})
    kafka, _ = worked(monkeypatch, engine, status_of, encode(own), encode(other))
    reports = {(report.job, report.status, report.code) for report in kafka.reports}
    assert reports == {(JOB, "failed", "ACTUATOR_ERROR"), (OTHER_JOB, "accepted", "")}
    assert kafka.carried_out_to == 1
    assert "an unforeseen error ends this command" in caplog.text


class Slow(FakeEngine):
    """An engine that takes a moment for each answer, and counts them."""

    def __init__(self, **of: Any) -> None:
        super().__init__(**of)
        self.looks = Counter[str]()
        self.before_the_last = 0
        """Looks when the last command was requested."""

    def request(self, command: RescheduleCommand) -> Any:
        """Note how often it was looked at before."""
        self.before_the_last = self.looks.total()
        return super().request(command)

    def look(self, job: str) -> JobStatus:
        """Answer late."""
        time.sleep(0.002)
        self.looks[job] += 1
        return super().look(job)


def test_a_fleets_commands_are_requested_before_the_engine_is_looked_at_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand jobs that are decided on in one minute: with a command a round, most were not requested by their deadline.

    Each is looked at again all the same.
    """
    _, (own, _) = commands()
    made = [msgspec.structs.replace(own, job=f"sim/j{n:03}", command_id=f"c{n}", action="prepare") for n in range(200)]
    engine = Slow(now_ms=T0, jobs={each.job for each in made}, warm_ms=3_600_000)
    monkeypatch.setattr(actuator, "ROUND_S", 0.1)

    def all_seen_again() -> bool:
        return len(engine.looks) == len(made) and min(engine.looks.values()) >= 4

    kafka, _ = worked(monkeypatch, engine, lambda _: CommandStatus.OUTSTANDING, *map(encode, made), until=all_seen_again)
    assert sorted(engine.asked) == sorted(each.command_id for each in made)
    assert engine.before_the_last < 3 * len(made)
    assert [report.status for report in kafka.reports].count("accepted") == len(made)
    assert kafka.carried_out_to == 0
