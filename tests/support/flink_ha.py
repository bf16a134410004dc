"""A real Flink cluster with high availability: ZooKeeper, two JobManagers of which one leads, and TaskManagers.

cluster = HighlyAvailable(folder)
cluster.start()
cluster.wait_ready()
cluster.fail_over()     # the JobManager that leads is killed: the other takes over the jobs and what was asked for them
cluster.bring_back()    # it starts again, and now waits itself
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from surescale.runtime.http import is_ok
from surescale.runtime.ports import accepts_connections, free_port
from surescale.services.local_stack.flink.cluster import FlinkCluster, JobManager
from surescale.services.local_stack.servers import LocalServer

SESSION_MS: Final = 8_000
"""After so long without a sign of life ZooKeeper takes a JobManager for dead; Flink's default is a minute."""


class HighlyAvailable(FlinkCluster):
    """A session cluster whose jobs outlive their JobManager. ``job_manager`` is the one that leads, or soon will."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None, **more: Any) -> None:
        self.zookeeper = ZooKeeper(self, folder)
        own = {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": self.zookeeper.address,
            "high-availability.zookeeper.client.session-timeout": str(SESSION_MS),
            "high-availability.storageDir": (folder.absolute() / "recovery").as_uri(),
        }
        super().__init__(folder, settings={**own, **(settings or {})}, **more)
        self.job_manager = OneOfTwo(self, 1)
        self.waiting = OneOfTwo(self, 2)

    @property
    def rest_urls(self) -> str:
        """The addresses of both REST APIs, as a setting names them."""
        return f"http://{self.job_manager.address},http://{self.waiting.address}"

    def start(self) -> None:
        """Start all processes, the second JobManager only once the first leads."""
        self.write_settings()
        for server in (self.zookeeper, self.job_manager, self.waiting):
            server.start()
            server.wait_ready()
        for server in self.task_managers:
            server.start()

    def fail_over(self) -> None:
        """Kill the JobManager that leads; the other one takes over once ZooKeeper has noticed."""
        self.job_manager.kill()
        self.job_manager, self.waiting = self.waiting, self.job_manager

    def bring_back(self) -> None:
        """Start the JobManager that was killed, and wait until it answers."""
        self.waiting.start()
        self.waiting.wait_ready()

    def stop(self) -> None:
        """Stop all processes."""
        super().stop()
        self.waiting.kill()
        self.zookeeper.kill()


class OneOfTwo(JobManager):
    """A JobManager with ports of its own. Its REST API answers whether it leads or not, from what the leader knows."""

    def __init__(self, cluster: HighlyAvailable, number: int) -> None:
        super().__init__(cluster)
        self.name = f"jobmanager-{number}"

    def prepare(self) -> None:
        """Do nothing: the cluster wrote the settings."""

    def command(self) -> list[str]:
        """Return the command that runs it in the foreground."""
        own = {
            "rest.port": self.port,
            "rest.bind-port": self.port,
            "high-availability.jobmanager.port": self.rpc_port,
            "blob.server.port": self.blob_port,
        }
        return [*super().command(), *(part for key, value in own.items() for part in ("-D", f"{key}={value}"))]

    def answers(self) -> bool:
        """Return whether its own REST API answers."""
        return is_ok(f"http://{self.address}/overview")


class ZooKeeper(LocalServer):
    """The ZooKeeper that Flink's jar brings along, alone."""

    name = "zookeeper"
    stop_grace_s = 5.0

    def __init__(self, cluster: FlinkCluster, folder: Path) -> None:
        super().__init__(folder.absolute(), free_port())
        self._cluster = cluster

    def prepare(self) -> None:
        """Write its settings."""
        data = self.folder / "zookeeper"
        data.mkdir(parents=True, exist_ok=True)
        host, _, port = self.address.partition(":")
        address = {"clientPortAddress": host, "clientPort": port, "admin.enableServer": "false"}
        settings = {**address, "dataDir": data, "tickTime": 500, "maxSessionTimeout": 60_000}
        (data / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def command(self) -> list[str]:
        """Return the command that runs it in the foreground."""
        main = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
        return [*self._cluster.java_start(main, "-Xmx64m"), str(self.folder / "zookeeper" / "zoo.cfg")]

    def answers(self) -> bool:
        """Return whether it takes connections."""
        return accepts_connections(self.port)
