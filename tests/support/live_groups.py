"""Real consumer groups on a real Kafka: topics, a groups file, and workers as processes.

with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, parse=2, count=1) as chain:
    chain.send(3000)                                     # records KEY,NUMBER into its input topic
    chain.reconcile()                                         # start the workers that the file asks for
    wait_until(lambda: len(chain.output()) == 3000)
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.chains import read_chains
from surescale.engines.processes.reconcile import WorkerReconciler
from surescale.engines.processes.worker_store import WorkerStore
from surescale.monitor.settings import MonitorSettings
from surescale.services.local_stack.comparison.watch import read_to_end
from surescale.services.local_stack.consumers.consumers_pipeline import OWNER
from surescale.services.local_stack.consumers.worker import hold
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until
from tests.support.worker_processes import kill_all

CLUSTER, JOB = "real", "shop"
PARTITIONS = 4


def state_of(reader: GroupReader, group: str) -> str:
    """Return the state of a group; empty while a fresh broker makes the topic in which it keeps groups."""
    try:
        return reader.look([group])[group].state
    except GroupsUnavailable:
        return ""


class LiveChain:
    """A job ``real/shop`` of groups in a row; each reads what the one before it writes."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, *, wait_ms: float = 0.0, **start: int) -> None:
        """``start``: workers by task, in the order of the chain."""
        self.bootstrap, self.prefix, self.folder, self.start = bootstrap, prefix, folder, start
        self.topics = [f"{prefix}orders", *(f"{prefix}{task}-out" for task in start)]
        self.file = folder / "groups.json"
        self.presence = hold(folder / OWNER)
        self.file.write_text(json.dumps({JOB: {"groups": dict(self._groups(wait_ms))}}))
        self.reconciler = WorkerReconciler(
            WorkerStore(folder / "workers", CLUSTER), read_chains(self.file), folder, workers_max=20
        )
        self._sent = 0

    def __enter__(self) -> Self:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in self.topics]).values():
            created.result(30)
        return self

    def __exit__(self, *problem: object) -> None:
        kill_all(self.reconciler.store)
        self.presence.close()

    def settings(self, **more: Any) -> MonitorSettings:
        """Return the settings of a monitor that watches it, with the actuator on this machine."""
        own = {"groups_file": str(self.file), "workers_folder": str(self.folder / "workers"), "actuator": "processes"}
        return role_settings(MonitorSettings, bootstrap=self.bootstrap, engine="kafka", cluster=CLUSTER, **{**own, **more})

    def group(self, task: str) -> str:
        """Return the id of a task's group."""
        return f"{self.prefix}{task}"

    def send(self, count: int) -> None:
        """Send so many more records, numbered on, over all partitions."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self._sent, self._sent + count):
            producer.produce(self.topics[0], f"k{number},{number}", partition=number % PARTITIONS)
        self._sent += count
        assert producer.flush(30) == 0

    def require(self, **counts: int) -> None:
        """Ask for workers."""
        required = self.reconciler.store.requirement(JOB)
        assert required is not None
        assert self.reconciler.store.change(JOB, required, counts) is not None

    def joined(self, **members: int) -> None:
        """Tend the workers until each group has exactly these members, each with partitions, and deals out none."""
        reader = GroupReader(PipelineSettings(bootstrap=self.bootstrap))

        def are_members() -> bool:
            self.reconciler.reconcile()
            try:
                seen = reader.look([self.group(task) for task in members])
            except GroupsUnavailable:  # a fresh broker first makes the topic in which it keeps groups
                return False
            return all(
                found.state == ("stable" if members[task] else "empty")
                and len(found.members) == members[task]
                and sum(len(member.partitions) for member in found.members) == PARTITIONS * bool(members[task])
                for task, found in ((task, seen[self.group(task)]) for task in members)
            )

        wait_until(are_members, timeout_s=90, what=f"members {members}")

    def output(self) -> Counter[int]:
        """Return how often each number has come out at the end."""
        return Counter(int((record.value() or b"").split(b",")[1]) for record in read_to_end(self.bootstrap, self.topics[-1]))

    def _groups(self, wait_ms: float) -> Any:
        for task, reads, writes in zip(self.start, self.topics, self.topics[1:], strict=False):
            command = [sys.executable, "-m", "surescale.services.local_stack.consumers.worker", "--bootstrap", self.bootstrap]
            command += ["--group", self.group(task), "--from", reads, "--to", writes, "--rounds", "50"]
            command += ["--wait-ms", str(wait_ms), "--index", "{index}", "--port", "{port}", "--while", str(self.folder / OWNER)]
            yield (
                task,
                {
                    "group": self.group(task),
                    "writes": [writes],
                    "metrics": "http://127.0.0.1:{number}/metrics",
                    "busy": "worker_busy_seconds_total",
                    "workers": {"command": command, "start": self.start[task], "health": "http://127.0.0.1:{port}/metrics"},
                },
            )
