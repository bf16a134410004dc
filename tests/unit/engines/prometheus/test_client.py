"""What the client makes of Prometheus' answers, also of hostile ones."""

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.engines.prometheus import client as prometheus_client
from surescale.engines.prometheus.client import PrometheusClient, PrometheusUnavailable, QueryRefused, Series
from surescale.runtime.access import Access
from surescale.runtime.http import LargeAnswers
from surescale.runtime.ports import free_port
from tests.support.fake_prometheus import FakePrometheus, entry, fake_prometheus, success
from tests.support.stub_server import StubResponse
from tests.support.waiting import PATIENT_S

AT_MS = 1_700_000_040_000


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    """A server without series."""
    with fake_prometheus() as played:
        yield played


@pytest.fixture
def client(prometheus: FakePrometheus) -> Iterator[PrometheusClient]:
    """Its client."""
    made = PrometheusClient(prometheus.url)
    yield made
    made.close()


def test_a_series_comes_with_the_time_of_its_scrape(prometheus: FakePrometheus, client: PrometheusClient) -> None:
    """In one request, at the time asked for."""
    prometheus.series["done_total"] = [({"__name__": "done_total", "task": "parse"}, 12.5)]
    prometheus.age_s = 7.25
    (found,) = client.dated("done_total", AT_MS)
    assert found == Series({"__name__": "done_total", "task": "parse"}, 12.5, AT_MS - 7_250)
    assert [at_s for _, at_s in prometheus.queries] == [AT_MS / 1000]


def test_a_series_without_a_time_of_scraping_is_of_the_time_asked_for(
    prometheus: FakePrometheus, client: PrometheusClient
) -> None:
    """Servers that are only like Prometheus may leave it out; a time to come is no time of scraping."""
    prometheus.instead = lambda _: success("vector", [entry({"task": "parse"}, 1.0, AT_MS / 1000)])
    assert client.dated("done_total", AT_MS)[0].at_ms == AT_MS
    prometheus.instead, prometheus.age_s = lambda _: None, -3600.0
    prometheus.series["done_total"] = [({"task": "parse"}, 1.0)]
    assert client.dated("done_total", AT_MS)[0].at_ms == AT_MS


def test_values_that_are_no_numbers_are_told_apart(prometheus: FakePrometheus, client: PrometheusClient) -> None:
    """Prometheus writes NaN and infinity as text; other text is no number."""
    prometheus.series["x"] = [({"n": "0"}, math.nan), ({"n": "1"}, math.inf)]
    assert [str(each.value) for each in client.dated("x", AT_MS)] == ["nan", "inf"]
    prometheus.instead = lambda _: success("vector", [{"metric": {}, "value": [1, "a lot"]}])
    assert math.isnan(client.vector("x", AT_MS)[0][1])


REFUSED = {
    "matrix": (success("matrix", []), "leave out"),
    "scalar": (success("scalar", [1, "2"]), "no series with labels"),
    "histogram": (success("vector", [{"metric": {}, "histogram": [1, {"count": "1"}]}]), "histogram_sum"),
    "too many": (success("vector", [{"metric": {}, "value": [1, "2"]}] * 100_001), "select fewer"),
    "syntax": (
        StubResponse(400, b'{"status":"error","errorType":"bad_data","error":"1:3: parse error: unexpected end of input"}'),
        "parse error: unexpected end",
    ),
    "execution": (
        StubResponse(422, b'{"status":"error","errorType":"execution","error":"multiple matches\\nfor labels"}'),
        "multiple matches for",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_expression_that_cannot_be_used_is_refused_with_the_reason(
    prometheus: FakePrometheus, client: PrometheusClient, kind: str
) -> None:
    """In one line."""
    given, words = REFUSED[kind]
    prometheus.instead = lambda _: given
    with pytest.raises(QueryRefused, match=words) as refused:
        client.vector("x", AT_MS)
    assert "\n" not in str(refused.value)


AWAY = {
    "no JSON": (StubResponse(200, b"<html>hello</html>"), "does not answer as Prometheus does"),
    "no text": (StubResponse(200, b'"\xff\xfe"'), "does not answer as Prometheus does"),
    "nested": (StubResponse(200, b"[" * 200_000), "does not answer as Prometheus does"),
    "another document": (StubResponse(200, b'{"status": 7}'), "does not answer as Prometheus does"),
    "another result": (success("vector", {"a": 1}), "unexpected answer"),
    "not found": (StubResponse(404, b"404 page not found"), "with the path of a proxy"),
    "login": (StubResponse(302, b"", {"Location": "https://login.example/\x1b[2J"}), r"points to https://login.example/\\x1b"),
    "no token": (StubResponse(401, b"Unauthorized"), "SURESCALE_PROMETHEUS_TOKEN_FILE"),
    "busy": (
        StubResponse(503, b'{"status":"error","errorType":"timeout","error":"query timed out"}'),
        "query timed out; trying again",
    ),
    "a part": (
        StubResponse(200, b'{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["store 2 is away"]}'),
        "may have left out series: store 2 is away",
    ),
    "broken off": (
        StubResponse(200, b"{}", {"Content-Type": "application/json"}, closes=True),
        "does not answer as Prometheus does",
    ),
}


@pytest.mark.parametrize("kind", AWAY)
def test_an_answer_that_is_none_says_what_to_do(prometheus: FakePrometheus, client: PrometheusClient, kind: str) -> None:
    """In one line that is safe to print."""
    given, words = AWAY[kind]
    prometheus.instead = lambda _: given
    with pytest.raises(PrometheusUnavailable, match=words) as away:
        client.vector("x", AT_MS)
    assert str(away.value).isprintable()


def test_nobody_there_is_one_line() -> None:
    """With the setting."""
    with pytest.raises(PrometheusUnavailable, match=r"does not answer .*SURESCALE_PROMETHEUS_URL"):
        PrometheusClient(f"http://127.0.0.1:{free_port()}").now_ms()


def test_a_clock_that_is_none_is_named(prometheus: FakePrometheus, client: PrometheusClient) -> None:
    """Whatever the server says in its place."""
    for result in ([1, "soon"], [], "x", [1, "1e400"]):
        prometheus.instead = lambda _, result=result: success("scalar", result)  # type: ignore[misc]
        with pytest.raises(PrometheusUnavailable, match="what time it is"):
            client.now_ms()


def test_the_token_is_shown(prometheus: FakePrometheus, tmp_path: Path) -> None:
    """It is read for every request; a file that cannot be read is named with its setting."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    client = PrometheusClient(prometheus.url, Access(str(token), settings="SURESCALE_PROMETHEUS"))
    client.now_ms()
    assert prometheus.asked[-1].headers["Authorization"] == "Bearer secret"
    token.unlink()
    with pytest.raises(PrometheusUnavailable, match="SURESCALE_PROMETHEUS_TOKEN_FILE"):
        client.now_ms()


def test_few_large_answers_are_in_memory_at_a_time(prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many jobs ask. Who finds no place in time says so, small answers need none, and a place is given back."""
    answers = LargeAnswers(at_once=2, large_bytes=2_000)
    monkeypatch.setattr(prometheus_client, "LARGE", answers)
    client = PrometheusClient(prometheus.url, timeout_s=0.3)
    small = success("vector", [entry({"task": "parse"}, 1.0, AT_MS / 1000)])
    large = success("vector", [entry({"task": str(each)}, 1.0, AT_MS / 1000) for each in range(1_000)])
    with contextlib.ExitStack() as held:
        for _ in range(2):
            held.enter_context(answers.reading(PATIENT_S)).take()
        prometheus.instead = lambda _: large
        for ask in (lambda: client.vector("x", AT_MS), client.now_ms):
            with pytest.raises(PrometheusUnavailable, match="it is large, and other large answers are being read"):
                ask()
        client = PrometheusClient(prometheus.url, timeout_s=PATIENT_S)
        prometheus.instead = lambda _: small
        assert len(client.vector("x", AT_MS)) == 1
    prometheus.instead = lambda _: large
    for _ in range(5):
        assert len(client.vector("x", AT_MS)) == 1_000
    with client.keeping_place() as kept, client.keeping_place() as other:  # until what was made of them is gone
        assert len(client.dated("x", AT_MS, kept)) == len(client.dated("x", AT_MS, other)) == 1_000
        with pytest.raises(PrometheusUnavailable, match="other large answers are being read"):
            PrometheusClient(prometheus.url, timeout_s=0.3).dated("x", AT_MS)
    assert len(client.dated("x", AT_MS)) == 1_000
    broken = success("vector", [{"value": "x" * 9_000}])
    prometheus.instead = lambda _: broken
    for _ in range(5):
        with pytest.raises(PrometheusUnavailable, match="unexpected answer"):
            client.vector("x", AT_MS)


@settings(deadline=None, max_examples=40)  # each starts a server
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["metric", "value", "status"]), inner),
        max_leaves=12,
    )
)
def test_whatever_comes_in_place_of_series_is_an_error_of_ours(result: object) -> None:
    """Never one of the decoder's."""
    with fake_prometheus() as prometheus:
        prometheus.instead = lambda _: StubResponse(
            body=json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        )
        client = PrometheusClient(prometheus.url)
        try:
            found = client.vector("x", AT_MS)
        except (PrometheusUnavailable, QueryRefused):
            return
        finally:
            client.close()
        assert all(isinstance(value, float) for _, value in found)
