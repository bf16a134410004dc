"""To no worker at all and back, on a real Kafka with real workers: nothing is lost."""

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from surescale.contracts.commands import Outcome
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import Cluster, decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.processes.actuator import ProcessesEngine
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View
from surescale.rescaler.execution import RequirementExecution
from surescale.rescaler.gate_settings import GateSettings
from surescale.services.local_stack.consumers.worker import REPEATED
from tests.conftest import KafkaForTests
from tests.support.live_groups import CLUSTER, JOB, LiveChain
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ID = f"{CLUSTER}/{JOB}"
SPEED = 20
"""A minute passes in three seconds."""


class _Fast:
    """A clock that runs on."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def now_ms(self) -> int:
        """Return the time."""
        return 1_800_000_000_000 + round((time.monotonic() - self._began_s) * 1000 * SPEED)

    def wait(self, seconds: float) -> bool:
        """Nobody waits."""
        return False


@dataclass
class _Loop:
    """Monitor, rescaler and actuator of one chain in this process, a step at a time."""

    chain: LiveChain
    clock: _Fast = field(default_factory=_Fast)
    outcomes: list[Outcome] = field(default_factory=list)
    topology: JobTopology | None = None
    work: deque[RequirementExecution] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.source = ConsumerGroupSource(self.chain.settings(), clock=lambda _: self.clock, speed=SPEED)
        self.source.jobs()
        self.engine = ProcessesEngine(self.chain.reconciler, CLUSTER)
        self.control = Controller(Cluster(CLUSTER), ControlSettings(gate=GateSettings(cooldown_ms=1_000)))

    def view(self) -> View:
        """Return the world as the rescaler sees it."""
        allowed = JobSettings(job=ID, mode="act", idle_to_zero_minutes=1)
        jobs = {ID: self.topology} if self.topology is not None else {}
        return View(cluster=self.source.cluster_topology(), jobs=jobs, settings={ID: allowed})

    def step(self) -> None:
        """Look, decide, act."""
        self.chain.reconciler.reconcile()
        with contextlib.suppress(SourceUnavailable):  # a group deals out its partitions
            self.topology = self.source.follow(ID).look().topology
        self._follow(self.control.on_tick(self.view(), self.clock.now_ms()))
        if self.work:
            for report in self.work[0].step(self.engine, now_ms=self.clock.now_ms(), wall_ms=time.time_ns() // 1_000_000):
                self._follow(self.control.on_progress(report, self.view(), self.clock.now_ms()))
            if self.work[0].ended:
                self.work.popleft()

    def decide(self, **sizes: int) -> None:
        """Let a policy decide that it stays as it is, while records come."""
        at_ms = self.clock.now_ms()
        tasks = [TaskDecision(task=task, current=size, ratio=1.0, proposed=size, desired=size) for task, size in sizes.items()]
        decision = Decision(
            decision_id=decision_id(ID, at_ms, "rule"), job=ID, span_end_ms=at_ms, window_id=f"{ID}@{at_ms}",
            policy=PolicyUsed(name="rule"), seed=0, settings_version=0, topology_version=1, action="hold", reason="fits",
            completeness=1.0, minutes_known=60, load_records_per_minute=100.0, tasks=tuple(tasks),
        )  # fmt: skip
        self._follow(self.control.on_decision(decision, self.view(), at_ms))

    def rests(self) -> bool:
        """Take a step, and say whether the job rests, and no worker is left."""
        self.step()
        is_resting = self.topology is not None and self.topology.state == "resting"
        return is_resting and not self.chain.reconciler.store.workers(JOB)

    def said(self, own: str) -> list[str]:
        """Return what was said of acts of a kind that were carried out."""
        return [each.detail for each in self.outcomes if each.decision_id.endswith(f"/{own}") and each.status == "commanded"]

    def _follow(self, effects: Effects) -> None:
        self.outcomes += effects.outcomes
        self.work += [RequirementExecution(command) for command in effects.commands]


def test_an_idle_chain_goes_to_no_worker_and_back_and_loses_nothing(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Twice. It rests with its offsets kept, records start it at the sizes that it had, and each comes out."""
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, wait_ms=1.0, parse=2, count=1) as chain:
        chain.joined(parse=2, count=1)
        loop = _Loop(chain)
        chain.send(400)
        loop.step()
        loop.decide(parse=2, count=1)
        for sent in (412, 424):
            wait_until(loop.rests, 120, "the job at rest")
            assert loop.said("rest")[-1].startswith("no record for ")
            assert loop.said("rest")[-1].endswith(": parse 2 -> 0, count 1 -> 0 members")
            assert set(chain.output()) == set(range(sent - 12))
            conditions = {each.type: each for each in loop.control.memory[ID].conditions}
            assert (conditions["Available"].status, conditions["Available"].reason) == (True, "AtRest")
            assert not conditions["Degraded"].status
            chain.send(12)
            wait_until(lambda: (loop.step(), set(chain.output()) == set(range(sent)))[1], 120, "what started it")  # noqa: B023
            assert loop.said("wake")[-1] == "12 records wait: parse 0 -> 2, count 0 -> 1 members"
        assert (len(loop.said("rest")), len(loop.said("wake"))) == (2, 2)
        if not any(REPEATED in log.read_text() for log in (tmp_path / "workers").rglob("*.log")):
            assert set(chain.output().values()) == {1}
        loop.source.close()
