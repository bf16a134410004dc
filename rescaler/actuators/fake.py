"""An engine in memory that fails on demand: the port's twin for tests, and for trying the rescaler without an engine."""

from dataclasses import dataclass, field

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.commands import RescheduleCommand
from rescaler.actuators.base import Accepted, EngineAway, EngineRefused, JobSeen, Rescale, RescaleState


@dataclass(slots=True)
class FakeEngine:
    """Carries a command out one minute after the minute it came in, at the cost of a restart, as the simulated engine does.

    Learners of a ``prepare`` are ready ``warm_ms`` after it came in.
    """

    now_ms: int = 0
    restart_ms: int = MINUTE_MS
    warm_ms: int = 0
    lost_units: tuple[int, ...] = ()
    """A ``prepare`` that needs one of these fails with ``LEARNER_LOST``."""
    jobs: set[str] = field(default_factory=set)
    refuse_with: str | None = None
    """Refuse every new command with this code."""
    lose_with: str | None = None
    """Give every command up with this code when it is due."""
    away_for: int = 0
    """So many of the next calls get no answer."""
    asked: list[str] = field(default_factory=list)
    """Ids of the commands that came in, repetitions included."""
    _last: dict[str, RescheduleCommand] = field(default_factory=dict)
    _accepted: dict[str, Accepted] = field(default_factory=dict)
    _generation: dict[str, int] = field(default_factory=dict)
    """Per job the generation in effect before its last command."""

    def request(self, command: RescheduleCommand) -> Accepted:
        """Take a command on, or answer as before if it is known."""
        self._answer(command.job)
        self.asked.append(command.command_id)
        last = self._last.get(command.job)
        if last is not None and last.command_id == command.command_id:
            return self._accepted[command.job]
        if self.refuse_with is not None:
            raise EngineRefused(self.refuse_with, "as the test wants")
        if last is not None and (command.desired_generation, command.step) <= (last.desired_generation, last.step):
            raise EngineRefused("STALE_GENERATION", f"generation {last.desired_generation} was asked for before")
        self._generation[command.job] = self.look(command.job).generation
        self._last[command.job] = command
        effective_at_ms = minute_end_ms(self.now_ms) + MINUTE_MS
        times = Accepted(effective_at_ms, effective_at_ms + self.restart_ms)
        if command.action != "commit":
            times = Accepted(self.now_ms, self.now_ms + (self.warm_ms if command.action == "prepare" else 0))
        self._accepted[command.job] = times
        return times

    def look(self, job: str) -> JobSeen:
        """Say how far the last command is."""
        self._answer(job)
        last = self._last.get(job)
        if last is None:
            return JobSeen(0, None)
        times, before = self._accepted[job], self._generation[job]
        begun, done = self.now_ms >= times.effective_at_ms, self.now_ms >= times.done_at_ms
        if last.action != "commit":
            return JobSeen(before, self._warming(last, times, done))
        state: RescaleState = "done" if done else "restarting" if begun else "pending"
        if begun and self.lose_with is not None:
            rescale = Rescale(last.command_id, "failed", times.effective_at_ms, times.done_at_ms, self.lose_with)
            return JobSeen(before, rescale)
        rescale = Rescale(last.command_id, state, times.effective_at_ms, times.done_at_ms)
        return JobSeen(last.desired_generation if begun else before, rescale)

    def _warming(self, last: RescheduleCommand, times: Accepted, done: bool) -> Rescale:
        ends = (times.effective_at_ms, times.done_at_ms)
        gone = sorted({unit for change in last.changes for unit in change.units} & set(self.lost_units))
        if last.action == "prepare" and gone:
            return Rescale(last.command_id, "failed", *ends, "LEARNER_LOST", learners=1, units=tuple(gone))
        if last.action == "prepare" and not done:
            return Rescale(last.command_id, "warming", *ends, learners=1, lag_bytes=times.done_at_ms - self.now_ms)
        return Rescale(last.command_id, "done", *ends, learners=int(last.action == "prepare"))

    def _answer(self, job: str) -> None:
        if self.away_for > 0:
            self.away_for -= 1
            raise EngineAway("as the test wants")
        if job not in self.jobs:
            raise EngineRefused("UNKNOWN_JOB", f"there is no job {job!r}")
