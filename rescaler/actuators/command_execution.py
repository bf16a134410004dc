"""What carrying out a command has in common for every engine: pace, back-off, and the shape of a report."""

import abc
from dataclasses import dataclass

import msgspec

from contracts.clock import MINUTE_MS
from contracts.commands import Progress, RescheduleCommand
from rescaler.actuators.base import EngineApi, EngineRefused, EngineUnavailable

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
