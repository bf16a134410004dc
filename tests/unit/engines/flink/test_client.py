"""The client against answers that are not Flink's."""

import json
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from surescale.engines.flink.answers import known
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.errors import FlinkUnavailable, NotFlink, NotFound
from tests.support.stub_server import StubRequest, StubResponse, answering

HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (StubResponse(200, b"<html>Welcome to nginx", HTML), "a web page"),
        (StubResponse(200, b"[1, 2]"), "not an answer of Flink"),
        (StubResponse(200, b'{"flink-version": 2}'), "not an answer of Flink"),
        (StubResponse(200, b"\xff\xfe"), "not an answer of Flink"),
        (StubResponse(200, b""), "not an answer of Flink"),
        (StubResponse(200, b'{"flink-version": "2.0", "deep": ' + b"[" * 100_000), "not an answer of Flink"),
    ],
)
def test_another_service_at_the_address_is_named(given: StubResponse, said: str) -> None:
    """In one line, with the setting to correct and nothing of the page."""
    with answering(lambda asked: given) as server, pytest.raises(NotFlink) as problem:
        FlinkClient(server.url).overview()
    assert said in str(problem.value)
    assert "SURESCALE_ENGINE_URL" in str(problem.value)
    assert "nginx" not in str(problem.value)


def test_nobody_at_the_address_is_away() -> None:
    """The request and the system's reason are named."""
    with answering(lambda asked: StubResponse()) as server:
        url = server.url
    with pytest.raises(FlinkUnavailable, match=r"GET .*/overview: Connection refused"):
        FlinkClient(url).overview()


def test_an_answer_that_does_not_come_in_time_is_away() -> None:
    """Flink is busy, or a proxy holds on to the request."""
    release = threading.Event()

    def wait(_: object) -> StubResponse:
        release.wait(5)
        return StubResponse()

    with answering(wait) as server:
        with pytest.raises(FlinkUnavailable, match="timed out"):
            FlinkClient(server.url, timeout_s=0.3).overview()
        release.set()


def test_ids_are_quoted() -> None:
    """An id from elsewhere stays one part of the path."""
    with answering(lambda asked: StubResponse(404, b'{"errors": ["no"]}')) as server:
        with pytest.raises(NotFound, match="no"):
            FlinkClient(server.url).vertex("../jars", "a/b?c")
        assert server.asked[0].path == "/jobs/..%2Fjars/vertices/a%2Fb%3Fc"


@pytest.mark.parametrize("count", [1, 25, 400])
@pytest.mark.parametrize("is_gone", [False, True])
def test_metrics_of_many_partitions_are_asked_for_in_lines_that_flink_reads(count: int, is_gone: bool) -> None:
    """It answers a longer one as if it knew no such path. A name that is gone empties all of the answer."""
    kinds = [(number, kind) for number in range(count) for kind in ("current", "committed")]
    names = tuple(f"Source__orders.KafkaSourceReader.topic.orders.partition.{number}.{kind}Offset" for number, kind in kinds)

    def give(asked: StubRequest) -> StubResponse:
        if len(f"{asked.method} {asked.path} HTTP/1.1") > 4_096:
            return StubResponse(404, b'{"errors": ["Not found: /bad-request"]}')
        named = parse_qs(urlsplit(asked.path).query)["get"][0].split(",")
        known = not is_gone or names[-1] not in named
        return StubResponse(200, json.dumps([{"id": each, "max": 5.0} for each in named] if known else []).encode())

    with answering(give) as server:
        found = FlinkClient(server.url).metrics("1" * 32, "2" * 32, names)
    assert tuple(found) == (() if is_gone else names)


@pytest.mark.parametrize(
    ("figure", "number"), [(3, 3), (3.9, 3), ("NaN", None), ("Infinity", None), (None, None), (-1, None), (float("inf"), None)]
)
def test_what_flink_does_not_know_is_none(figure: float | str | None, number: int | None) -> None:
    """A string, a negative number, infinity."""
    assert known(figure) == number


# --- several addresses: JobManagers of which one leads ------------------------------------------------------------------------

OVERVIEW = StubResponse(200, b'{"flink-version": "2.3.0", "taskmanagers": 1, "slots-total": 4, "slots-available": 1}')
ELECTION = StubResponse(
    503, b'{"errors": ["Service temporarily unavailable due to an ongoing leader election. Please refresh."]}'
)


def gone() -> str:
    """Return an address at which nobody answers any more."""
    with answering(lambda asked: StubResponse()) as server:
        return server.url


@pytest.mark.parametrize("election", [False, True])
def test_an_address_that_does_not_answer_is_left_for_the_next(election: bool) -> None:
    """Be its JobManager gone or without a leader. The one that answered is asked first from then on."""
    with answering(lambda asked: ELECTION) as without_leader, answering(lambda asked: OVERVIEW) as leader:
        other = without_leader.url if election else gone()
        client = FlinkClient(f"{other}, {leader.url}/")
        assert [client.overview().flink_version for _ in range(3)] == ["2.3.0"] * 3
        assert (client.url, len(leader.asked)) == (leader.url, 3)
        assert len(without_leader.asked) == election
        client.close()


def test_the_first_address_is_asked_again_when_the_second_is_gone() -> None:
    """JobManagers lead in turn."""
    leads = ["first"]
    with (
        answering(lambda asked: OVERVIEW if leads[0] == "first" else ELECTION) as first,
        answering(lambda asked: OVERVIEW if leads[0] == "second" else ELECTION) as second,
    ):
        client, answered = FlinkClient(f"{first.url},{second.url}"), []
        for leader in ("first", "second", "first", "first"):
            leads[0] = leader
            client.overview()
            answered.append(client.url)
        assert answered == [first.url, second.url, first.url, first.url]
        client.close()


def test_where_no_address_answers_each_is_named_with_its_reason() -> None:
    """In one line."""
    with answering(lambda asked: ELECTION) as server:
        nobody = gone()
        with pytest.raises(FlinkUnavailable) as problem:
            FlinkClient(f"{nobody},{server.url}").overview()
    assert str(problem.value).startswith(f"GET {nobody}/overview: Connection refused; GET {server.url}/overview answers 503")
    assert "\n" not in str(problem.value)


def test_a_checkpoint_is_requested_at_one_address_alone() -> None:
    """Whether the first took the request nobody knows; the next request goes to the other address."""
    with answering(lambda asked: StubResponse(202, b'{"request-id": "1"}')) as server:
        client = FlinkClient(f"{gone()},{server.url}")
        with pytest.raises(FlinkUnavailable, match=r"Connection refused$"):
            client.take_checkpoint("1")
        assert server.asked == []
        assert client.take_checkpoint("1") == "1"
        client.close()


def test_a_wrong_address_among_several_is_named() -> None:
    """Nobody would notice it while the others answer, were it passed over."""
    with (
        answering(lambda asked: StubResponse(200, b"<html>", HTML)) as page,
        answering(lambda asked: OVERVIEW) as leader,
        pytest.raises(NotFlink, match=page.url),
    ):
        FlinkClient(f"{page.url},{leader.url}").overview()


def test_a_jobmanager_that_hangs_costs_one_wait() -> None:
    """As a machine does that has lost its power: from then on the other one is asked first."""
    release = threading.Event()

    def wait(_: object) -> StubResponse:
        release.wait(5)
        return OVERVIEW

    with answering(wait) as hanging, answering(lambda asked: OVERVIEW) as leader:
        client = FlinkClient(f"{hanging.url},{leader.url}", timeout_s=0.3)
        assert [client.overview().slots_total for _ in range(3)] == [4] * 3
        assert (len(hanging.asked), len(leader.asked)) == (1, 3)
        release.set()
        client.close()
