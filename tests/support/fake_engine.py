"""An engine in memory that fails on demand: for tests, and for trying the rescaler without an engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.commands import Rescale, RescaleState, RescheduleCommand
from surescale.contracts.messages import JobState
from surescale.engines.ports.actuator import (
    CANNOT_WITHDRAW,
    UNKNOWN_JOB,
    Accepted,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)


@dataclass(slots=True)
class FakeEngine:
    """Carries a command out one minute after the minute of its arrival, with a restart, as the simulated engine does.

    Learners of a ``prepare`` are ready ``warm_ms`` after its arrival.
    """

    now_ms: int = 0
    restart_ms: int = MINUTE_MS
    warm_ms: int = 0
    lost_units: tuple[int, ...] = ()
    """A ``prepare`` that needs one of these fails with ``LEARNER_LOST``."""
    jobs: set[str] = field(default_factory=set)
    running: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per job, the parallelism of its tasks before the first command, as far as a test wants it told."""
    refuse_with: str | None = None
    """Refuse every new command with this code."""
    lose_with: str | None = None
    """Give up every command with this code when it is due."""
    away_for: int = 0
    """How many of the next calls get no answer."""
    asked: list[str] = field(default_factory=list)
    """Ids of the commands received, including repetitions."""
    _last: dict[str, RescheduleCommand] = field(default_factory=dict)
    _accepted: dict[str, Accepted] = field(default_factory=dict)
    _generation: dict[str, int] = field(default_factory=dict)
    """Per job, the generation in effect before its last command."""

    def capabilities(self) -> Capabilities:
        """Return the same as the simulated engine."""
        return SIMULATED

    def request(self, command: RescheduleCommand) -> Accepted:
        """Accept a command, or repeat the answer if it is known."""
        self._answer(command.job)
        self.asked.append(command.command_id)
        last = self._last.get(command.job)
        if last is not None and last.command_id == command.command_id:
            return self._accepted[command.job]
        if self.refuse_with is not None:
            raise EngineRefused(self.refuse_with, "as the test wants")
        if last is not None and (command.desired_generation, command.step) <= (last.desired_generation, last.step):
            raise EngineRefused("STALE_GENERATION", f"generation {last.desired_generation} was requested before")
        seen = self.look(command.job)
        self._generation[command.job], self.running[command.job] = seen.generation, dict(seen.running)
        self._last[command.job] = command
        effective_at_ms = minute_end_ms(self.now_ms) + MINUTE_MS
        times = Accepted(effective_at_ms, effective_at_ms + self.restart_ms)
        if command.action != "commit":
            times = Accepted(self.now_ms, self.now_ms + (self.warm_ms if command.action == "prepare" else 0))
        self._accepted[command.job] = times
        return times

    def look(self, job: str) -> JobStatus:
        """Return the progress of the last command."""
        self._answer(job)
        last, parallelism = self._last.get(job), self.running.get(job, {})
        if last is None:
            return JobStatus(required=parallelism, running=parallelism)
        times, before = self._accepted[job], self._generation[job]
        effective_at_ms, done_at_ms = times.effective_at_ms or 0, times.done_at_ms or 0
        begun, done = self.now_ms >= effective_at_ms, self.now_ms >= done_at_ms
        if last.action != "commit":
            return JobStatus(before, self._warming(last, times, done), required=parallelism, running=parallelism)
        state: RescaleState = "done" if done else "restarting" if begun else "pending"
        if begun and self.lose_with is not None:
            rescale = Rescale(last.command_id, "failed", effective_at_ms, done_at_ms, self.lose_with)
            return JobStatus(before, rescale, required=parallelism, running=parallelism)
        rescale = Rescale(last.command_id, state, effective_at_ms, done_at_ms)
        wanted = parallelism | last.targets
        job_state: JobState = "restarting" if begun and not done else "running"
        return JobStatus(
            last.desired_generation if begun else before,
            rescale,
            required=wanted,
            running=wanted if begun else parallelism,
            state=job_state,
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse, as the simulated engine does.

        Raises:
            EngineRefused: always.
        """
        raise EngineRefused(CANNOT_WITHDRAW, "a command takes effect within a minute")

    def _warming(self, last: RescheduleCommand, times: Accepted, done: bool) -> Rescale:
        ends = (times.effective_at_ms or 0, times.done_at_ms or 0)
        gone = sorted({unit for change in last.changes for unit in change.units} & set(self.lost_units))
        if last.action == "prepare" and gone:
            return Rescale(last.command_id, "failed", *ends, "LEARNER_LOST", learners=1, units=tuple(gone))
        if last.action == "prepare" and not done:
            return Rescale(last.command_id, "warming", *ends, learners=1, lag_bytes=ends[1] - self.now_ms)
        return Rescale(last.command_id, "done", *ends, learners=int(last.action == "prepare"))

    def _answer(self, job: str) -> None:
        if self.away_for > 0:
            self.away_for -= 1
            raise EngineUnavailable("as the test wants")
        if job not in self.jobs:
            raise EngineRefused(UNKNOWN_JOB, f"there is no job {job!r}")
