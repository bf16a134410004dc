"""A real Kafka broker on loopback: one JVM in KRaft combined mode (broker and controller), for one machine, no container."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from runtime.ports import LOOPBACK, accepts_connections, free_ports
from services.local_stack.artifacts import fetch
from services.local_stack.errors import Say, ServerError, silent
from services.local_stack.java import JavaRuntime, find_java
from services.local_stack.local_server import LocalServer
from services.local_stack.locked_jars import KAFKA_BROKER

MESSAGE_BYTES_MAX = 17 * 1024 * 1024
"""Largest record batch the broker takes: a window of the largest job, with room."""

HEAP_MIB = 512
_CLUSTER_ID = "c3VyZXNjYWxlLWxvY2FsMQ"  # 16 bytes in base64, as Kafka wants it
_FORMAT_TIMEOUT_S = 120.0
_ANSWER_TIMEOUT_S = 5.0
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
    "message.max.bytes": str(MESSAGE_BYTES_MAX),
    "replica.fetch.max.bytes": str(MESSAGE_BYTES_MAX),
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
            return bool(client.list_topics(timeout=_ANSWER_TIMEOUT_S).brokers)
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
