"""One command on its way: ask, look, report; safe to begin again at any point. No threads, no Kafka, no clock.

What it does not do: plan, or try a refused command again: the next decision sees the job as it is.
"""

from dataclasses import dataclass

from contracts.clock import MINUTE_MS
from contracts.commands import Progress, RescheduleCommand
from contracts.ids import command_id
from rescaler.actuators.base import Accepted, EngineApi, EngineAway, EngineRefused, Rescale

FIRST_PAUSE_MS = 200
LONGEST_PAUSE_MS = 5_000
STEPS_MAX = 16  # of one rescale; more than any has
WARMING_PAUSE_MS = 100  # between looks at learners
GRACE_MS = 2 * MINUTE_MS  # an engine gives learners up by itself at their deadline; after this it is not believed to


@dataclass(slots=True)
class CarryingOut:
    """Carries one command out, one `step` after the other.

    Attributes:
        accepted: the engine's answer; None while it has not been asked, or has forgotten.
        not_before_ms: wall time of the next step; later after each time the engine was away.
        away: why the engine gave no answer at the last step; "" when it did.
        ended: the last report was made.
    """

    command: RescheduleCommand
    accepted: Accepted | None = None
    not_before_ms: int = 0
    away: str = ""
    ended: bool = False
    _pause_ms: int = FIRST_PAUSE_MS
    _said_accepted: bool = False
    _said_warming_minute: int = -1

    def step(self, engine: EngineApi, *, now_ms: int, wall_ms: int) -> list[Progress]:
        """Do what can be done now and return what is to be reported, in order.

        ``now_ms`` is the road's time, for deadlines and reports; ``wall_ms`` paces the calls.
        """
        if self.ended or wall_ms < self.not_before_ms:
            return []
        try:
            reports = self._advance(engine, now_ms, wall_ms)
        except EngineRefused as refusal:
            return [self._failed(now_ms, refusal.code, refusal.detail)]
        except EngineAway as problem:
            self.away = str(problem)
            self.not_before_ms = wall_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
            return [self._failed(now_ms, "DEADLINE", self.away)] if self._is_late(now_ms) else []
        self.away, self._pause_ms = "", FIRST_PAUSE_MS
        return reports

    def superseded(self, now_ms: int) -> Progress:
        """Give way to a newer command of the job."""
        return self._failed(now_ms, "SUPERSEDED", "a newer command of the job has come")

    def _advance(self, engine: EngineApi, now_ms: int, wall_ms: int) -> list[Progress]:
        reports: list[Progress] = []
        if self.accepted is None:
            if self._is_late(now_ms):
                return self._done_in_time(engine, now_ms) or [self._failed(now_ms, "DEADLINE", "it was not asked for in time")]
            self.accepted = engine.request(self.command)
            reports += self._now_accepted(self.accepted, now_ms)
        if now_ms < self.accepted.done_at_ms and self.command.action != "prepare":
            return reports
        reports += self._looked(engine, self.accepted, now_ms)
        if self.command.action == "prepare" and not self.ended:
            self.not_before_ms = wall_ms + WARMING_PAUSE_MS
        return reports

    def _done_in_time(self, engine: EngineApi, now_ms: int) -> list[Progress]:
        """Report on a command that an actuator before this one asked for and that has ended; nothing where it has not."""
        rescale = engine.look(self.command.job).rescale
        if rescale is None or rescale.command_id != self.command.command_id or rescale.state not in ("done", "failed"):
            return []
        accepted = Accepted(rescale.effective_at_ms, rescale.done_at_ms)
        return [*self._now_accepted(accepted, now_ms), *self._told(rescale, now_ms)]

    def _looked(self, engine: EngineApi, accepted: Accepted, now_ms: int) -> list[Progress]:
        seen = engine.look(self.command.job)
        wanted, rescale = self.command.desired_generation, seen.rescale
        if rescale is not None and rescale.command_id == self.command.command_id:
            return self._told(rescale, now_ms)
        if seen.generation == wanted or (rescale is not None and rescale.command_id in self._later_steps()):
            return [self._applied(accepted.effective_at_ms, accepted.done_at_ms)]
        if seen.generation > wanted:
            return [self._failed(now_ms, "STALE_GENERATION", f"the engine is at generation {seen.generation}")]
        self.accepted = None  # the engine has forgotten: ask again
        return []

    def _told(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Report what the engine says of this very command."""
        if rescale.state == "failed":
            at_ms = rescale.done_at_ms
            self.ended = True
            return [self._report("failed", at_ms, rescale, code=rescale.code or "FAILED", detail="the engine gave it up")]
        if rescale.state == "done":
            return [self._applied(rescale.effective_at_ms, rescale.done_at_ms, rescale)]
        if rescale.state != "warming":
            if self.accepted is not None and rescale.done_at_ms > max(now_ms, self.accepted.done_at_ms):
                return self._put_off(rescale, now_ms)
            return [self._failed(now_ms, "DEADLINE", f"the engine is still {rescale.state}")] if self._is_late(now_ms) else []
        if self._is_late(now_ms - GRACE_MS):
            return [self._failed(now_ms, "DEADLINE", "the engine still warms learners")]
        return self._warming(rescale, now_ms)

    def _put_off(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Tell that the job runs again later than was said: a host that died meanwhile makes it restart once more."""
        self.accepted = Accepted(rescale.effective_at_ms, rescale.done_at_ms)
        return [self._report("accepted", now_ms, duration_ms=rescale.done_at_ms - now_ms)]

    def _warming(self, rescale: Rescale, now_ms: int) -> list[Progress]:
        """Report the learners' lag, once a minute of the road's clock."""
        if now_ms // MINUTE_MS == self._said_warming_minute:
            return []
        self._said_warming_minute = now_ms // MINUTE_MS
        return [self._report("warming", now_ms, rescale, duration_ms=max(0, rescale.done_at_ms - now_ms))]

    def _later_steps(self) -> list[str]:
        """Ids of the steps that may have followed this one, which is over then."""
        command = self.command
        later = range(command.step + 1, command.step + STEPS_MAX)
        return [command_id(command.job, command.desired_generation, step) for step in later]

    def _is_late(self, now_ms: int) -> bool:
        return self.command.deadline_ms is not None and now_ms >= self.command.deadline_ms

    def _now_accepted(self, accepted: Accepted, now_ms: int) -> list[Progress]:
        """Report the acceptance once; its duration is the time until the job is expected to run again."""
        if self._said_accepted:
            return []
        self._said_accepted = True
        at_ms = max(now_ms, self.command.issued_at_ms)
        return [self._report("accepted", at_ms, duration_ms=max(0, accepted.done_at_ms - at_ms))]

    def _applied(self, effective_at_ms: int, done_at_ms: int, rescale: Rescale | None = None) -> Progress:
        self.ended = True
        return self._report("applied", done_at_ms, rescale, duration_ms=max(0, done_at_ms - effective_at_ms))

    def _failed(self, now_ms: int, code: str, detail: str) -> Progress:
        self.ended = True
        return self._report("failed", max(now_ms, self.command.issued_at_ms), code=code, detail=detail)

    def _report(
        self,
        status: str,
        at_ms: int,
        rescale: Rescale | None = None,
        *,
        duration_ms: int = 0,
        code: str = "",
        detail: str = "",
    ) -> Progress:
        return Progress(
            cluster=self.command.cluster,
            job=self.command.job,
            command_id=self.command.command_id,
            desired_generation=self.command.desired_generation,
            status=status,  # type: ignore[arg-type]  # one of the four, by the callers above
            at_ms=at_ms,
            duration_ms=duration_ms,
            code=code,
            detail=detail,
            learners=rescale.learners if rescale else 0,
            lag_bytes=rescale.lag_bytes if rescale and rescale.learners else None,
            units=rescale.units if rescale else (),
        )
