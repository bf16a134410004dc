"""The view read without the client library: the same answers, and one line for whatever else happens."""

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from surescale.contracts.settings import PipelineSettings
from surescale.services.state import quick_reader
from surescale.services.state.quick_reader import QuickReader, RedisRefused, opened_to_look
from surescale.services.state.read.queries import NO_VIEW
from surescale.services.state.redis_words import NOT_REDIS
from surescale.services.state.text_reader import TextReader, as_text
from tests.support.command_line import surescale
from tests.support.waiting import PATIENT_S

HASH, SET, SORTED, TEXT = (f"quick-reader:{name}" for name in ("hash", "set", "sorted", "text"))


@pytest.fixture
def library(redis_url: str) -> Iterator[redis.Redis]:
    """The library's client of a Redis that has a hash, a set, a sorted set and a text."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        client.hset(HASH, mapping={"a": "ä\r\n", "b": "", "c": "x" * 100_000})
        client.sadd(SET, "one", "two")
        client.zadd(SORTED, {"first": 1.5, "second": 1_796_000_000_000, "third": 1_796_000_060_000})
        client.set(TEXT, "ä\n")
        yield client
        client.delete(HASH, SET, SORTED, TEXT)


def looked_at(reader: TextReader) -> list[object]:
    """Return what every command answers, sent alone and together."""
    with reader.pipeline(transaction=False) as pipe:
        pipe.hget(HASH, "a")
        pipe.hget(HASH, "")
        pipe.hmget(HASH, ["a", "none", "c"])
        pipe.hvals(HASH)
        pipe.zrange(SORTED, 0, 0)
        pipe.zrange(SORTED, 0, 0, withscores=True)
        pipe.zrevrange(SORTED, 0, 1, withscores=True)
        pipe.zrevrange("quick-reader:none", 0, 1, withscores=True)
        pipe.zrangebyscore(SORTED, "(1796000000000", "+inf", 0, 1, withscores=True)
        together = pipe.execute()
        again = pipe.execute()
    return [
        *together,
        again,
        (reader.get(TEXT), reader.get("quick-reader:none")),
        reader.hget(HASH, "b"),
        reader.hgetall(HASH),
        reader.hmget(HASH, ["b", "none"]),
        reader.hvals("quick-reader:none"),
        sorted(set(reader.scan_iter(match="quick-reader:*", count=1))),
        (reader.sismember(SET, "one"), reader.sismember(SET, "three")),
        reader.smembers(SET),
        reader.zrange(SORTED, 0, -1),
        reader.zrevrange(SORTED, 0, -1),
        (reader.zrevrank(SORTED, "first"), reader.zrevrank(SORTED, "none")),
        (reader.type(HASH), reader.type("quick-reader:none")),
    ]


def test_it_reads_what_the_library_reads(redis_url: str, library: redis.Redis) -> None:
    """Text of any length and letters, what there is not, and scores."""
    with opened_to_look(PipelineSettings(redis_url=redis_url)) as reader:
        assert isinstance(reader, QuickReader)
        assert looked_at(reader) == looked_at(as_text(library))


def test_user_password_and_database_are_those_of_the_address(redis_url: str, library: redis.Redis) -> None:
    """A wrong password is one line, without it."""
    library.acl_setuser("quick", enabled=True, passwords=["+p/w"], keys=["*"], commands=["+@all"])
    place = urlsplit(redis_url).netloc
    try:
        with redis.Redis.from_url(f"redis://{place}/3") as other:
            other.set("quick-reader:other", "x")
        with opened_to_look(PipelineSettings(redis_url=f"redis://quick:p%2Fw@{place}/3")) as reader:
            assert isinstance(reader, QuickReader)
            assert list(reader.scan_iter(match="quick-reader:*", count=10)) == ["quick-reader:other"]
        wrong = PipelineSettings(redis_url=f"redis://quick:wrong@{place}/3")
        with (
            pytest.raises(
                ConnectionError, match=r"does not answer \(WRONGPASS .*; give the user and password in SURESCALE_REDIS_URL"
            ) as refused,
            opened_to_look(wrong),
        ):
            pass
        assert "quick:wrong" not in str(refused.value)
    finally:
        library.acl_deluser("quick")
        with redis.Redis.from_url(f"redis://{place}/3") as other:
            other.delete("quick-reader:other")


def test_a_command_that_redis_refuses_ends_the_look(redis_url: str, library: redis.Redis) -> None:
    """Also one among others, and the connection can be used on."""
    place = urlsplit(redis_url)
    with QuickReader(place.hostname or "", place.port or 0) as reader:
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            reader.hget(SET, "a")
        assert reader.hget(HASH, "b") == ""


@pytest.mark.parametrize(("more", "is_repeated"), [("?socket_timeout=1", False), ("", True)])
def test_what_it_does_not_know_is_the_librarys(redis_url: str, library: redis.Redis, more: str, is_repeated: bool) -> None:
    """Options in the address, and a look that is repeated."""
    with opened_to_look(PipelineSettings(redis_url=redis_url + more), is_repeated=is_repeated) as reader:
        assert isinstance(reader, redis.Redis)
        assert looked_at(reader) == looked_at(as_text(library))


@pytest.mark.parametrize("document", [None, '[settings]\nengine = "kafka"\npolicy_seconds = 5.0\n'])
def test_a_look_imports_no_client_library_and_no_numpy(redis_url: str, tmp_path: Path, document: str | None) -> None:
    """They would take most of its time; reading the pipeline's file asks for none of them either."""
    if document:
        (tmp_path / "surescale.toml").write_text(document)
    program = f"""
import sys
from surescale.services.cli import main
try:
    main(["job", "list", "--redis", {redis_url!r}, "--prefix", "quick-reader-"])
finally:
    print("imported", *{{"confluent_kafka", "redis", "numpy", "opentelemetry"}} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENT_S, check=False
    )
    said, imported = done.stderr.strip().splitlines()
    assert (said, imported) == (NO_VIEW, "imported")
    assert "No job is known yet" in done.stdout


@pytest.mark.parametrize(
    ("says", "said", "do"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NOT_REDIS, "name another"),
        (b"", "it closed the connection", "name another"),
        (b"*1\r\n$100\r\nabc", "it closed the connection", "name another"),
        (b":5\r\n", NOT_REDIS, "name another"),
        (b"*1\r\n" * 5_000, NOT_REDIS, "name another"),
        (b"*1\r\n:7\r\n", NOT_REDIS, "name another"),
        (b"*" + b"9" * 5_000 + b"\r\n", NOT_REDIS, "name another"),
        (b"*9999999999\r\n", "it closed the connection", "name another"),
        (b"*1\r\n$99999999999\r\n", "its answer has more than 256 MiB", "name another"),
        (b"-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required.", "give the user and password"),
        (b"-LOADING Redis is loading\x1b[2J\r\n", "LOADING Redis is loading\\x1b[2J", "it reads its data from disk"),
        (b"-READONLY You can't write.\r\n", "READONLY You can't write.", "this is a replica"),
        (b"-MISCONF Errors.\r\n", "MISCONF Errors.", "it cannot save its data"),
    ],
)
def test_whatever_else_answers_is_one_line(says: bytes, said: str, do: str) -> None:
    """A web server, one that hangs up, half an answer, answers of another form or without measure; what Redis itself refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                with contextlib.suppress(OSError):  # it may have heard enough, and be gone
                    client.sendall(says)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        done = surescale("job", "list", "--redis", f"redis://127.0.0.1:{server.getsockname()[1]}/0")
        thread.join()
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert f"does not answer ({said}); {do}" in done.stderr


def test_answers_that_drip_end_with_the_time_for_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the answer never."""
    monkeypatch.setattr(quick_reader, "LOOK_WITHIN_S", 0.5)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            client, _ = server.accept()
            with client, contextlib.suppress(OSError):
                client.sendall(b"$1000000\r\n")
                while not ended.wait(0.02):
                    client.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        with QuickReader("127.0.0.1", server.getsockname()[1]) as reader, pytest.raises(RedisRefused, match="timed out"):
            reader.hget("a", "b")
        ended.set()
        thread.join()
