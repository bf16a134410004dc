"""Brokers for pipelines that are to be hurt: one behind proxies, or three that replicate; and small disks that can be filled."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from surescale.runtime.ports import LOOPBACK
from surescale.services.local_stack.servers import LocalBroker

DISK_MIB = {"kafka": 400, "checkpoint": 64}


class ProxiedBroker(LocalBroker):
    """A broker with one listener a role; each is advertised at the port of that role's proxy."""

    def __init__(self, folder: Path, roles: Sequence[str], ports: Iterator[int]) -> None:
        super().__init__(folder, ports=(next(ports), next(ports)))
        self.behind = {role: next(ports) for role in roles}
        self.proxied = {role: next(ports) for role in roles}

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        plain = dict(super()._own_settings(data))
        for role, port in self.behind.items():
            name = role.upper().replace("-", "")
            plain["listeners"] += f",{name}://{LOOPBACK}:{port}"
            plain["advertised.listeners"] += f",{name}://{LOOPBACK}:{self.proxied[role]}"
            plain["listener.security.protocol.map"] += f",{name}:PLAINTEXT"
        return plain


class ReplicatingBroker(LocalBroker):
    """One of three brokers; a record is acknowledged by two of them."""

    def __init__(self, folder: Path, number: int, ports: Sequence[tuple[int, int]]) -> None:
        super().__init__(folder, ports=ports[number])
        self.name = f"kafka-{number + 1}"
        self.number, self._all = number + 1, ports

    def _own_settings(self, data: Path) -> Mapping[str, str]:
        voters = ",".join(f"{number}@{LOOPBACK}:{controller}" for number, (_, controller) in enumerate(self._all, start=1))
        copies = {
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        return {**super()._own_settings(data), **copies, "node.id": str(self.number), "controller.quorum.voters": voters}


class NoSmallDisk(Exception):
    """This machine lets nobody mount a small disk; the text says why."""


@contextlib.contextmanager
def small_disks() -> Iterator[dict[str, Path]]:
    """Mount a small disk in memory for the broker and one for the checkpoint.

    Raises:
        NoSmallDisk: mounting is not allowed here.
    """
    with tempfile.TemporaryDirectory(prefix="surescale-disks-") as root, contextlib.ExitStack() as stack:
        found = {}
        for name, mebibytes in DISK_MIB.items():
            found[name] = Path(root) / name
            found[name].mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(found[name])]
            try:
                subprocess.run(mount, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise NoSmallDisk(str(getattr(error, "stderr", None) or error).strip()) from None
            stack.callback(subprocess.run, ["umount", "--lazy", str(found[name])], check=False)
        yield found
