"""Carries out one command on an engine, through its port. No threads, no Kafka, no clock.

An engine that remembers commands by generation (`UnitsExecution`) is asked once and looked at until it is done. Nothing is
planned here, and a refused command is not tried again: the next decision sees the job as it is.

An engine that remembers only what it was asked for (`RequirementExecution`):

requested ──▶ running what is required ──▶ applied
    │              ▲
    │              └── partly: fewer subtasks run than required, and the engine goes on by itself
    └── deadline ──▶ withdrawn ──▶ failed

Its command ends with the engine wanting what runs or what ran before, never with a wish that nobody stands behind any more. The
one exception is an engine that does not answer: the rescaler takes back what is left once the engine is seen again.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Expected, Progress, Rescale, RescheduleCommand
from surescale.contracts.ids import command_id
from surescale.engines.ports.actuator import (
    CANNOT_WITHDRAW,
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    Accepted,
    EngineApi,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import covers, in_words

FIRST_PAUSE_MS = 200
LONGEST_PAUSE_MS = 5_000
DETAIL_LENGTH_MAX = 1_024
GRACE_MS = 2 * MINUTE_MS  # after the deadline, to undo what was begun


@dataclass(slots=True)
class CommandExecution(abc.ABC):
    """Carries out one command, step by step. It is safe to start again at any point.

    Attributes:
        not_before_ms: wall time of the next step; it backs off while the engine is away.
        away: why the engine did not answer at the last step; "" if it did.
        ended: the last report was made.
    """

    command: RescheduleCommand
    not_before_ms: int = 0
    away: str = ""
    ended: bool = False
    _pause_ms: int = FIRST_PAUSE_MS
    _said_accepted: bool = False

    def step(self, engine: EngineApi, *, now_ms: int, wall_ms: int) -> list[Progress]:
        """Do what is possible now and return the reports, in order.

        ``now_ms`` is the pipeline's time, for deadlines and reports; ``wall_ms`` paces the calls.
        """
        if self.ended or wall_ms < self.not_before_ms:
            return []
        try:
            reports = self._advance(engine, now_ms, wall_ms)
        except EngineRefused as refusal:
            return [self._failed(now_ms, refusal.code, refusal.detail)]
        except EngineUnavailable as problem:
            self.away = str(problem)
            self.not_before_ms = wall_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
            return [self._failed(now_ms, "DEADLINE", self.away)] if self._gives_up_waiting(now_ms) else []
        self.away, self._pause_ms = "", FIRST_PAUSE_MS
        return reports

    @property
    @abc.abstractmethod
    def is_requested(self) -> bool:
        """The engine has accepted the command."""

    @abc.abstractmethod
    def _advance(self, engine: EngineApi, now_ms: int, wall_ms: int) -> list[Progress]:
        """Do what is possible now."""

    def superseded(self, now_ms: int) -> Progress:
        """Return the report that a newer command of the job replaces this one."""
        return self._failed(now_ms, "SUPERSEDED", "a newer command of the job replaces it")

    def broken(self, now_ms: int, detail: str) -> Progress:
        """Return the report that an error of the actuator itself ends this command."""
        return self._failed(now_ms, "ACTUATOR_ERROR", detail)

    def _is_late(self, now_ms: int) -> bool:
        return self.command.deadline_ms is not None and now_ms >= self.command.deadline_ms

    def _gives_up_waiting(self, now_ms: int) -> bool:
        """Say whether an engine that does not answer has had its time."""
        return self._is_late(now_ms)

    def _now_accepted(self, now_ms: int, done_at_ms: int | None) -> list[Progress]:
        """Return the report of acceptance, once; its duration is the expected time until the job runs again, 0 if unknown."""
        if self._said_accepted:
            return []
        self._said_accepted = True
        at_ms = max(now_ms, self.command.issued_at_ms)
        return [self._report("accepted", at_ms, duration_ms=0 if done_at_ms is None else max(0, done_at_ms - at_ms))]

    def _failed(self, now_ms: int, code: str, detail: str) -> Progress:
        self.ended = True
        report = self._report("failed", max(now_ms, self.command.issued_at_ms))
        return msgspec.structs.replace(report, code=code, detail=detail[:DETAIL_LENGTH_MAX])

    def _report(self, status: str, at_ms: int, *, duration_ms: int = 0) -> Progress:
        return Progress(
            cluster=self.command.cluster,
            job=self.command.job,
            command_id=self.command.command_id,
            desired_generation=self.command.desired_generation,
            status=status,  # type: ignore[arg-type]  # one of the five, by the callers
            at_ms=at_ms,
            duration_ms=duration_ms,
        )


STEPS_MAX = 16  # of one rescale; no rescale has this many
WARMING_PAUSE_MS = 100  # between looks at learners


@dataclass(slots=True)
class UnitsExecution(CommandExecution):
    """Carries out one command, step by step.

    Attributes:
        accepted: the engine's answer; None before the request, or if the engine has forgotten it.
    """

    accepted: Accepted | None = None
    _said_warming_minute: int = -1

    @property
    def is_requested(self) -> bool:
        """The engine has accepted the command."""
        return self.accepted is not None

    def _advance(self, engine: EngineApi, now_ms: int, wall_ms: int) -> list[Progress]:
        reports: list[Progress] = []
        if self.accepted is None:
            if self._is_late(now_ms):
                return self._done_in_time(engine, now_ms) or [self._failed(now_ms, "DEADLINE", "it was not requested in time")]
            self.accepted = engine.request(self.command)
            reports += self._now_accepted(now_ms, self.accepted.done_at_ms)
        if now_ms < (self.accepted.done_at_ms or 0) and self.command.action != "prepare":
            return reports
        reports += self._observe(engine, self.accepted, now_ms)
        if self.command.action == "prepare" and not self.ended:
            self.not_before_ms = wall_ms + WARMING_PAUSE_MS
        return reports

    def _done_in_time(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        """Return reports if an earlier actuator requested this command and it has ended; else nothing."""
        rescale = engine.look(self.command.job).rescale
        if rescale is None or rescale.command_id != self.command.command_id or rescale.state not in ("done", "failed"):
            return []
        return [*self._now_accepted(now_ms, rescale.done_at_ms), *self._report_progress(rescale, now_ms)]

    def _observe(self, engine: EngineApi, accepted: Accepted, now_ms: int) -> list[Progress]:
        seen = engine.look(self.command.job)
        wanted, rescale = self.command.desired_generation, seen.rescale
        if rescale is not None and rescale.command_id == self.command.command_id:
            return self._report_progress(rescale, now_ms)
        if seen.generation == wanted or (rescale is not None and rescale.command_id in self._later_steps()):
            return [self._applied(accepted.effective_at_ms or now_ms, accepted.done_at_ms or now_ms)]
        if seen.generation > wanted:
            return [self._failed(now_ms, "STALE_GENERATION", f"the engine is at generation {seen.generation}")]
        self.accepted = None  # the engine has forgotten it: request it again
        return []

    def _report_progress(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Return reports of the engine's progress with this command."""
        if rescale.state == "failed":
            failed = self._failed(rescale.done_at_ms, rescale.code or "FAILED", "the engine gave up")
            return [_with_learners(msgspec.structs.replace(failed, at_ms=rescale.done_at_ms), rescale)]
        if rescale.state == "done":
            return [self._applied(rescale.effective_at_ms, rescale.done_at_ms, rescale)]
        if rescale.state != "warming":
            if self.accepted is not None and rescale.done_at_ms > max(now_ms, self.accepted.done_at_ms or 0):
                return self._put_off(rescale, now_ms)
            return [self._failed(now_ms, "DEADLINE", f"the engine is still {rescale.state}")] if self._is_late(now_ms) else []
        if self._is_late(now_ms - GRACE_MS):
            return [self._failed(now_ms, "DEADLINE", "the engine is still warming learners")]
        return self._warming(rescale, now_ms)

    def _put_off(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Return a report that the job runs again later than expected: a host died meanwhile, so it restarts once more."""
        self.accepted = Accepted(rescale.effective_at_ms, rescale.done_at_ms)
        return [self._report("accepted", now_ms, duration_ms=rescale.done_at_ms - now_ms)]

    def _warming(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Return a report of the learners' lag, once a minute of the pipeline's clock."""
        if now_ms // MINUTE_MS == self._said_warming_minute:
            return []
        self._said_warming_minute = now_ms // MINUTE_MS
        report = self._report("warming", now_ms, duration_ms=max(0, rescale.done_at_ms - now_ms))
        return [_with_learners(report, rescale)]

    def _later_steps(self) -> list[str]:
        """Return the ids of steps that may have followed this one; if one has, this step is over."""
        command = self.command
        later = range(command.step + 1, command.step + STEPS_MAX)
        return [command_id(command.job, command.desired_generation, step) for step in later]

    def _applied(self, effective_at_ms: int, done_at_ms: int, rescale: Rescale | None = None) -> Progress:
        self.ended = True
        report = self._report("applied", done_at_ms, duration_ms=max(0, done_at_ms - effective_at_ms))
        return report if rescale is None else _with_learners(report, rescale)


def _with_learners(report: Progress, rescale: Rescale) -> Progress:
    lag_bytes = rescale.lag_bytes if rescale.learners else None
    return msgspec.structs.replace(report, learners=rescale.learners, lag_bytes=lag_bytes, units=rescale.units)


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
        goes_to_rest = not any(self.target.values())
        if self._runs_target(seen) and (seen.state == "running" or goes_to_rest):
            return [self._applied(seen, now_ms)]
        if seen.state != "running" and not goes_to_rest:
            self._stopped_at_ms = now_ms if self._stopped_at_ms is None else self._stopped_at_ms
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
        """Say whether the engine runs what it is asked for; or fewer, where fewer are asked for: none is left to take away."""
        before = self.expected.required
        return all(
            running == count or 0 < running < count < before.get(task, count)
            for task, count in self.changed.items()
            for running in (seen.running.get(task, -1),)
        )

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
        """Settle for what runs if that is part of the way; else put back what was required before.

        A job that was at rest is not put back, nor is a task of it: records wait, and the engine goes on starting it.
        """
        if not any(self.expected.required.values()):
            return [self._failed(now_ms, DEADLINE, f"it does not run yet, and is still asked for; {seen.hindrance}".rstrip("; "))]
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
