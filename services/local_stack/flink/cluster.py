"""A real Flink session cluster on loopback: one JobManager with the adaptive scheduler, and TaskManagers.

cluster = FlinkCluster(folder)
cluster.start()
cluster.wait_ready()
job_id = submit(cluster.rest_url, jar, arguments)     # see scaled_job.py
cluster.stop()

Each process is a `LocalServer`: killed and started again alone in a test, run as a role by a supervisor. All end with this
process, however it ends. Checkpoints lie in the cluster's folder.
"""

import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from surescale.runtime.http import fetch_json
from surescale.runtime.ports import LOOPBACK, free_ports
from surescale.services.local_stack.errors import Say, silent
from surescale.services.local_stack.flink.distribution import DEFAULT_VERSION, fetch_flink
from surescale.services.local_stack.java import find_java
from surescale.services.local_stack.servers import LocalServer

TASK_MANAGERS: Final = 2
SLOTS: Final = 4
READY_TIMEOUT_S: Final = 120.0
_JOB_MANAGER_HEAP_MIB: Final = 384
# The parts of a TaskManager's memory, in MiB. Given one by one, since Flink computes them in its start scripts only, and the
# package has no scripts. Nothing is managed memory: state is on the heap.
_TASK_HEAP: Final = 256
_FRAMEWORK_HEAP: Final = 128
_OFF_HEAP: Final = 128
_NETWORK: Final = 96
_METASPACE: Final = 192
_OVERHEAD: Final = 64

# A quick start and little memory matter more here than peak throughput.
_JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")
# As Flink's own start scripts open them for Java 17 (`env.java.opts.all` of its default configuration).
_OPENED: Final = (
    "java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks",
)  # fmt: skip
_LOGGING: Final = """\
status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n%throwable
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
logger.kafka.name=org.apache.flink.kafka.shaded
logger.kafka.level=warn
logger.kafka1.name=org.apache.kafka
logger.kafka1.level=warn
logger.pekko.name=org.apache.pekko
logger.pekko.level=warn
"""
_POLL_S: Final = 0.1


class FlinkCluster:
    """A session cluster with its settings, logs and checkpoints in `folder`.

    `settings` are added to ours, key by key as in Flink's `config.yaml`; without any, the adaptive scheduler's triggers and the
    age of REST answers are Flink's defaults.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str = DEFAULT_VERSION,
        task_managers: int = TASK_MANAGERS,
        slots: int = SLOTS,
        settings: Mapping[str, str] | None = None,
        progress: Say = silent,
    ) -> None:
        self.folder = folder.absolute()
        self._java = find_java()
        self.flink = fetch_flink(version, java=self._java, progress=progress)
        self._settings = dict(settings or {})
        self._slots = slots
        self.job_manager = JobManager(self)
        self.task_managers = [TaskManager(self, number) for number in range(1, task_managers + 1)]

    @property
    def rest_url(self) -> str:
        """The address of the REST API and the web page."""
        return f"http://{self.job_manager.address}"

    @property
    def servers(self) -> list["FlinkServer"]:
        """All processes, in the order to start them."""
        return [self.job_manager, *self.task_managers]

    def start(self) -> None:
        """Start all processes; `wait_ready` waits for them."""
        for server in self.servers:
            server.start()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every TaskManager has registered; raises ServerError if a process ends or it takes too long."""
        deadline = time.monotonic() + timeout_s
        for server in self.servers:
            server.wait_ready(max(1.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Stop all processes."""
        for server in reversed(self.servers):
            server.kill()  # nothing is worth a graceful end: what runs on it is given up

    def get(self, path: str, timeout_s: float = 10.0) -> Any:
        """Return the JSON document at a path of the REST API.

        Raises:
            OSError: it does not answer, or not with success.
        """
        return fetch_json(f"{self.rest_url}{path}", timeout_s=timeout_s)

    def parallelism(self, job_id: str) -> dict[str, int]:
        """Return a job's running parallelism by vertex (source, parse, count, sink); nothing while not all of them run.

        Raises:
            OSError: Flink does not answer, or not with success.
        """
        detail = self.get(f"/jobs/{job_id}")
        vertices = detail["vertices"]
        if detail["state"] != "RUNNING" or any(vertex["status"] != "RUNNING" for vertex in vertices):
            return {}
        return {short_name(vertex["name"]): int(vertex["parallelism"]) for vertex in vertices}

    def write_settings(self) -> None:
        """Write `config.yaml` and the logging settings."""
        for name in ("conf", "checkpoints", "savepoints", "upload", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "conf" / "log4j.properties").write_text(_LOGGING)
        lines = [f"{key}: {value}\n" for key, value in {**self._own_settings(), **self._settings}.items()]
        (self.folder / "conf" / "config.yaml").write_text("".join(lines))

    def java_command(self, main_class: str, *memory: str) -> list[str]:
        """Return the command that runs a class of Flink with the settings of the cluster."""
        return [*self.java_start(main_class, *memory), "--configDir", str(self.folder / "conf")]

    def java_start(self, main_class: str, *memory: str) -> list[str]:
        """Return the command that runs a class of Flink, or of what its jar brings along."""
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        logging = f"-Dlog4j.configurationFile={self.folder / 'conf' / 'log4j.properties'}"
        temporary = f"-Djava.io.tmpdir={self.folder / 'tmp'}"
        start = [str(self._java.executable), *memory, *_JVM_OPTIONS, *opens, logging, temporary]
        return [*start, "-cp", self.flink.class_path, main_class]

    def _own_settings(self) -> Mapping[str, str]:
        checkpoints = "state.checkpoints.dir" if self.flink.version.startswith("1.") else "execution.checkpointing.dir"
        savepoints = "state.savepoints.dir" if self.flink.version.startswith("1.") else "execution.checkpointing.savepoint-dir"
        return {
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.bind-host": LOOPBACK,
            "jobmanager.rpc.port": str(self.job_manager.rpc_port),
            "blob.server.port": str(self.job_manager.blob_port),
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": str(self.job_manager.port),
            "rest.bind-port": str(self.job_manager.port),
            "web.upload.dir": str(self.folder / "upload"),
            "io.tmp.dirs": str(self.folder / "tmp"),
            "jobmanager.scheduler": "adaptive",
            "web.adaptive-scheduler.rescale-history.size": "20",
            checkpoints: (self.folder / "checkpoints").as_uri(),
            savepoints: (self.folder / "savepoints").as_uri(),
            # All start together, so a TaskManager asks too early and would then wait 10 s.
            "cluster.registration.error-delay": "500",
            "taskmanager.bind-host": LOOPBACK,
            "taskmanager.host": LOOPBACK,
            "taskmanager.numberOfTaskSlots": str(self._slots),
            "taskmanager.cpu.cores": f"{self._slots}.0",
            "taskmanager.memory.task.heap.size": f"{_TASK_HEAP}m",
            "taskmanager.memory.framework.heap.size": f"{_FRAMEWORK_HEAP}m",
            "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.framework.off-heap.size": f"{_OFF_HEAP}m",
            "taskmanager.memory.network.min": f"{_NETWORK}m",
            "taskmanager.memory.network.max": f"{_NETWORK}m",
            "taskmanager.memory.managed.size": "0m",
            "taskmanager.memory.jvm-metaspace.size": f"{_METASPACE}m",
            "taskmanager.memory.jvm-overhead.min": f"{_OVERHEAD}m",
            "taskmanager.memory.jvm-overhead.max": f"{_OVERHEAD}m",
        }


def short_name(vertex: str) -> str:
    """Return what a vertex does: Flink writes ``Source: source`` and ``sink: Writer -> sink: Committer``.

    >>> short_name("Source: source"), short_name("parse"), short_name("sink: Writer -> sink: Committer")
    ('source', 'parse', 'sink')
    """
    return vertex.removeprefix("Source: ").partition(":")[0]


class FlinkServer(LocalServer):
    """One process of the cluster."""

    stop_grace_s = 15.0

    def __init__(self, cluster: FlinkCluster, name: str, port: int) -> None:
        super().__init__(cluster.folder, port)
        self.name = name
        self._cluster = cluster

    def _ask(self, path: str) -> Any:
        try:
            return self._cluster.get(path)
        except (OSError, ValueError, HTTPException):
            return None


class JobManager(FlinkServer):
    """The process that keeps the jobs and serves the REST API on `port`."""

    def __init__(self, cluster: FlinkCluster) -> None:
        port, self.rpc_port, self.blob_port = free_ports(3)
        super().__init__(cluster, "jobmanager", port)

    def prepare(self) -> None:
        """Write the settings of the whole cluster."""
        self._require_free(self.port, self.rpc_port, self.blob_port)
        self._cluster.write_settings()

    def command(self) -> list[str]:
        """Return the command that runs it in the foreground."""
        memory = (f"-Xmx{_JOB_MANAGER_HEAP_MIB}m", f"-XX:MaxMetaspaceSize={_METASPACE}m")
        return self._cluster.java_command("org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", *memory)

    def answers(self) -> bool:
        """Return whether the REST API answers."""
        return self._ask("/overview") is not None


class TaskManager(FlinkServer):
    """A process that runs subtasks. After a kill the next start registers it again under the same id."""

    def __init__(self, cluster: FlinkCluster, number: int) -> None:
        super().__init__(cluster, f"taskmanager-{number}", free_ports(1)[0])

    def prepare(self) -> None:
        """Do nothing: the JobManager wrote the settings."""

    def command(self) -> list[str]:
        """Return the command that runs it in the foreground."""
        memory = (
            f"-Xmx{_TASK_HEAP + _FRAMEWORK_HEAP}m",
            f"-XX:MaxDirectMemorySize={_OFF_HEAP + _NETWORK}m",
            f"-XX:MaxMetaspaceSize={_METASPACE}m",
        )
        own = {"taskmanager.resource-id": self.name, "taskmanager.rpc.port": str(self.port)}
        options = [part for key, value in own.items() for part in ("-D", f"{key}={value}")]
        return [*self._cluster.java_command("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", *memory), *options]

    def answers(self) -> bool:
        """Return whether the JobManager knows it."""
        known = self._ask("/taskmanagers") or {}
        return any(each.get("id") == self.name for each in known.get("taskmanagers", ()))
