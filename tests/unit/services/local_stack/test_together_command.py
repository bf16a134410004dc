"""Several roles in one process: what they are given, and what becomes of the others when one fails."""

import logging
import threading
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.services.local_stack import together_command
from surescale.services.local_stack.together_command import command

LOG = logging.getLogger("surescale.serve")
Serve = Callable[..., None]


class Point:
    """An entry point that loads this function."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve

    def load(self) -> Serve:
        """Return the function."""
        return self._serve


def roles(monkeypatch: pytest.MonkeyPatch, **known: Serve) -> None:
    """Let these roles be the only ones."""
    monkeypatch.setattr(together_command, "entry_points", lambda *, group, name: [Point(known[name])])


def test_each_role_gets_its_port_its_log_and_the_same_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that has nothing left to do leaves the others alone."""
    stop, given = threading.Event(), dict[str, tuple[object, str, object]]()

    def finite(stop: threading.Event, log: logging.Logger, *, health_port: int) -> None:
        given["finite"] = (stop, log.name, health_port)

    def endless(stop: threading.Event, log: logging.Logger, *, health_port: int | None) -> None:
        assert not stop.is_set()
        given["endless"] = (stop, log.name, health_port)
        stop.set()

    roles(monkeypatch, finite=finite, endless=endless)
    together_command.run_together({"finite": 8081, "endless": None}, stop, LOG)
    assert given == {"finite": (stop, "surescale.finite", 8081), "endless": (stop, "surescale.endless", None)}


def test_one_failure_ends_all_and_is_the_error_of_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The others end in order, by the event they all watch."""
    ended = threading.Event()

    def broken(stop: threading.Event, log: logging.Logger, *, health_port: int) -> None:
        raise SettingsError("SURESCALE_REDIS_URL: no address")

    def patient(stop: threading.Event, log: logging.Logger, *, health_port: int) -> None:
        assert stop.wait(30)
        ended.set()

    roles(monkeypatch, broken=broken, patient=patient)
    with pytest.raises(SettingsError, match="no address"):
        together_command.run_together({"patient": 1, "broken": 2}, threading.Event(), LOG)
    assert ended.is_set()
    assert "broken failed, so all roles of this process end: SURESCALE_REDIS_URL: no address" in caplog.text


def test_the_roles_that_can_share_a_process_are_installed() -> None:
    """Each of them can be loaded."""
    assert together_command.role_names() == ["agent", "monitor", "rescaler", "state-service"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["spark"], "'spark' is not a role that can share a process; choose from agent, monitor, rescaler, state-service"),
        (["agent:1", "agent:2"], "agent is named twice"),
        (["agent:http"], "'http' is not a port; write agent:8081"),
        (["agent:70000"], "'70000' is not a port"),
        ([], "Missing argument"),
    ],
)
def test_a_wrong_command_line_says_what_to_write(arguments: list[str], message: str) -> None:
    """In one line, before anything starts."""
    ran = CliRunner().invoke(command, arguments)
    assert (ran.exit_code, message in ran.output) == (2, True)
