"""The view in a Redis that Sentinels watch: another takes over when the master is killed, and the view goes on there."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from surescale.contracts.settings import PipelineSettings
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.local_stack.supervisor import Role, Supervisor
from surescale.services.state.connection import connect
from surescale.services.state.read.queries import Queries
from surescale.services.state.text_reader import as_text
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from tests.support import view_pipeline
from tests.support.builders import JOB
from tests.support.view_pipeline import LOG, a_pipeline, dumped, send
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
settings = view_pipeline.settings
MASTER = "view"


class Server(LocalRedis):
    """A Redis with settings of its own."""

    def __init__(self, folder: Path, name: str, **own: str) -> None:
        super().__init__(folder / name)
        self.name, self._own = name, own

    def command(self) -> list[str]:
        """Return the command with these settings."""
        return [*super().command(), *(part for key, value in self._own.items() for part in (f"--{key}", value))]


class Watcher(LocalRedis):
    """A Sentinel, which keeps its settings in a file and writes them again."""

    name = "sentinel"

    def __init__(self, folder: Path, master: Server) -> None:
        super().__init__(folder / "sentinel")
        self._master = master

    def command(self) -> list[str]:
        """Return the command, with the file written."""
        watched = f"sentinel monitor {MASTER} 127.0.0.1 {self._master.port} 1"
        times = (f"sentinel down-after-milliseconds {MASTER} 2000", f"sentinel failover-timeout {MASTER} 5000")
        lines = ("bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", watched, *times)
        (self.folder / "sentinel.conf").write_text("\n".join((*lines, "")))
        return [str(self._program), str(self.folder / "sentinel.conf"), "--sentinel"]


def of_replicas(client: redis.Redis) -> Mapping[str, object]:
    """Return what a server says of its replicas."""
    found: Mapping[str, object] = client.info("replication")
    return found


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Supervisor, str]]:
    """A master, a replica that has all of it, and a Sentinel; the address that names them."""
    with Supervisor() as supervisor:
        master = Server(tmp_path, "master", **{"repl-diskless-sync-delay": "0"})
        replica = Server(tmp_path, "replica", replicaof=f"127.0.0.1 {master.port}")
        for server in (master, replica, Watcher(tmp_path, master)):
            server.prepare()
            supervisor.start(Role(server.name, server.command(), ready=server.answers))
            if server is replica:
                with closing(redis.Redis(port=master.port)) as client:
                    wait_until(lambda: dict(of_replicas(client)).get("connected_slaves") == 1, what="the replica")
        sentinel = server.port
        with closing(redis.Redis(port=sentinel, decode_responses=True)) as client:
            knows = lambda: client.sentinel_master(MASTER)["num-slaves"] == 1  # noqa: E731
            wait_until(knows, what="the replica that the Sentinel knows")
        yield supervisor, f"redis+sentinel://127.0.0.1:{sentinel}/{MASTER}/0"


def test_a_view_goes_on_where_another_redis_takes_over(watched: tuple[Supervisor, str], settings: PipelineSettings) -> None:
    """What the new master has not got yet is read again from Kafka; nothing counts twice."""
    supervisor, url = watched
    of_sentinels, records = replace(settings, redis_url=url), a_pipeline()
    client = connect(url)
    store = ViewStore(client, settings.topic_prefix)
    projector = Projector(of_sentinels, store, LOG)

    def catches_up() -> bool:
        try:
            projector.catch_up(PATIENT_S)
        except redis.RedisError:
            return False
        return True

    send(settings, *records[: len(records) // 2])
    projector.catch_up(PATIENT_S)
    before = as_text(client).info("server")["run_id"]
    supervisor.kill("master")
    send(settings, *records[len(records) // 2 :])
    wait_until(catches_up, what="the view at the new master")
    assert as_text(client).info("server")["run_id"] != before
    assert store.is_whole()
    assert [each.job for each in Queries(client, settings.topic_prefix).jobs()] == [JOB]
    grown = dumped(store)
    store.flush()
    projector.catch_up(PATIENT_S)
    assert dumped(store) == grown
    projector.close()
    client.close()
