"""Carries out one command on an engine that remembers commands by generation: request, look, report.

It does not plan, and it does not retry a refused command: the next decision sees the job as it is. No threads, Kafka or clock.
"""

from dataclasses import dataclass

import msgspec

from contracts.clock import MINUTE_MS
from contracts.commands import Progress
from contracts.ids import command_id
from rescaler.actuators.base import Accepted, EngineApi, Rescale
from rescaler.actuators.command_execution import GRACE_MS, CommandExecution

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
