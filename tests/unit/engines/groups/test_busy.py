"""How busy members are, asked over HTTP of members that may answer anything."""

import contextlib
import itertools
from collections.abc import Iterable

import pytest

from surescale.engines.groups.busy import Busy, busy_of
from surescale.engines.groups.chains import Group
from surescale.engines.groups.members import Member
from tests.support.http_server import sending

OK = b"HTTP/1.1 200 OK\r\n\r\n"
COUNTER = "busy_total"


def member(address: str) -> Member:
    """Return a member whose client id ends with the port of an address."""
    return Member("1", f"parse-{address.strip('/').rpartition(':')[2]}", "127.0.0.1", frozenset())


def told(parts: Iterable[bytes], pause_s: float = 0.0) -> Busy:
    """Return what a member tells that answers with these bytes."""
    with sending(parts, pause_s) as url:
        group = Group(metrics="http://{host}:{number}/metrics", busy=COUNTER)
        (found,) = busy_of({"parse": (group, (member(url),))})["parse"]
    return found


@pytest.mark.parametrize(
    ("page", "seconds"),
    [
        (b"busy_total 12.5\n", 12.5),
        (b"# TYPE busy counter\n  busy_total\t3 1700000000000\r\nbusy_total_created 9\nnot_busy_total 4\n", 3),
        (b'busy_total{topic="a } 9 {",x="\\""} 1.5e1\nbusy_total{topic="b"} 2\n', 17),
        (b'busy_total{} 4 # {trace_id="a"} 0.3\n', 4),
        (b"busy_total 0\nbroken{ line\n\xff\xfe\n", 0),
    ],
)
def test_the_series_of_the_counter_are_added_up(page: bytes, seconds: float) -> None:
    """Whatever else is on the page."""
    assert told([OK, page]) == Busy(seconds)


PAGES = {
    "nan": b"busy_total NaN",
    "infinity": b"busy_total +Inf",
    "absurd": b"busy_total 1e300",
    "huge": b"busy_total " + b"9" * 5_000,
    "negative": b"busy_total -1",
    "one of two": b'busy_total{a="1"} 1\nbusy_total{a="2"} NaN',
    "too large a sum": b'busy_total{a="1"} 9e15\nbusy_total{a="2"} 9e15',
    "a word": b"busy_total soon",
    "no value": b'busy_total{a="b"}',
    "no brace": b'busy_total{a="b 5',
    "another": b"idle_total 5",
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "a million labels": b"busy_total{" + b'a="b",' * 500_000 + b"}",
}
BROKEN: dict[str, Iterable[bytes]] = {
    **{name: [OK, page] for name, page in PAGES.items()},
    "no HTTP": [b"220 mail ready\r\n"],
    "nothing": [b""],
    "a header without end": itertools.chain([b"HTTP/1.1 200 OK\r\nX: "], itertools.repeat(b"x" * 70_000)),
    "many headers": [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\nbusy_total 1"],
    "a length that is no number": [b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\nbusy_total NaN"],
    "chunks that break off": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nbusy_tot"],
    "chunks of a strange size": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "breaks off": [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbusy_total 1"],
    "a redirect": [b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"],
    "an error": [b"HTTP/1.1 500 \x1b]0;owned\x07\r\nContent-Length: 0\r\n\r\n"],
    "no end": itertools.chain([OK], itertools.repeat(b"busy_total 1\n" * 10_000)),
}


@pytest.mark.parametrize("answer", BROKEN)
def test_what_tells_nothing_usable_is_unknown(answer: str) -> None:
    """One line says so, with the member's address and client id, and nothing in it that a terminal obeys."""
    found = told(BROKEN[answer])
    assert found.seconds is None
    assert "http://127.0.0.1:" in found.problem
    assert "(member parse-" in found.problem
    assert found.problem.isprintable()


def test_an_answer_that_drips_ends() -> None:
    """Each byte comes in time, the whole never does."""
    assert "timed out" in told(itertools.chain([OK], itertools.repeat(b"#")), pause_s=0.05).problem


@pytest.mark.parametrize("client_id", ["nobody", "x-" + "9" * 5_000, f"x-{2**70}", "x-65536"], ids=["none", "long", "huge", "no"])
def test_a_client_id_without_a_port_is_unknown(client_id: str) -> None:
    """It is named, cut short."""
    group = Group(metrics="http://{host}:{number}/metrics", busy=COUNTER)
    (found,) = busy_of({"parse": (group, (Member("1", client_id, "127.0.0.1", frozenset()),))})["parse"]
    assert found.seconds is None
    assert client_id[:20] in found.problem
    assert len(found.problem) <= 300


def test_members_are_told_apart_and_one_that_is_silent_costs_nobody_else() -> None:
    """Each task has its members in their order; a group that shows nothing is not asked."""
    group = Group(metrics="http://{host}:{number}/metrics", busy=COUNTER)
    with contextlib.ExitStack() as opened:
        urls = [opened.enter_context(sending([OK, page])) for page in (b"busy_total 1", b"busy_total 2", b"busy_total NaN")]
        one, two, odd = map(member, urls)
        found = busy_of({"parse": (group, (one, odd)), "rest": (Group(), (one,)), "count": (group, (two,))})
    assert {task: [each.seconds for each in each_task] for task, each_task in found.items()} == {
        "parse": [1.0, None],
        "rest": [None],
        "count": [2.0],
    }
    assert not found["rest"][0].problem


def test_many_silent_members_do_not_cost_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that could not be asked in time are unknown."""
    monkeypatch.setattr("surescale.engines.groups.busy.ALL_WITHIN_S", 0.5)
    group = Group(metrics="http://{host}:{number}/metrics", busy=COUNTER)
    with sending(itertools.repeat(b"x"), pause_s=60) as url:  # takes connections, and says nothing
        found = busy_of({"parse": (group, (member(url),) * 500)})["parse"]
    assert len(found) == 500
    assert {each.seconds for each in found} == {None}
    assert "was not asked" in found[-1].problem
