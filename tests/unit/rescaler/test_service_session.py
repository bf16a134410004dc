"""A session without its Kafka: in which order news is heard, how it begins, and what is left of an activation that fails."""

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaException

from contracts.commands import Progress
from contracts.messages import EngineEvent
from rescaler.control.controller import Effects
from rescaler.service import session
from rescaler.service.session import ActiveRescaler, Session, in_order
from rescaler.service.settings import RescalerSettings
from rescaler.service.status import Status
from tests.support.controller_world import CLUSTER, JOB, OTHER_JOB, START_MS, job, view, without_units


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


def test_an_active_rescaler_begins_by_looking_at_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job lost its units while none was active: nothing new has to happen for it to be started again."""
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
    active = ActiveRescaler(
        RescalerSettings(),
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        Status(CLUSTER),
        threading.Event(),
        logging.getLogger("test"),
    )
    active.round([])
    assert [command.decision_id for effects in written for command in effects.commands] == [f"{JOB}@{START_MS}/recovery"]
