"""Who may have a decision made again over HTTP, how many at a time, and what is answered from memory. Kafka is not asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.topics import DECISIONS
from surescale.contracts.wire import encode
from surescale.services.recomputation.counterfactual import CannotRecompute
from surescale.services.recomputation.records import NotInKafka
from surescale.services.state import counterfactuals
from surescale.services.state.api import make_app
from surescale.services.state.counterfactuals import WAITING_MAX, Counterfactuals, CounterfactualsDisabled
from surescale.services.state.documents import CounterfactualDocument, HealthDocument
from surescale.services.state.record_documents import DecisionDocument
from surescale.services.state.settings import StateSettings
from surescale.services.state.write.projections import Record
from tests.support.served_page import View
from tests.support.view_documents import PLACE
from tests.support.view_pipeline import decision

DECISION = decision(1)
AT = f"/counterfactuals/{DECISION.decision_id}"


def answer(name: str) -> CounterfactualDocument:
    """Return an answer."""
    return CounterfactualDocument(
        decision_id=DECISION.decision_id,
        without=name,
        action="hold",
        reason="It would stay.",
        sizes=(),
        stand_in_reason=None,
        is_same_with_all=True,
    )


def served(redis_url: str, ends: Exception | None, body: Callable[[TestClient[Any, Any]], Awaitable[None]]) -> list[str]:
    """Run a test with a client of the API over a view with one decision; return what was asked. ``ends``: how answers end."""
    view, taken = View(redis_url, "counterfactuals-"), []

    async def decide_without(_: DecisionDocument, name: str) -> CounterfactualDocument:
        taken.append(name)
        if ends is not None:
            raise ends
        return answer(name)

    async def run() -> None:
        app = make_app(
            view.queries,
            lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0),
            redis_url="",
            decide_without=decide_without,
        )
        async with asyncio.timeout(60), TestClient(TestServer(app)) as client:
            await body(client)

    try:
        view.take([Record(DECISIONS, 0, 0, b"sim", encode(DECISION), 9)])
        asyncio.run(run())
    finally:
        view.close()
    return taken


def test_an_answer_is_given_to_programs_and_our_own_page_alone(redis_url: str) -> None:
    """A request without parameters, about an unknown decision, or from a page elsewhere asks nobody."""

    async def body(client: TestClient[Any, Any]) -> None:
        for headers in ({}, {"Sec-Fetch-Site": "same-origin"}):
            response = await client.get(AT, params={"without": "map"}, headers=headers)
            assert (response.status, (await response.json())["without"]) == (200, "map")
        tag = response.headers["ETag"]
        assert (await client.get(AT, params={"without": "map"}, headers={"If-None-Match": tag})).status == 304
        refused = [
            await client.get(AT, params={"without": "map"}, headers={"Sec-Fetch-Site": "cross-site"}),
            await client.get(AT, params={"without": "map"}, headers={"Origin": "http://elsewhere"}),
            await client.get(AT),
            await client.get(AT, params={"without": "map", "minute": "1"}),
            await client.get("/counterfactuals/sim/clicks@1/sure", params={"without": "map"}),
        ]
        assert [each.status for each in refused] == [403, 403, 400, 400, 404]

    assert served(redis_url, None, body) == ["map"] * 3


@pytest.mark.parametrize(
    ("ends", "status", "says"),
    [
        (CounterfactualsDisabled("this service decides nothing again"), 403, "this service decides nothing again"),
        (SettingsError("--without: the window has no task or minute 'x'"), 422, "without: the window has no task or minute 'x'"),
        (CannotRecompute("the window is no longer in Kafka"), 410, "the window is no longer in Kafka"),
        (NotInKafka("the decision is no longer in Kafka"), 410, "the decision is no longer in Kafka"),
        (ConnectionError("the model is not available"), 503, "the model is not available"),
    ],
)
def test_why_there_is_no_answer_is_one_line(redis_url: str, ends: SurescaleError, status: int, says: str) -> None:
    """With the status that programs go by."""

    async def body(client: TestClient[Any, Any]) -> None:
        response = await client.get(AT, params={"without": "x"})
        assert (response.status, (await response.json())["error"]) == (status, says)

    served(redis_url, ends, body)


def asked_at_once(monkeypatch: pytest.MonkeyPatch, names: list[str], settings: StateSettings) -> tuple[list[str], list[object]]:
    """Ask for all these at once; return what was decided again, in order, and all answers or errors."""
    made: list[str] = []

    async def run() -> list[object]:
        asked = Counterfactuals(settings)
        monkeypatch.setattr(Counterfactuals, "_made", lambda _self, _, name: (made.append(name), answer(name))[1])
        whole = DecisionDocument(record=DECISION, **PLACE)
        return await asyncio.gather(*(asked.answer(whole, name) for name in names), return_exceptions=True)

    return made, asyncio.run(run())


def test_each_answer_is_made_once_and_too_many_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated questions share one answer; the newest answers are kept; switched off, nobody is answered."""
    made, answers = asked_at_once(monkeypatch, ["map", "map", "-1", "map"], StateSettings())
    assert made == ["map", "-1"]
    assert [getattr(each, "without", None) for each in answers] == ["map", "map", "-1", "map"]
    made, answers = asked_at_once(monkeypatch, [str(at) for at in range(WAITING_MAX + 2)], StateSettings())
    assert [isinstance(each, ConnectionError) for each in answers] == [False] * WAITING_MAX + [True] * 2
    monkeypatch.setattr(counterfactuals, "KEPT_MAX", 1)
    assert asked_at_once(monkeypatch, ["a", "b", "a"], StateSettings())[0] == ["a", "b", "a"]
    made, answers = asked_at_once(monkeypatch, ["map"], StateSettings(counterfactual_seconds=0))
    assert (made, type(answers[0])) == ([], CounterfactualsDisabled)
    with pytest.raises(SettingsError, match="SURESCALE_COUNTERFACTUAL_SECONDS: must be between 0 and 600, not -1"):
        StateSettings(counterfactual_seconds=-1)
