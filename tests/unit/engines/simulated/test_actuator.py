"""The actuator's client of an engine, on a real socket: what it makes of answers that are not as they should be."""

import json
import socket
import threading
from itertools import product

import pytest

from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from surescale.engines.simulated.actuator import EngineHttp
from tests.support.controller_world import START_MS, controller, decision, view
from tests.support.engine_stub import EngineStub

RESCALE = {"command_id": "sim/clicks#1.0", "state": "warming", "effective_at_ms": 1, "done_at_ms": 2}


def test_what_an_engine_leaves_out_of_a_rescale_counts_as_none() -> None:
    """An engine without learners names neither them, nor their lag, nor units."""
    with EngineStub() as engine:
        engine.raw["/jobs/clicks"] = json.dumps({"generation": 0, "rescale": RESCALE | {"units": None}}).encode()
        rescale = EngineHttp(engine.url).look("sim/clicks").rescale
    assert rescale is not None
    assert (rescale.learners, rescale.lag_bytes, rescale.units) == (0, 0, ())


NO_TIMES = product(("effective_at_ms", "done_at_ms"), (-1, True, 2**63, 2**64, 0.5, "2", None))
"""What no record can carry: progress that its readers refuse would end nothing."""


@pytest.mark.parametrize(("field", "value"), [("learners", "two"), ("lag_bytes", 0.5), ("units", 7), ("units", ["7"]), *NO_TIMES])
def test_a_figure_of_another_kind_counts_as_away(field: str, value: object) -> None:
    """It is asked again: such an answer ends no actuator."""
    with EngineStub() as engine:
        engine.raw["/jobs/clicks"] = json.dumps({"generation": 0, "rescale": RESCALE | {field: value}}).encode()
        with pytest.raises(EngineUnavailable, match=field):
            EngineHttp(engine.url).look("sim/clicks")


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * 100_000,
        b'{"generation": 0, "rescale": ' + b'{"a": ' * 100_000,
        b'{"generation": 0, "rescale": {"code": "\xff"}}',
        b'{"generation": 0, "rescale": {"code": "\\ud800"}}',
        b"[]",
        b'{"generation": ' + b"9" * 5_000 + b"}",
        b"\x00",
        b"",
    ],
    ids=["deep", "deep object", "not UTF-8", "lone surrogate", "no object", "long number", "NUL", "nothing"],
)
def test_an_answer_that_is_no_such_document_counts_as_away(answer: bytes) -> None:
    """Whatever it is, it is one declared error."""
    with EngineStub() as engine:
        engine.raw["/jobs/clicks"] = answer
        with pytest.raises(EngineUnavailable, match="unexpected answer"):
            EngineHttp(engine.url).look("sim/clicks")


def test_a_refusal_that_breaks_off_is_still_a_refusal() -> None:
    """The engine hangs up in the middle of saying why: its code is unknown, the actuator goes on."""
    (command,) = controller().on_decision(decision(START_MS, {"map": 3}), view(), START_MS).commands
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: 500\r\n\r\n{")

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(EngineRefused, match="HTTP_409"):
            EngineHttp(f"http://127.0.0.1:{server.getsockname()[1]}").request(command)
