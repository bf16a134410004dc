"""Whatever answers in place of Redis, and whatever Redis refuses, is an error that says what to do; nothing waits for ever."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from surescale.services.local_stack.servers import LocalRedis
from surescale.services.state import keys, redis_guard
from surescale.services.state.connection import connect, evicts
from surescale.services.state.redis_guard import in_words
from surescale.services.state.write import view_store
from surescale.services.state.write.view_store import ViewStore

AT = {("decisions", 0): 7}


@contextlib.contextmanager
def answering(says: bytes, drips: bytes = b"") -> Iterator[str]:
    """Serve these bytes as the answer to whatever is asked, and then hang up, or go on for ever byte by byte."""
    ended = threading.Event()

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while client.recv(65_536):
                client.sendall(says)
                while drips and not ended.wait(0.02):
                    client.sendall(drips)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not ended.is_set():
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0?socket_timeout=0.3"
        ended.set()
        listening.shutdown(socket.SHUT_RDWR)


def together(client: redis.Redis) -> list[object]:
    """Ask two things at once."""
    with client.pipeline(transaction=False) as pipe:
        pipe.hgetall("a")
        pipe.hvals("b")
        return list(pipe.execute())


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b":5\r\n",
        b":x\r\n",
        b"+OK\r\n",
        b"$3\r\nabc\r\n",
        b"*1\r\n:5\r\n",
        b"*1\r\n" * 5_000,
        b"*x\r\n",
        b"$x\r\n",
        b"*3\r\n$1\r\na\r\n",
        b"-MOVED nowhere\r\n",
        b"-ASK x\r\n",
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"\xff\xfe\r\n",
    ],
)
def test_whatever_else_answers_is_an_error_of_redis(says: bytes) -> None:
    """Another protocol, other kinds of answers, nested ones, broken ones: each question, alone and together with others."""
    with answering(says) as url, closing(connect(url)) as client:
        for ask in (
            lambda: ViewStore(client, "").positions(),
            lambda: client.smembers("a"),
            lambda: client.zrange("a", 0, -1, withscores=True),
            lambda: list(client.scan_iter("a")),
            lambda: evicts(client),
            lambda: together(client),
        ):
            with pytest.raises(redis.RedisError) as refused:
                ask()
            assert "; " in in_words(refused.value)


@pytest.mark.parametrize("says", [b"$1000000\r\n", b"*1000000\r\n$1\r\na\r\n"])
def test_an_answer_that_drips_ends_in_time(says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own time starts again with each byte."""
    monkeypatch.setattr(redis_guard, "ANSWER_WITHIN_S", 0.3)
    with answering(says, drips=b"x") as url, closing(connect(url)) as client, pytest.raises(redis.RedisError):
        client.hgetall("a")


def test_answers_to_what_was_asked_together_end_in_time_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them alone is quick: a hundred would hold a role for as long as a hundred times that."""
    monkeypatch.setattr(redis_guard, "ANSWER_WITHIN_S", 0.3)
    answered = list[object]()
    # The older protocol begins without a greeting, which would be answered as slowly.
    plain = "&protocol=2&lib_name=&lib_version="
    with answering(b"", drips=b"+OK\r\n") as url, closing(connect(url + plain)) as client:
        connection = client.connection_pool.get_connection()
        connection.send_packed_command(connection.pack_commands([("HGET", "a", "b")] * 10_000))
        with pytest.raises(redis.TimeoutError):
            answered.extend(connection.read_response() for _ in range(10_000))
    assert len(answered) < 1_000


def test_a_search_for_keys_that_goes_on_for_ever_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is sound, and says that there is another one."""
    monkeypatch.setattr(view_store, "SCAN_WITHIN_S", 0.3)
    with (
        answering(b"*2\r\n$1\r\n7\r\n*0\r\n") as url,
        closing(connect(f"{url}&protocol=2&lib_name=&lib_version=")) as client,
        pytest.raises(redis.InvalidResponse, match="no end within"),
    ):
        list(ViewStore(client, "").own_keys())


def test_an_answer_without_measure_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended at a number of bytes."""
    monkeypatch.setattr(redis_guard, "ANSWER_BYTES_MAX", 2**20)
    with (
        answering(b"$99999999999\r\n", drips=bytes(2**16)) as url,
        closing(connect(url)) as client,
        pytest.raises(redis.RedisError, match="more than 1 MiB"),
    ):
        client.hgetall("a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRedis]:
    """A Redis of its own, which the tests may spoil."""
    local = LocalRedis(tmp_path_factory.mktemp("redis") / "own")
    local.start()
    try:
        local.wait_ready()
        yield local
    finally:
        local.stop()


@pytest.fixture
def client(server: LocalRedis) -> Iterator[redis.Redis]:
    """A client of it, with nothing in it."""
    with closing(connect(server.url)) as opened:
        opened.flushall()
        yield opened


@pytest.mark.parametrize("place", ["positions", "a member", "a name of a key", "sizes"])
def test_bytes_that_are_no_text_end_no_reader(client: redis.Redis, place: str) -> None:
    """Whoever wrote them: the view is read as far as it goes, noticed as spoilt, and can be begun anew."""
    store, odd = ViewStore(client, ""), b"\xff\xfe"
    assert store.begin(AT, None)
    match place:
        case "positions":
            client.hset(store.key(keys.POSITIONS), odd, odd)
        case "a member":
            client.sadd(store.key(keys.JOBS), odd)
        case "a name of a key":
            client.set(store.key("job:").encode() + odd, odd)
        case _:
            client.hset(store.key(keys.SIZES), odd, odd)
    before = store.positions()
    assert store.begin(AT, before)
    assert store.positions() == AT
    assert store.is_whole()


REFUSALS = {
    "a replica": (("replicaof", "127.0.0.1", "1"), ("replicaof", "no", "one"), "this is a replica; name the master"),
    "no memory left": (("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0"), "raise its maxmemory"),
    "no rights": (("acl", "setuser", "default", "-hset"), ("acl", "setuser", "default", "+@all"), "grant its user the rights"),
    "a replica is missing": (
        ("config", "set", "min-replicas-to-write", "1"),
        ("config", "set", "min-replicas-to-write", "0"),
        "bring them back, or lower its min-replicas-to-write",
    ),
}


@pytest.mark.parametrize("of", REFUSALS)
def test_what_redis_refuses_is_said_with_what_to_do(client: redis.Redis, of: str) -> None:
    """In one line; once it is put right, the same client goes on."""
    harm, mend, said = REFUSALS[of]
    store = ViewStore(client, "")
    client.execute_command(*harm)  # type: ignore[no-untyped-call]
    try:
        with pytest.raises(redis.RedisError) as refused:
            store.begin(AT, store.positions())
    finally:
        client.execute_command(*mend)  # type: ignore[no-untyped-call]
    assert said in in_words(refused.value)
    assert "\n" not in in_words(refused.value)
    assert store.begin(AT, store.positions())


def test_a_password_that_is_missing_or_wrong_is_said_with_where_it_belongs(server: LocalRedis, client: redis.Redis) -> None:
    """Without a piece of it."""
    client.config_set("requirepass", "right-one")
    try:
        for url in (server.url, server.url.replace("//", "//:wrong-one@")):
            with closing(connect(url)) as other, pytest.raises(redis.RedisError) as refused:
                other.smembers("a")
            assert "give the user and password in SURESCALE_REDIS_URL or SURESCALE_REDIS_PASSWORD_FILE" in in_words(refused.value)
            assert "wrong-one" not in in_words(refused.value)
    finally:
        with closing(connect(server.url.replace("//", "//:right-one@"))) as owner:
            owner.config_set("requirepass", "")


def test_more_clients_than_redis_takes_are_said(server: LocalRedis, client: redis.Redis) -> None:
    """The limit is its own."""
    client.config_set("maxclients", 1)
    try:
        with closing(connect(server.url)) as other, pytest.raises(redis.RedisError) as refused:
            other.smembers("a")
    finally:
        client.config_set("maxclients", 1_000)
    assert "raise its maxclients" in in_words(refused.value)


def test_a_key_of_another_kind_says_that_it_comes_back(client: redis.Redis) -> None:
    """By itself."""
    client.set("a", "x")
    with pytest.raises(redis.RedisError) as refused:
        together(client)
    assert "the state service rebuilds the view" in in_words(refused.value)
