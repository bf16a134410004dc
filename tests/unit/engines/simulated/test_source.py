"""The client of an engine's API, on a real socket: what it makes of answers that are not as they should be."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest

from surescale.contracts.wire import encode
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.simulated.source import EngineSource
from surescale.runtime.ports import free_port
from tests.support.engine_stub import CLUSTER, EngineStub, sample_of

JOB = "sim/clicks"


@pytest.fixture
def engine() -> Iterator[EngineStub]:
    """An engine with one job of two minutes."""
    with EngineStub() as stub:
        stub.add_minutes(JOB, range(1, 3))
        yield stub


def test_a_malformed_sample_is_carried_beside_the_good_ones(engine: EngineStub) -> None:
    """As it is, because the snapshot stage refuses it with its coordinates."""
    bad = json.loads(encode(sample_of(JOB, 3))) | {"records_in": -1}
    engine.add_minutes(JOB, range(3, 4), None, bad)
    minute = EngineSource(engine.url).minutes(JOB, 120_000)[0]
    assert minute.samples == (sample_of(JOB, 3),)
    assert [json.loads(document) for document in minute.malformed] == [bad]


@pytest.mark.parametrize("body", [b"<html>", b'{"jobs": 3}', b'{"jobs": [{"job": "\xff"}]}', b"", b"[" * 100_000])
def test_an_answer_of_another_kind_counts_as_away(engine: EngineStub, body: bytes) -> None:
    """Something else listens at the address; it is asked again later."""
    engine.raw["/jobs"] = body
    with pytest.raises(SourceUnavailable, match=r"/jobs gave an unexpected answer"):
        EngineSource(engine.url).jobs()


def test_hosts_that_contradict_themselves_count_as_an_unexpected_answer(engine: EngineStub) -> None:
    """They do not reach Kafka."""
    engine.raw["/cluster"] = encode(msgspec.structs.replace(CLUSTER, hosts=CLUSTER.hosts * 2))
    with pytest.raises(SourceUnavailable, match=r"/cluster gave an unexpected answer: .*'m1' is listed twice"):
        EngineSource(engine.url).cluster_topology()


def test_a_job_may_have_any_name(engine: EngineStub) -> None:
    """What means something in an address is quoted."""
    engine.raw["/jobs/late%20clicks%3F/history"] = b'{"hours": []}'
    assert EngineSource(engine.url).load_history("sim/late clicks?") == ()


def test_an_error_of_the_engine_is_told_in_its_own_words(engine: EngineStub) -> None:
    """Status and message."""
    engine.failing.add(JOB)
    with pytest.raises(SourceUnavailable, match="answered 500: the figures of this job cannot be read"):
        EngineSource(engine.url).minutes(JOB, 0)


def test_an_engine_that_does_not_listen_is_away() -> None:
    """The address is named."""
    with pytest.raises(SourceUnavailable, match=r"http://127\.0\.0\.1:\d+ does not answer: .*refused"):
        EngineSource(f"http://127.0.0.1:{free_port()}").jobs()


@contextlib.contextmanager
def answering(status: int, body: bytes, announced_bytes: int | None = None) -> Iterator[str]:
    """Yield the address of a server that gives one request this answer, and then breaks off."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4_096)
            length = len(body) if announced_bytes is None else announced_bytes
            connection.sendall(b"HTTP/1.1 %d Broken\r\nContent-Length: %d\r\n\r\n%b" % (status, length, body))

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("ask", ["jobs", "cluster_topology"])
def test_an_address_without_the_api_counts_as_away(ask: str) -> None:
    """Nothing of a job was asked for, so no job is unknown: something else answers in the engine's place."""
    with answering(404, b"not here") as url, pytest.raises(SourceUnavailable, match="answered 404"):
        getattr(EngineSource(url), ask)()


@pytest.mark.parametrize("body", [b"[]", b'"busy"', b"null", b"3", b"\xff"])
def test_an_error_in_other_words_than_the_engines_counts_as_away(body: bytes) -> None:
    """A document that is no object: the status alone is told."""
    with answering(503, body) as url, pytest.raises(SourceUnavailable, match="answered 503"):
        EngineSource(url).jobs()


def test_an_error_whose_body_breaks_off_counts_as_away() -> None:
    """The engine died while it told what was wrong."""
    with answering(500, b"{", announced_bytes=100) as url, pytest.raises(SourceUnavailable, match="answered 500"):
        EngineSource(url).jobs()


def test_only_jobs_that_are_to_be_watched_are_listed(engine: EngineStub) -> None:
    """By name."""
    engine.add_minutes("sim/views", range(1, 2))
    assert EngineSource(engine.url).jobs() == [JOB, "sim/views"]
    assert EngineSource(engine.url, watches=lambda name: name == "views").jobs() == ["sim/views"]
