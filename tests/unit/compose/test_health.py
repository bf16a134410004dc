"""The health command against real health endpoints of the roles' own server."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from surescale.contracts.errors import SurescaleError
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.health import HealthServer
from surescale.runtime.ports import free_port
from surescale.services.tools.health import PORT_VARIABLE, command
from tests.support.watched import WatchedTime, idle_watchdog


@contextmanager
def serving(document: Mapping[str, Any]) -> Iterator[int]:
    """Serve a health document and yield its port."""
    port = free_port()
    with HealthServer(PipelineSettings(health_port=port), lambda: document, idle_watchdog(str(document["role"]))):
        yield port


def run(*arguments: str, **environment: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, arguments, env={PORT_VARIABLE: "", **environment})


def reason(result: Result) -> str:
    """Return the message of the error that ended the command."""
    assert isinstance(result.exception, SurescaleError), result.exception
    return str(result.exception)


def test_a_ready_role_is_well() -> None:
    """Its counters are shown, on the port of the environment."""
    with serving({"role": "agent", "ready": True, "decisions": 7, "per_job": {}}) as port:
        result = run("agent", **{PORT_VARIABLE: str(port)})
    assert (result.exit_code, result.output) == (0, "agent: ready (decisions 7)\n")


def test_a_role_that_is_not_ready_is_not_well_but_alive() -> None:
    """Readiness and liveness are different questions."""
    with serving({"role": "rescaler", "ready": False, "state": "waiting"}) as port:
        assert reason(run("rescaler", "--port", str(port))) == "rescaler: not ready (state waiting)"
        result = run("rescaler", "--port", str(port), "--alive")
    assert (result.exit_code, result.output) == (0, "rescaler: alive\n")


def test_a_role_whose_loop_hangs_is_not_alive_and_the_probe_says_which() -> None:
    """Whatever it says of its readiness."""
    time_of, port = WatchedTime(), free_port()
    settings = PipelineSettings(health_port=port)
    with HealthServer(settings, lambda: {"role": "agent", "ready": True}, time_of.watchdog), time_of.watchdog.apart("the loop"):
        time_of.run(130)
        assert reason(run("agent", "--port", str(port), "--alive")) == "agent: the loop of agent has not turned for 130 s"
        assert run("agent", "--port", str(port)).exit_code == 0


def test_another_role_on_the_port_is_not_well() -> None:
    """A mixed-up port is noticed, even when that role is ready."""
    with serving({"role": "monitor", "ready": True}) as port:
        assert reason(run("agent", "--port", str(port))) == "agent: the port answers for 'monitor'"


def test_nobody_on_the_port_is_not_well() -> None:
    """The address is named."""
    port = free_port()
    assert reason(run("agent", "--port", str(port))).startswith(f"no health document at http://127.0.0.1:{port}/health: ")


def test_a_port_is_asked_for() -> None:
    """A variable that is empty counts as not set."""
    assert reason(run("agent")).startswith("no port: give --port, or set SURESCALE_HEALTH_PORT")


@pytest.mark.parametrize("text", ["eighty", "0", "70000"])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    """The variable and the fix are named."""
    assert reason(run("agent", **{PORT_VARIABLE: text})).startswith(f"SURESCALE_HEALTH_PORT: '{text}' is not a port; set it")


def test_json_is_the_roles_own_document() -> None:
    """For programs, also when the role is not ready."""
    document = {"role": "state-service", "ready": False, "records": 3}
    with serving(document) as port:
        result = run("state-service", "--port", str(port), "--json")
    assert json.loads(result.output) == document
    assert result.exit_code == 1
