"""A pipeline to an engine that is asked for counts: monitor, controller and actuator around the fake, without Kafka.

Everything may be killed and begun again from what was written down, as in the pipeline.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Outcome, Progress
from surescale.contracts.decisions import Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import Cluster, decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Checkpointing, ClusterTopology, Host, JobTopology, TaskSpec
from surescale.contracts.rescaler_state import Condition, RescalerRecord
from surescale.contracts.topology import RESTING
from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.job.memory import JobMemory
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View
from surescale.rescaler.execution import RequirementExecution
from surescale.rescaler.gate_settings import GateSettings
from tests.support.fake_requirement_engine import COUNTS, FakeRequirementEngine
from tests.support.kept_effects import KeepsEffects

CLUSTER, JOB = Cluster("real"), "real/orders"
AUTHOR = {"parse": 1, "count": 2}
WIDER = {"parse": 1, "count": 4}
THEIRS = {"parse": 2, "count": 3}
LABELS = {"parse": "Parse lines", "count": "Count by key"}
START_MS = 10_000 * MINUTE_MS
LOOK_EVERY_S = 20
RULES = ControlSettings(gate=GateSettings(cooldown_ms=30_000), apply_ms_max=180_000)


@dataclass
class RequirementPipeline(KeepsEffects):
    """One job on one engine.

    Attributes:
        stamps: what the monitor writes into a topology: when it looked, or when the job changed.
        ids: the engine names every requirement, or equal ones by one name, or none.
        specs: fields of every task that are not as usual.
        restarts: the controller is replaced by its heir after every second.
    """

    allowed: dict[str, Any] = field(default_factory=lambda: {"mode": "act"})
    can: Capabilities = COUNTS
    stamps: Literal["look", "change"] = "look"
    ids: Literal["every", "content", "none"] = "every"
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    topology_fields: dict[str, Any] = field(default_factory=dict)
    free_slots: int | None = None
    restarts: bool = False
    monitor_sees: bool = True
    fake: FakeRequirementEngine = field(init=False)
    control: Controller = field(init=False)
    topology: JobTopology | None = None
    work: RequirementExecution | None = None
    effects: list[Effects] = field(default_factory=list)
    reports: list[Progress] = field(default_factory=list)
    _settings: JobSettings | None = None
    _looked_at_ms: int = 0
    _changed: bool = True
    _records: dict[str, RescalerRecord | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Submit the job and look at it."""
        self.fake = FakeRequirementEngine(now_ms=START_MS, can=self.can)
        self.fake.submit(JOB, AUTHOR)
        self.control = Controller(CLUSTER, RULES)
        self.allow(**self.allowed)
        self.look()

    # What a test does

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.fake.now_ms

    def allow(self, **settings: Any) -> None:
        """Change the job's settings."""
        self._changed = True
        version = 1 if self._settings is None else self._settings.version + 1
        before = self._settings or JobSettings(job=JOB, scale_down_after_minutes=0)
        self._settings = msgspec.structs.replace(before, **settings, version=version)

    def decide(self, wanted: Mapping[str, int], **fields: Any) -> Outcome:
        """Let a policy decide now, from the job as it was last seen, and return the last outcome."""
        span_end_ms = self.now_ms
        current = {spec.task: spec.parallelism for spec in self.topology.tasks} if self.topology else {}
        decision = Decision(
            decision_id=decision_id(JOB, span_end_ms, "rule"),
            job=JOB,
            span_end_ms=span_end_ms,
            window_id=f"{JOB}@{span_end_ms}",
            policy=PolicyUsed(name="rule"),
            seed=0,
            settings_version=0,
            topology_version=1,
            action="act",
            reason="as the test wants",
            completeness=1.0,
            minutes_known=60,
            load_records_per_minute=1_000.0,
            tasks=tuple(
                TaskDecision(task=task, current=current.get(task, 1), ratio=1.0, proposed=count, desired=count)
                for task, count in wanted.items()
            ),
        )
        decision = msgspec.structs.replace(decision, **fields)
        self._follow(self.control.on_decision(decision, self.view(), self.now_ms))
        return self.outcomes[-1]

    def go(self, seconds: int) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.fake.now_ms += 1_000
            if self.now_ms - self._looked_at_ms >= LOOK_EVERY_S * 1_000:
                self.look()
            self._act()
            wake_ms = self.control.wake_at_ms()
            if self._changed or (wake_ms is not None and wake_ms <= self.now_ms):  # as the service does
                self._changed = False
                self._follow(self.control.on_tick(self.view(), self.now_ms))
            if self.restarts:
                self.restart()

    def settle(self, within_s: int = 900) -> None:
        """Let time pass until nothing is under way, and the monitor has seen it."""
        for _ in range(within_s):
            self.go(1)
            if self.memory.underway is None and self.memory.pending is None:
                self.go(LOOK_EVERY_S + 1)
                return
        raise AssertionError(f"it never comes to rest: {self.memory}")

    def look(self) -> None:
        """Let the monitor look at the engine; if that does not answer, the last topology stays."""
        self._changed = True
        self._looked_at_ms = self.now_ms
        if not self.monitor_sees:
            return
        try:
            seen = self.fake.look(JOB)
        except (EngineUnavailable, EngineRefused):
            return
        tasks = tuple(
            msgspec.structs.replace(
                TaskSpec(
                    task=task,
                    parallelism=seen.running[task] or self._last_size(task),
                    required=seen.required[task],
                    max_parallelism=100,
                    label=LABELS.get(task, ""),
                ),
                **self.specs.get(task, {}),
            )
            for task in seen.required
        )
        fields: dict[str, Any] = {
            "epoch": seen.epoch,
            "requirement_id": {"every": seen.requirement_id, "content": str(sorted(seen.required.items())), "none": ""}[self.ids],
            "state": seen.state if any((*seen.required.values(), *seen.running.values())) else RESTING,
            "checkpointing": Checkpointing(interval_ms=10_000),
        } | self.topology_fields
        before = self.topology
        version, at_ms = (before.version, before.at_ms) if before else (1, START_MS - 60 * MINUTE_MS)
        new = JobTopology(job=JOB, version=version, at_ms=at_ms, tasks=tasks, **fields)
        if before is not None and new != before:
            new = msgspec.structs.replace(new, version=version + 1, at_ms=self.now_ms)
        elif before is not None and self.stamps == "look":
            new = msgspec.structs.replace(new, at_ms=self.now_ms)
        self.topology = new

    def _last_size(self, task: str) -> int:
        """What last ran of a task, as sources of groups without members tell it."""
        return next((spec.parallelism for spec in (self.topology.tasks if self.topology else ()) if spec.task == task), 1)

    def restart(self) -> None:
        """Kill rescaler and actuator; their heirs know only what was written down."""
        self._changed = True
        self.control = Controller(CLUSTER, RULES, [record for _, record in sorted(self._records.items()) if record is not None])
        command = self.memory.outstanding
        self.work = None if command is None or command.advice else RequirementExecution(command)

    # What shows

    def view(self) -> View:
        """The world as the rescaler sees it."""
        host = Host(host="tm-1", slots=8, free_slots=self.free_slots)
        hosts = ClusterTopology(cluster=CLUSTER, version=1, at_ms=0, hosts=(host,), engine=self.can)
        jobs = {JOB: self.topology} if self.topology is not None else {}
        settings = {JOB: self._settings} if self._settings is not None else {}
        return View(cluster=hosts, jobs=jobs, settings=settings)

    @property
    def memory(self) -> JobMemory:
        """What the rescaler remembers."""
        return self.control.memory.get(JOB) or JobMemory(job=JOB)

    @property
    def conditions(self) -> dict[str, Condition]:
        """The job's conditions by type."""
        return {condition.type: condition for condition in self.memory.conditions}

    def condition(self, kind: str) -> tuple[bool, str]:
        """Status and reason of a condition."""
        return self.conditions[kind].status, self.conditions[kind].reason

    @property
    def required(self) -> dict[str, int]:
        """What the engine is asked for."""
        return dict(self.fake._jobs[JOB].required)

    @property
    def running(self) -> dict[str, int]:
        """What it runs."""
        return dict(self.fake._jobs[JOB].running)

    # The pipeline

    def _act(self) -> None:
        if self.work is None:
            return
        for report in self.work.step(self.fake, now_ms=self.now_ms, wall_ms=self.now_ms):
            self.reports.append(report)
            self._follow(self.control.on_progress(report, self.view(), self.now_ms))
        if self.work is not None and self.work.ended:
            self.work = None

    @property
    def drifts(self) -> list[tuple[str, dict[str, int], dict[str, int]]]:
        """The records of foreign changes: status, what we asked for, what they did."""
        return [(drift.status, drift.ours, drift.theirs) for effects in self.effects for drift in effects.drifts]

    def _follow(self, effects: Effects) -> None:
        if effects.is_empty:
            return
        self.effects.append(effects)
        self._records |= {each.key: each.record for each in effects.records}
        for command in effects.commands:
            if not command.advice:
                self.work = RequirementExecution(command)


def pipeline(**changes: Any) -> RequirementPipeline:
    """A pipeline whose job we may act on."""
    return RequirementPipeline(**changes)


def rescaled(**changes: Any) -> RequirementPipeline:
    """A pipeline on which we have asked for `WIDER`, which runs and was seen."""
    found = pipeline(**changes)
    assert found.decide({"count": 4}).status == "commanded"
    found.settle()
    assert (found.required, found.running) == (WIDER, WIDER)
    return found
