"""What the local Kafka broker and the local Redis have in common: a port, a folder, a process, and a readiness check."""

import abc
import time
from pathlib import Path

from runtime.ports import LOOPBACK, is_free
from services.local_stack.child_process import ChildProcess
from services.local_stack.errors import ServerError

_POLL_S = 0.05
_LOG_LINES_SHOWN = 15


class LocalServer(abc.ABC):
    """A server on a loopback port with its data in a folder. It may be killed and started again on the same port and data.

    Alone: `start`, `wait_ready`, `stop` or `kill`. Under a supervisor: `prepare`, then a role with `command()` and
    `answers`.
    """

    name: str
    stop_grace_s: float

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process: ChildProcess | None = None

    @abc.abstractmethod
    def prepare(self) -> None:
        """Write what the server needs into its folder, once; raises ServerError if a port is taken."""

    @abc.abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Return whether clients are served now."""

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Return whether the process that `start` made still runs."""
        return self._process is not None and self._process.is_running

    def start(self) -> None:
        """Prepare and start the process; `wait_ready` waits for it."""
        if self.is_running:
            raise ValueError(f"{self.name} already runs")
        self.prepare()
        self._process = ChildProcess(self.command(), log_path=self.folder / f"{self.name}.log")

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Wait until clients are served; raises ServerError with the last log lines if it ends or takes too long."""
        if self._process is None:
            raise ValueError(f"{self.name} was not started")
        deadline = time.monotonic() + timeout_s
        while not self.answers():
            if not self._process.is_running:
                raise self._error(self._process, self._process.describe_end())
            if time.monotonic() > deadline:
                raise self._error(self._process, f"did not answer within {timeout_s:.0f} s")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop it with SIGTERM, or kill it if that takes too long."""
        if self._process is not None:
            self._process.stop(self.stop_grace_s)

    def kill(self) -> None:
        """Kill it as `kill -9` does; data and port stay, so that it can be started again."""
        if self._process is not None:
            self._process.kill()

    def _require_free(self, *ports: int) -> None:
        for port in ports:
            if not is_free(port):
                raise ServerError(f"{self.name} cannot start: port {port} of {LOOPBACK} is taken by another process")

    def _error(self, process: ChildProcess, what: str) -> ServerError:
        shown = "".join(f"\n  {line}" for line in process.last_log_lines(_LOG_LINES_SHOWN))
        return ServerError(f"{self.name} {what}; the last lines of its log:{shown}")
