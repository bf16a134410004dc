"""The engine's HTTP API: its parameters, whose changes it refuses, and how much it answers at once."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from surescale.contracts.errors import RecordRejected
from surescale.services.engine import api
from surescale.services.engine.api import application, query_number
from surescale.services.engine.clock_driver import ClockDriver
from surescale.services.engine.settings import EngineSettings
from tests.support.watched import idle_watchdog
from tests.unit.simulation.cases import MINUTE, cluster


@pytest.mark.parametrize("said", ["x", "-1", "1.5", "9" * 5_000])
def test_a_parameter_that_is_not_a_number_is_refused_by_name(said: str) -> None:
    """Also one with more digits than Python converts."""
    with pytest.raises(RecordRejected, match=r"^after: .* is not a whole number"):
        query_number(make_mocked_request("GET", f"/events?after={said}"), "after", 0)


def asked(method: str, path: str, minutes: int = 0, **more: Any) -> tuple[int, Any]:
    """Return status and document of an engine that has run for some minutes."""

    async def ask() -> tuple[int, Any]:
        of = cluster()
        of.advance(of.start_ms + minutes * MINUTE)
        driver = ClockDriver(of, EngineSettings(), lambda _: None)
        server = TestServer(application(driver, lambda: True, idle_watchdog("engine")))
        async with TestClient(server) as client, client.request(method, path, **more) as answer:
            return answer.status, await answer.json()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/clock/start"), ("POST", "/hosts"), ("PATCH", "/hosts/m1"), ("DELETE", "/hosts/m1")]
)
@pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1"])
def test_no_page_in_a_browser_can_change_anything(method: str, path: str, origin: str) -> None:
    """The person who opens the page may reach the engine; under a name that points here the page's origin may even be ours."""
    status, document = asked(method, path, headers={"Origin": origin})
    assert (status, document["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_must_be_json_by_name(content_type: str) -> None:
    """These a page may send to anywhere without asking first."""
    status, document = asked("POST", "/hosts", data=b"{}", headers={"Content-Type": content_type})
    assert (status, document["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_changes_from_elsewhere_are_carried_out() -> None:
    """With a JSON body, or without any."""
    assert asked("POST", "/clock/start")[0] == 200
    assert asked("POST", "/hosts", json={"host": "new", "unit_count": 4})[0] == 201


def test_an_answer_has_no_more_minutes_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one, so that a client that asks for the next ones gets on."""
    monkeypatch.setattr(ClockDriver, "reached_wall_ms", lambda *_: 7)  # no clock moves in this test
    path = "/jobs/j_2521346/figures?after_ms=0&limit_minutes=600"
    whole = asked("GET", path, minutes=5)[1]["minutes"]
    assert len(whole) == 5
    monkeypatch.setattr(api, "FIGURES_BYTES_MAX", 1)
    assert asked("GET", path, minutes=5)[1]["minutes"] == whole[:1]
