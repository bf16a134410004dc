"""What policies would have done on the same windows, side by side: changes, capacity, agreement with recorded decisions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import zstandard

from surescale.contracts.decisions import Decision
from surescale.contracts.windows import Window
from surescale.contracts.wire import decode, encode
from surescale.policies.graph import job_graph
from surescale.policies.measure import measure

DIFFERENCES_KEPT = 20


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """One task at one span: what it had, and what each policy wants (None: that policy has no span here)."""

    task: str
    current: int
    desired: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class SpanDiff:
    """One job at the end of one span.

    Attributes:
        actions: act, hold or None (no span), by policy.
        current: subtasks of all scalable tasks; ``desired`` is the same sum as each policy wants it.
        tasks: those that at least one policy changes, in the order of the topology.
        reasons: each policy's own sentence.
    """

    job: str
    span_end_ms: int
    actions: tuple[str | None, ...]
    current: int
    desired: tuple[int | None, ...]
    tasks: tuple[TaskTarget, ...]
    reasons: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """A decision that came out differently, and the fields that differ."""

    decision_id: str
    fields: list[str]


@dataclass(slots=True)
class Agreement:
    """How decisions made again compare with the recorded ones, byte by byte.

    Attributes:
        other_hash: recorded decisions by another package of the same policy, which are not compared.
        unmatched: recorded decisions that were not made again.
    """

    same: int = 0
    different: int = 0
    other_hash: int = 0
    unmatched: int = 0
    differences: list[RecordDifference] = field(default_factory=list)

    def take(self, again: Decision, recorded: "KeptDecision") -> None:
        """Compare one pair."""
        encoded = encode(again)
        before = recorded.encoded()
        if encoded == before:
            self.same += 1
            return
        was = decode(before, Decision)
        if was.policy.sha256 != again.policy.sha256 and not (was.policy.fallback_reason or again.policy.fallback_reason):
            self.other_hash += 1
            return
        self.different += 1
        if len(self.differences) < DIFFERENCES_KEPT:
            names = [name for name in Decision.__struct_fields__ if getattr(was, name) != getattr(again, name)]
            self.differences.append(RecordDifference(again.decision_id, names))


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """A recorded decision, packed small because many are kept at once."""

    asked: str
    seed: int
    settings_version: int
    append_ms: int
    packed: bytes

    @classmethod
    def of(cls, decision: Decision, append_ms: int) -> "KeptDecision":
        """Keep a decision."""
        packed = zstandard.ZstdCompressor(level=1).compress(encode(decision))
        return cls(asked_policy(decision), decision.seed, decision.settings_version, append_ms, packed)

    def encoded(self) -> bytes:
        """Return the decision's bytes."""
        return zstandard.ZstdDecompressor().decompress(self.packed)


@dataclass(slots=True)
class PolicyTally:
    """What one policy would have done over all windows.

    Attributes:
        rescales: acts whose sizes differ from those wanted at the span before. A target that is repeated while the pipeline does
            something else counts once; what the pipeline changed meanwhile does not count, since the policy did not ask for it.
        minutes: minutes with a measured load after the first decision. In ``minutes_over_capacity`` of them, the demand of some
            task exceeded the parallelism wanted at the previous span.
        subtask_minutes: subtasks of scalable tasks, summed over ``minutes``.
        fallbacks: decisions that the rule made in its place.
    """

    policy: str
    sha256: str = ""
    decisions: int = 0
    acts: int = 0
    rescales: int = 0
    minutes: int = 0
    minutes_over_capacity: int = 0
    subtask_minutes: int = 0
    fallbacks: int = 0
    recorded: Agreement = field(default_factory=Agreement)

    def decided(self, decision: Decision, before: Mapping[str, int]) -> None:
        """Count a decision; ``before`` is the parallelism wanted so far, by task (empty at first: what runs)."""
        self.decisions += 1
        self.acts += decision.action == "act"
        self.fallbacks += decision.policy.fallback_reason is not None
        self.rescales += decision.action == "act" and any(
            before.get(task.task, task.current) != task.desired for task in decision.tasks
        )

    def measured(self, load: "MinuteLoad", parallelism: Mapping[str, int]) -> None:
        """Count a minute under a parallelism by task."""
        self.minutes += 1
        self.minutes_over_capacity += load.exceeds(parallelism)
        self.subtask_minutes += load.subtasks(parallelism)


@dataclass(frozen=True, slots=True)
class MinuteLoad:
    """The demand of one minute: the busy subtasks each scalable task needed for the job's input, and the subtasks it had."""

    tasks: tuple[str, ...]
    needed: tuple[float, ...]  # NaN where unknown
    running: tuple[int, ...]

    def exceeds(self, parallelism: Mapping[str, int]) -> bool:
        """Return whether some task needed more than it has."""
        return any(
            need > parallelism.get(task, own) for task, need, own in zip(self.tasks, self.needed, self.running, strict=True)
        )

    def subtasks(self, parallelism: Mapping[str, int]) -> int:
        """Return the sum over the tasks."""
        return sum(parallelism.get(task, own) for task, own in zip(self.tasks, self.running, strict=True))


def minute_load(window: Window) -> MinuteLoad | None:
    """Return the demand of the window's newest minute, None if no source reported.

    The demand is DS2's: load x records a task sees per record that enters x busy time per record, both measured over the window.

    Raises:
        RecordRejected: the topology has a cycle.
    """
    graph = job_graph(window.topology.tasks)
    measured = measure(window.figures, graph)
    load = measured.load[-1]
    if np.isnan(load):
        return None
    demand = measured.demand(np.asarray(load))
    picked = np.flatnonzero(graph.scalable).tolist()
    specs = window.topology.tasks
    return MinuteLoad(
        tasks=tuple(specs[i].task for i in picked),
        needed=tuple(float(demand[i]) for i in picked),
        running=tuple(specs[i].parallelism for i in picked),
    )


def span_diff(window: Window, decisions: Sequence[Decision | None]) -> SpanDiff:
    """Lay the decisions of one span side by side."""
    by_task = [{} if each is None else {task.task: task.desired for task in each.tasks} for each in decisions]
    targets = [
        TaskTarget(spec.task, spec.parallelism, tuple(wanted.get(spec.task) for wanted in by_task))
        for spec in window.topology.tasks
    ]
    scalable = [spec.task for spec in window.topology.tasks if spec.scalable]
    return SpanDiff(
        job=window.job,
        span_end_ms=window.window_end_ms,
        actions=tuple(None if each is None else each.action for each in decisions),
        current=sum(spec.parallelism for spec in window.topology.tasks if spec.scalable),
        desired=tuple(sum(wanted[task] for task in scalable) if wanted else None for wanted in by_task),
        tasks=tuple(target for target in targets if any(desired not in (None, target.current) for desired in target.desired)),
        reasons=tuple(None if each is None else each.reason for each in decisions),
    )


def asked_policy(decision: Decision) -> str:
    """Return the policy that was asked, even if the rule stood in for it."""
    return decision.policy.asked or decision.policy.name
