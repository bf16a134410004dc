"""The client against answers that are not Flink's."""

import threading

import pytest

from engines.flink.answers import known
from engines.flink.client import FlinkClient
from engines.flink.errors import FlinkAway, NotFlink, NotFound
from tests.support.answering import Given, answering

HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(200, b"<html>Welcome to nginx", HTML), "a web page"),
        (Given(200, b"[1, 2]"), "not an answer of Flink"),
        (Given(200, b'{"flink-version": 2}'), "not an answer of Flink"),
        (Given(200, b"\xff\xfe"), "not an answer of Flink"),
        (Given(200, b""), "not an answer of Flink"),
        (Given(200, b'{"flink-version": "2.0", "deep": ' + b"[" * 100_000), "not an answer of Flink"),
    ],
)
def test_another_service_at_the_address_is_named(given: Given, said: str) -> None:
    """In one line, with the setting to correct and nothing of the page."""
    with answering(lambda asked: given) as server, pytest.raises(NotFlink) as problem:
        FlinkClient(server.url).overview()
    assert said in str(problem.value)
    assert "SURESCALE_ENGINE_URL" in str(problem.value)
    assert "nginx" not in str(problem.value)


def test_nobody_at_the_address_is_away() -> None:
    """The request and the system's reason are named."""
    with answering(lambda asked: Given()) as server:
        url = server.url
    with pytest.raises(FlinkAway, match=r"GET .*/overview: Connection refused"):
        FlinkClient(url).overview()


def test_an_answer_that_does_not_come_in_time_is_away() -> None:
    """Flink is busy, or a proxy holds on to the request."""
    release = threading.Event()

    def wait(_: object) -> Given:
        release.wait(5)
        return Given()

    with answering(wait) as server:
        with pytest.raises(FlinkAway, match="timed out"):
            FlinkClient(server.url, timeout_s=0.3).overview()
        release.set()


def test_ids_are_quoted() -> None:
    """An id from elsewhere stays one part of the path."""
    with answering(lambda asked: Given(404, b'{"errors": ["no"]}')) as server:
        with pytest.raises(NotFound, match="no"):
            FlinkClient(server.url).vertex("../jars", "a/b?c")
        assert server.asked[0].path == "/jobs/..%2Fjars/vertices/a%2Fb%3Fc"


@pytest.mark.parametrize(
    ("figure", "number"), [(3, 3), (3.9, 3), ("NaN", None), ("Infinity", None), (None, None), (-1, None), (float("inf"), None)]
)
def test_what_flink_does_not_know_is_none(figure: float | str | None, number: int | None) -> None:
    """A string, a negative number, infinity."""
    assert known(figure) == number
