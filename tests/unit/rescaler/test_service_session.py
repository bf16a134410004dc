"""A session without its Kafka: in which order news is heard, how it begins, and what is left of an activation that fails."""

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaException

from contracts.commands import Progress
from contracts.messages import Decision, EngineEvent
from contracts.wire import encode
from rescaler.control.controller import Effects
from rescaler.service import session
from rescaler.service.session import ActiveRescaler, Session, in_order
from rescaler.service.settings import RescalerSettings
from rescaler.service.status import Status
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


def test_an_activation_that_fails_leaves_no_actuator_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker went away between the memory and the committed offset: a second actuator would work beside the next one."""
    closed: list[bool] = []

    class Opened:
        def __init__(self, *_: object) -> None: ...

        def close(self) -> None:
            closed.append(True)

    class Members:
        def committed(self, *_: object) -> Any:
            raise KafkaException("the broker is away")

    monkeypatch.setattr(session, "ActiveRescaler", Opened)
    one = object.__new__(Session)
    one._settings = one._engine = one._status = one._stop = None  # type: ignore[assignment]
    one._members, one._topic, one._partition = Members(), "decisions", 0  # type: ignore[assignment]
    one._log = logging.getLogger("test")
    with pytest.raises(KafkaException):
        one._activated()
    assert closed == [True]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Effects]:
    """What an active rescaler writes in a world without Kafka, in which a job has lost its units."""
    written: list[Effects] = []

    class Quiet:
        is_in_lockstep = False

        def __init__(self, *_: object) -> None: ...

        refresh = start = stop = close = check = stop_ms = lambda *_: []

        look = staticmethod(lambda: ([], False))
        now_ms = staticmethod(lambda: START_MS)
        is_up_to_date = staticmethod(lambda: True)
        view = staticmethod(lambda: view(without_units(job())))
        write = staticmethod(lambda effects, *_: written.append(effects))

    for name in ("Transactions", "RoadView", "ActuatorThread"):
        monkeypatch.setattr(session, name, Quiet)
    monkeypatch.setattr(session, "remembered", lambda _: [])
    return written


def active() -> ActiveRescaler:
    """A rescaler without Kafka."""
    return ActiveRescaler(
        RescalerSettings(),
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        Status(CLUSTER),
        threading.Event(),
        logging.getLogger("test"),
    )


def test_an_active_rescaler_begins_by_looking_at_the_world(written: list[Effects]) -> None:
    """A job lost its units while none was active: nothing new has to happen for it to be started again."""
    active().round([])
    assert [command.decision_id for effects in written for command in effects.commands] == [f"{JOB}@{START_MS}/recovery"]


class Arrived:
    """A decision as a consumer hands it over."""

    topic = staticmethod(lambda: "decisions")
    partition = staticmethod(lambda: 0)
    timestamp = staticmethod(lambda: (1, START_MS))

    def __init__(self, decided: Decision, offset: int) -> None:
        self._raw, self._offset = encode(decided), offset

    def value(self) -> bytes:
        """Its bytes."""
        return self._raw

    def offset(self) -> int:
        """Where it lies."""
        return self._offset


def test_of_the_decisions_of_an_outage_only_the_newest_is_carried_out(
    written: list[Effects], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait are told of each other."""
    one = active()
    monkeypatch.setattr(one._view, "view", lambda: view(job()))
    monkeypatch.setattr(one._view, "now_ms", lambda: START_MS + 11 * MINUTE_MS)
    acts = [decision(START_MS + n * 10 * MINUTE_MS, {"map": 3 + n}) for n in range(2)]
    one.round([Arrived(act, offset) for offset, act in enumerate(acts)])  # type: ignore[misc]
    statuses = [outcome.status for effects in written for outcome in effects.outcomes]
    assert statuses == ["superseded", "commanded"]


def test_what_was_due_before_an_outage_gives_way_to_what_waits_after_it(
    written: list[Effects], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before timers fire."""
    one, now_ms = active(), [START_MS]
    monkeypatch.setattr(one._view, "view", lambda: view(job(units=(0, 1)), hosts=cluster(1)))
    monkeypatch.setattr(one._view, "now_ms", lambda: now_ms[0])
    one.round([Arrived(decision(START_MS, {"map": 8}, floor=8), 0)])  # type: ignore[list-item]
    monkeypatch.setattr(one._view, "view", lambda: view(job(units=(0, 1)), hosts=cluster(3)))
    now_ms[0] = START_MS + 20 * MINUTE_MS
    one.round([Arrived(decision(now_ms[0], {"map": 3}), 1)])  # type: ignore[list-item]
    assert [outcome.status for outcome in written[-1].outcomes] == ["superseded", "commanded"]
