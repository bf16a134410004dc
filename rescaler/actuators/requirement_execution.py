"""Carries out one command on an engine that remembers only what it was asked for: request, compare, withdraw.

requested ──▶ running what is required ──▶ applied
    │              ▲
    │              └── partly: fewer subtasks run than required, and the engine goes on by itself
    └── deadline ──▶ withdrawn ──▶ failed

A command ends with the engine wanting what runs or what ran before, never with a wish that nobody stands behind any more.
The one exception is an engine that does not answer: the rescaler takes back what is left once the engine is seen again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from contracts.commands import Expected, Progress
from rescaler.actuators.base import CANNOT_WITHDRAW, EPOCH_CHANGED, REQUIREMENT_CHANGED, EngineApi, EngineRefused, JobStatus
from rescaler.actuators.command_execution import DETAIL_LENGTH_MAX, GRACE_MS, CommandExecution
from rescaler.actuators.parallelism import covers, in_words

LOOK_EVERY_MS = 500
STABILIZATION_MS = 60_000
"""Of an engine that does not say how long it waits for steady resources; Flink's default."""
DEADLINE, PARTLY, JOB_ENDED = "DEADLINE", "PARTLY", "JOB_NOT_RUNNING"
_ENDED_STATES = ("finished", "failed")


@dataclass(slots=True)
class RequirementExecution(CommandExecution):
    """Carries out one command, step by step; `command.expected` says what the job was like when it was made."""

    _requested_at_ms: int | None = None
    _requirement_id: str = ""
    _stopped_at_ms: int | None = None
    _withdrawing: str = ""
    """Code of the failure that is reported once the command is withdrawn."""
    _put_back: Mapping[str, int] = field(default_factory=dict)
    _short_since_ms: int | None = None
    """Since when the present number of subtasks has been running."""
    _short: Mapping[str, int] = field(default_factory=dict)
    _said_partly: tuple[object, ...] = ()
    _hindrance: str = ""
    """Why the deadline was missed, as far as the engine says."""
    _is_requested: bool = False

    @property
    def is_requested(self) -> bool:
        """The engine has accepted the command."""
        return self._is_requested

    @property
    def expected(self) -> Expected:
        """The state that the command was made for."""
        assert self.command.expected is not None, "a command for an engine by requirement says what it expects"
        return self.command.expected

    @property
    def changed(self) -> dict[str, int]:
        """What the command changes, by task. Other tasks may lack slots for what was required of them before."""
        return self.command.targets

    @property
    def target(self) -> dict[str, int]:
        """The parallelism that the command asks for, by task."""
        return {**self.expected.required, **self.changed}

    # Steps

    def _advance(self, engine: EngineApi, now_ms: int, wall_ms: int) -> list[Progress]:
        self.not_before_ms = wall_ms + LOOK_EVERY_MS
        if self._withdrawing:
            return self._withdraw(engine, now_ms)
        if not self._is_requested:
            return self._request(engine, now_ms)
        return self._look(engine, now_ms)

    def _request(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        if self._is_late(now_ms):
            return self._take_up_late(engine, now_ms)
        engine.request(self.command)
        self._is_requested, self._requested_at_ms = True, now_ms
        return [*self._now_accepted(now_ms, None), *self._look(engine, now_ms)]

    def _take_up_late(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        """Go on after the deadline: an earlier actuator may have requested the command."""
        seen = engine.look(self.command.job)
        if self._is_of_other_epoch(seen):
            return [self._failed(now_ms, DEADLINE, "it was not requested in time")]
        if not self._wants_target(seen):
            if self._wants_part(seen):  # an earlier actuator died between two tasks
                self._withdrawing, self._put_back = DEADLINE, dict(self.expected.required)
                return self._withdraw(engine, now_ms)
            return [self._failed(now_ms, DEADLINE, "it was not requested in time")]
        self._is_requested = True
        return [*self._now_accepted(now_ms, None), *self._compare(engine, seen, now_ms)]

    def _look(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        return self._compare(engine, engine.look(self.command.job), now_ms)

    def _compare(self, engine: EngineApi, seen: JobStatus, now_ms: int) -> list[Progress]:
        if self._is_of_other_epoch(seen):
            return [self._failed(now_ms, EPOCH_CHANGED, "the job was submitted again")]
        if seen.state in _ENDED_STATES:
            return [self._failed(now_ms, JOB_ENDED, f"the job is {seen.state}")]
        if not self._wants_target(seen):
            return [self._failed(now_ms, REQUIREMENT_CHANGED, f"somebody else asked for {in_words(seen.required)}")]
        self._requirement_id = seen.requirement_id
        if seen.state != "running":
            self._stopped_at_ms = now_ms if self._stopped_at_ms is None else self._stopped_at_ms
        elif self._runs_target(seen):
            return [self._applied(seen, now_ms)]
        if self._is_late(now_ms):
            return self._begin_to_withdraw(engine, seen, now_ms)
        return self._partly(engine, seen, now_ms)

    def _is_of_other_epoch(self, seen: JobStatus) -> bool:
        return bool(self.expected.epoch and seen.epoch) and self.expected.epoch != seen.epoch

    def _wants_target(self, seen: JobStatus) -> bool:
        return covers(seen.required, self.target)

    def _wants_part(self, seen: JobStatus) -> bool:
        """Say whether tasks are on their way from before to what the command wants, or some are there and others not yet.

        Whether somebody else put them there is for the engine to know: it refuses to take that back.
        """
        before = self.expected.required
        return not covers(seen.required, before) and all(
            task in seen.required and self._is_between(task, seen.required[task]) for task in before
        )

    def _runs_target(self, seen: JobStatus) -> bool:
        return covers(seen.running, self.changed)

    # Fewer than required

    def _partly(self, engine: EngineApi, seen: JobStatus, now_ms: int) -> list[Progress]:
        """Return a report if the engine has not moved for as long as it waits for steady resources, once for each state."""
        running = {task: seen.running.get(task, 1) for task in self.target}
        if running != self._short or self._short_since_ms is None or seen.state != "running":
            self._short, self._short_since_ms = running, now_ms
            return []
        known = engine.capabilities().stabilization_ms
        if now_ms - self._short_since_ms <= (STABILIZATION_MS if known is None else known):
            return []
        said = (tuple(sorted(running.items())), seen.waiting_for)
        if said == self._said_partly:
            return []
        self._said_partly = said
        report = self._report("partly", now_ms)
        detail = seen.hindrance[:DETAIL_LENGTH_MAX]
        return [msgspec.structs.replace(report, reached=running, waiting_for=seen.waiting_for, detail=detail)]

    # Taken back

    def _begin_to_withdraw(self, engine: EngineApi, seen: JobStatus, now_ms: int) -> list[Progress]:
        """Settle for what runs if that is part of the way; else put back what was required before."""
        running = {task: seen.running.get(task, 0) for task in self.changed}
        before = self.expected.required
        is_part = (
            seen.state == "running" and not covers(before, running) and all(map(self._is_between, running, running.values()))
        )
        self._withdrawing, self._put_back = (PARTLY, {**before, **running}) if is_part else (DEADLINE, dict(before))
        self._hindrance = seen.hindrance
        return self._withdraw(engine, now_ms)

    def _is_between(self, task: str, running: int) -> bool:
        ends = sorted((self.expected.required.get(task, running), self.target[task]))
        return ends[0] <= running <= ends[1]

    def _withdraw(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        try:
            engine.withdraw(self.command, self._put_back)
        except EngineRefused as refusal:
            why = {CANNOT_WITHDRAW: "the engine cannot take it back", REQUIREMENT_CHANGED: "somebody else has asked for more"}
            return [self._failed(now_ms, DEADLINE, why.get(refusal.code, str(refusal)))]
        detail = f"not reached in time: the engine is asked for {in_words(self._put_back)} again"
        if self._withdrawing == PARTLY:
            detail = f"not reached in time: {in_words(self._put_back)} runs, and the engine is asked for no more"
        if self._hindrance:
            detail = f"{detail}; {self._hindrance}"
        failed = self._failed(now_ms, self._withdrawing, detail)
        return [msgspec.structs.replace(failed, reached=dict(self._put_back))]

    def _gives_up_waiting(self, now_ms: int) -> bool:
        """An engine that may still want the command gets longer to answer."""
        return self._is_late(now_ms - (GRACE_MS if self._is_requested or self._withdrawing else 0))

    # Carried out

    def _applied(self, seen: JobStatus, now_ms: int) -> Progress:
        """Return the last report, with the times that the engine measured, or else those that were seen."""
        self.ended = True
        requested, pause = self._requested_at_ms, seen.pause
        if pause is not None and pause.requirement_id and pause.requirement_id != self._requirement_id:
            pause = None
        if pause is not None and requested is not None and pause.running_at_ms < requested:
            pause = None  # of an earlier rescale
        stopped, running = (pause.stopped_at_ms, pause.running_at_ms) if pause else (self._stopped_at_ms, now_ms)
        at_ms = max(min(running, now_ms), self.command.issued_at_ms)
        report = self._report("applied", at_ms, duration_ms=0 if requested is None else max(0, running - requested))
        return msgspec.structs.replace(
            report,
            waited_ms=None if requested is None else max(0, (running if stopped is None else stopped) - requested),
            still_ms=None if stopped is None else max(0, running - stopped),
        )
