"""How a job did after each step of the load: how soon nothing waited any more, at what size, with how many rescales.

Also what each change waited for, from the step to the running change. Computed from the topics; pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.commands import EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision

SETTLED_S: Final = 3.0
"""A job has settled once less waits than comes in so many seconds, and stays so until the next step."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A job from one step of the load to the next.

    Attributes:
        from_s: second of the run at which the load changed.
        factor: of the load, from then on.
        records_per_s: mean load.
        settled_s: from the step until the job had settled; null: it never did.
        backlog_record_seconds: the records that waited, summed over the seconds.
        size_minutes: subtasks or members, summed over the time.
        rescales: that were seen to take effect.
    """

    from_s: float
    factor: float
    records_per_s: float
    settled_s: float | None
    backlog_record_seconds: int
    size_minutes: float
    rescales: int


@dataclass(frozen=True, slots=True)
class Observation:
    """A job as it was seen at one second of the run: what waited, its size, and how often that had changed."""

    at_s: float
    backlog: int
    size: int
    changes: int


def phases_of(
    looks: Sequence[Observation], steps: Sequence[tuple[float, float]], per_second: npt.NDArray[np.float64]
) -> tuple[Phase, ...]:
    """Return a job's phases.

    Args:
        looks: by time.
        steps: second and factor of each; before the first, the factor is 1.
        per_second: records in each second of the run.
    """
    steps = [(0.0, 1.0), *steps] if not steps or steps[0][0] > 0 else list(steps)
    ends = [*(at_s for at_s, _ in steps[1:]), np.inf]
    return tuple(
        _phase([look for look in looks if at_s <= look.at_s < end_s], at_s, end_s, factor, looks, per_second)
        for (at_s, factor), end_s in zip(steps, ends, strict=True)
    )


def _phase(
    own: Sequence[Observation],
    at_s: float,
    end_s: float,
    factor: float,
    looks: Sequence[Observation],
    per_second: npt.NDArray[np.float64],
) -> Phase:
    load = per_second[int(at_s) : int(min(end_s, len(per_second)))]
    rate = float(load.mean()) if len(load) else 0.0
    waiting = [look.at_s for look in own if look.backlog > SETTLED_S * rate]
    after = next((look.at_s for look in own if not waiting or look.at_s > waiting[-1]), None)
    took_s = np.diff([look.at_s for look in own], append=own[-1].at_s) if own else np.zeros(0)
    before = next((look.changes for look in reversed(looks) if look.at_s < at_s), own[0].changes if own else 0)
    return Phase(
        from_s=round(at_s, 1),
        factor=factor,
        records_per_s=round(rate, 1),
        settled_s=None if after is None else round(after - at_s if waiting else 0.0, 1),
        backlog_record_seconds=round(float(took_s @ [look.backlog for look in own])) if own else 0,
        size_minutes=round(float(took_s @ [look.size for look in own]) / 60, 1) if own else 0.0,
        rescales=(own[-1].changes if own else before) - before,
    )


class ScalingDelay(msgspec.Struct, frozen=True, kw_only=True):
    """One command, with the seconds that each part of the way to it took; null where no record says so.

    Attributes:
        job: its id.
        command_id: of the command.
        step_s: second of the run at which the load last changed before the decision; null: it had not.
        spans_held: decisions after the step that changed nothing.
        minute_s: from the step to the end of the minute that was decided on.
        marker_s: until that minute's end-of-minute marker was in Kafka.
        decision_s: until the decision was: the Spark batch and the policy.
        gate_s: until the command was given.
        gate_reasons: what the gate waited for.
        request_s: until the engine had accepted the command.
        engine_s: until the engine stopped the job for the change: its own cooldown, a checkpoint.
        still_s: how long the job stood still.
        status: ``applied`` or ``failed``; "": neither was reported.
        emergency: it was decided because of plain overload.
    """

    job: str
    command_id: str
    step_s: float | None
    spans_held: int
    minute_s: float | None
    marker_s: float | None
    decision_s: float
    gate_s: float
    gate_reasons: tuple[str, ...]
    request_s: float | None
    engine_s: float | None
    still_s: float | None
    status: str
    emergency: bool


PARTS = {
    "minute_s": "end of the minute",
    "marker_s": "marker in Kafka",
    "decision_s": "Spark batch and policy",
    "gate_s": "gate",
    "request_s": "request",
    "engine_s": "engine: cooldown, checkpoint",
    "still_s": "standing still",
}
"""The parts of a wait in their order, in words."""


@dataclass(slots=True)
class ScalingDelays:
    """Collects records with the broker's time of each; ``found`` returns what every command waited for."""

    _decisions: dict[str, tuple[int, Decision]] = field(default_factory=dict)
    _commands: dict[str, RescheduleCommand] = field(default_factory=dict)
    _reasons: dict[str, list[str]] = field(default_factory=dict)
    _progress: dict[tuple[str, str], Progress] = field(default_factory=dict)

    def take(self, record: Decision | RescheduleCommand | EventRecord, append_ms: int) -> None:
        """Take one record; the first of an identity counts."""
        if isinstance(record, Decision):
            self._decisions.setdefault(record.decision_id, (append_ms, record))
        elif isinstance(record, RescheduleCommand):
            if not record.advice:
                self._commands.setdefault(record.command_id, record)
        elif isinstance(record, Outcome):
            reasons = self._reasons.setdefault(record.decision_id, [])
            if record.status == "pending" and record.reason not in reasons:
                reasons.append(record.reason)
        elif isinstance(record, Progress):
            self._progress.setdefault((record.command_id, record.status), record)

    def found(self, began_ms: int, steps_s: Sequence[float]) -> tuple[ScalingDelay, ...]:
        """Return the waits in the order of the commands; ``steps_s``: seconds after ``began_ms`` at which the load changed."""
        ordered = sorted(self._commands.values(), key=lambda command: (command.issued_at_ms, command.command_id))
        steps_ms = {began_ms + round(1000 * step_s): step_s for step_s in steps_s}
        return tuple(self._waited(each, steps_ms) for each in ordered if each.decision_id in self._decisions)

    def _waited(self, command: RescheduleCommand, steps_ms: Mapping[int, float]) -> ScalingDelay:
        append_ms, decision = self._decisions[command.decision_id]
        step_ms = max((at_ms for at_ms in steps_ms if at_ms <= decision.span_end_ms), default=None)
        closed_ms = decision.closed_append_ms
        accepted, applied = (self._progress.get((command.command_id, status)) for status in ("accepted", "applied"))
        failed = (command.command_id, "failed") in self._progress
        return ScalingDelay(
            job=command.job,
            command_id=command.command_id,
            step_s=None if step_ms is None else steps_ms[step_ms],
            spans_held=0 if step_ms is None else self._held(command.job, step_ms, decision.span_end_ms),
            minute_s=_between(step_ms, decision.span_end_ms),
            marker_s=_between(decision.span_end_ms, closed_ms),
            decision_s=_between(closed_ms or decision.span_end_ms, append_ms) or 0.0,
            gate_s=_between(append_ms, command.issued_at_ms) or 0.0,
            gate_reasons=tuple(self._reasons.get(command.decision_id, ())),
            request_s=_between(command.issued_at_ms, accepted.at_ms) if accepted else None,
            engine_s=applied.waited_ms / 1000 if applied and applied.waited_ms is not None else None,
            still_s=applied.still_ms / 1000 if applied and applied.still_ms is not None else None,
            status="applied" if applied else "failed" if failed else "",
            emergency=decision.emergency is not None,
        )

    def _held(self, job: str, after_ms: int, before_ms: int) -> int:
        spans: Iterable[Decision] = (decision for _, decision in self._decisions.values() if decision.job == job)
        return sum(after_ms < decision.span_end_ms < before_ms and decision.action == "hold" for decision in spans)


def _between(from_ms: int | None, until_ms: int | None) -> float | None:
    """Return the seconds between two times, 0 if clocks disagree about their order; None if one is unknown."""
    return None if from_ms is None or until_ms is None else max(0, until_ms - from_ms) / 1000
