"""Redis with users, passwords and TLS, on a real server: what is let in, what is not, and passwords that rotate."""

import asyncio
import contextlib
import shutil
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import create_topics
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.state.connection import Credentials, connect, opened
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from tests.conftest import KafkaForTests
from tests.support.secure_broker import make_certificates
from tests.support.view_pipeline import LOG, a_pipeline, send

pytestmark = pytest.mark.integration
RIGHTS = [
    *("resetkeys", "~surescale:*", "resetchannels"),
    *("-@all", "+@read", "+@write", "+@transaction", "+@connection", "-@dangerous"),
    *("+eval", "+evalsha", "+script|load", "+script|exists", "+info", "+time"),
]
"""The rights of the state service, as ``docs/security.md`` gives them."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalRedis]:
    """A server that lets in the user ``surescale`` and nobody else, but for the test itself."""
    made = LocalRedis(tmp_path / "redis")
    made.start()
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()


def only_surescale(server: LocalRedis, password: str) -> redis.Redis:
    """Let in that user with this password, and the test as administrator."""
    admin = redis.Redis.from_url(server.url)
    admin.execute_command("ACL", "SETUSER", "admin", "on", ">admin", "~*", "+@all")
    admin.execute_command("ACL", "SETUSER", "surescale", "on", "resetpass", f">{password}", *RIGHTS)
    admin.execute_command("ACL", "SETUSER", "default", "off")
    return redis.Redis.from_url(server.url, username="admin", password="admin")


def test_the_view_is_kept_with_least_rights_and_a_password_that_rotates(
    server: LocalRedis, kafka: KafkaForTests, tmp_path: Path
) -> None:
    """The user may neither flush the server nor see other keys; a new password is used without a restart."""
    password = tmp_path / "password"
    password.write_text("first\n")
    admin = only_surescale(server, "first")
    settings = PipelineSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        redis_url=server.url.replace("//", "//surescale@"),
        redis_password_file=str(password),
    )
    create_topics(settings)
    send(settings, *a_pipeline())
    client = connect(settings.redis_url, Credentials.of(settings))
    projector = Projector(settings, ViewStore(client, settings.topic_prefix), LOG)
    assert projector.catch_up(60) > 60
    projector.close()
    for forbidden in (["FLUSHALL"], ["SET", "other", "1"], ["CONFIG", "GET", "*"], ["KEYS", "*"]):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*forbidden)
    admin.execute_command("ACL", "SETUSER", "surescale", "resetpass", ">second")
    password.write_text("second\n")
    admin.execute_command("CLIENT", "KILL", "USER", "surescale")
    with contextlib.suppress(redis.ConnectionError):  # of the connection that was ended
        client.ping()
    assert client.ping()


@pytest.mark.parametrize("content", ["wrong", None], ids=["a wrong password", "no file"])
def test_who_is_not_let_in_is_told_in_one_line(server: LocalRedis, tmp_path: Path, content: str | None) -> None:
    """Without the password."""
    only_surescale(server, "right")
    password = tmp_path / "password"
    if content is not None:
        password.write_text(content)
    settings = PipelineSettings(redis_url=server.url.replace("//", "//surescale@"), redis_password_file=str(password))
    with pytest.raises(ConnectionError) as refused, opened(settings) as client:
        client.ping()
    assert "wrong" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed")
def test_tls_knows_the_server_and_shows_a_certificate(server: LocalRedis, tmp_path: Path) -> None:
    """The authority that signed it, another one, none of ours; with a client certificate, and without it."""
    make_certificates(tmp_path)
    with tls_in_front(server, tmp_path) as port:
        mutual = PipelineSettings(
            redis_url=f"rediss://127.0.0.1:{port}/0",
            redis_ca_file=str(tmp_path / "ca.pem"),
            redis_certificate_file=str(tmp_path / "client.pem"),
            redis_key_file=str(tmp_path / "client-key.pem"),
        )
        with opened(mutual) as client:
            assert client.ping()
        for wrong in (
            replace(mutual, redis_ca_file=str(tmp_path / "other-ca.pem")),
            replace(mutual, redis_ca_file=""),
            replace(mutual, redis_certificate_file="", redis_key_file=""),
            PipelineSettings(redis_url=f"redis://127.0.0.1:{port}/0"),
        ):
            with pytest.raises(ConnectionError), opened(wrong) as client:
                client.ping()


@contextlib.contextmanager
def tls_in_front(server: LocalRedis, folder: Path) -> Iterator[int]:
    """Yield a port that speaks TLS, wants a client certificate, and passes on to the server, whose own build has no TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "broker.pem", folder / "broker-key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    loop, started = asyncio.new_event_loop(), threading.Event()
    ports: list[int] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pass_on(reader, inner_writer), pass_on(inner_reader, writer))

    async def serve() -> None:
        listening = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
        ports.append(listening.sockets[0].getsockname()[1])
        started.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(serve()), loop.run_forever()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
