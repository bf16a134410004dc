"""An engine in memory that is asked for counts and places itself, as Flink's adaptive scheduler does. It fails on demand.

For tests, and for trying the rescaler without an engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import JobState
from surescale.engines.ports.actuator import (
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    UNKNOWN_JOB,
    Accepted,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
    Pause,
    WaitingFor,
)
from surescale.engines.ports.requirement import covers

COUNTS = Capabilities(
    engine="fake",
    acts="counts",
    takes_part="as many as fit",
    takes_effect="checkpoint",
    stabilization_ms=10_000,
    remembers="requirement",
    can_withdraw=True,
)


@dataclass(slots=True)
class _Job:
    epoch: int
    required: dict[str, int]
    running: dict[str, int]
    requirement: int = 1
    restart_at_ms: int | None = None
    pause: Pause | None = None


@dataclass(slots=True)
class FakeRequirementEngine:
    """Runs what is required, as far as slots reach, ``delay_ms`` after it was asked, and is down for ``still_ms``.

    All tasks of a job share its slots, so a job needs as many as its widest task.
    """

    now_ms: int = 0
    delay_ms: int = 3_000
    still_ms: int = 1_000
    slots: int = 1_000
    """Of each job."""
    can: Capabilities = COUNTS
    refuse_with: str | None = None
    """Refuse every new request with this code."""
    away_for: int = 0
    """How many of the next calls get no answer."""
    stuck: JobState | None = None
    """Every job is in this state."""
    writes: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """Every requirement that was written through the port, by job."""
    _jobs: dict[str, _Job] = field(default_factory=dict)

    # What a test does

    def submit(self, job: str, parallelism: Mapping[str, int]) -> None:
        """Submit a job, or submit it again: a new epoch with its author's parallelism."""
        before = self._jobs.get(job)
        self._jobs[job] = _Job(1 if before is None else before.epoch + 1, dict(parallelism), dict(parallelism))

    def require(self, job: str, parallelism: Mapping[str, int]) -> None:
        """Let somebody else ask for a parallelism."""
        self._require(self._jobs[job], parallelism)

    def hurry(self) -> None:
        """Let what is on its way take ``delay_ms`` from now on."""
        for job in self._jobs.values():
            job.restart_at_ms = None

    def cancel(self, job: str) -> None:
        """End a job."""
        del self._jobs[job]

    # The port

    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for the command's parallelism, unless that has been asked or the job is not as expected."""
        job = self._job(command.job)
        expected = command.expected
        if expected is not None and expected.epoch and expected.epoch != _epoch(job):
            raise EngineRefused(EPOCH_CHANGED, f"the job is {_epoch(job)} now")
        if covers(job.required, command.targets):
            return Accepted()
        if expected is not None and not covers(job.required, expected.required):
            raise EngineRefused(REQUIREMENT_CHANGED, f"{job.required} is required now")
        if self.refuse_with is not None:
            raise EngineRefused(self.refuse_with, "as the test wants")
        self._write(command.job, command.targets)
        return Accepted()

    def look(self, job: str) -> JobStatus:
        """Return what is required and what runs."""
        seen = self._job(job)
        self._settle(seen)
        state: JobState = "running"
        restart = seen.restart_at_ms
        if restart is not None and restart <= self.now_ms:
            state = "restarting"
        waiting: WaitingFor = ""
        if seen.running != seen.required:
            waiting = "slots" if max(seen.required.values()) > self.slots else "checkpoint"
        return JobStatus(
            epoch=_epoch(seen),
            requirement_id=_requirement(seen),
            required=dict(seen.required),
            running=dict(seen.running),
            state=self.stuck or state,
            waiting_for=waiting,
            pause=seen.pause,
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Ask for something else, if the command is what is required now."""
        job = self._job(command.job)
        if covers(job.required, put_back):
            return
        if not covers(job.required, command.targets):
            raise EngineRefused(REQUIREMENT_CHANGED, f"{job.required} is required now")
        self._write(command.job, put_back)

    # What happens inside

    def _job(self, job: str) -> _Job:
        if self.away_for > 0:
            self.away_for -= 1
            raise EngineUnavailable("as the test wants")
        if job not in self._jobs:
            raise EngineRefused(UNKNOWN_JOB, f"there is no job {job!r}")
        return self._jobs[job]

    def _write(self, job: str, parallelism: Mapping[str, int]) -> None:
        self.writes.append((job, dict(parallelism)))
        self._require(self._jobs[job], parallelism)

    def _require(self, job: _Job, parallelism: Mapping[str, int]) -> None:
        self._settle(job)
        job.required = {**job.required, **parallelism}
        job.requirement += 1
        job.restart_at_ms = None

    def _settle(self, job: _Job) -> None:
        """Run what is required as far as slots reach; begin a restart when that would change something."""
        fits = {task: min(count, self.slots) for task, count in job.required.items()}
        if fits == job.running:
            job.restart_at_ms = None
        elif job.restart_at_ms is None:
            job.restart_at_ms = self.now_ms + self.delay_ms
        elif job.restart_at_ms + self.still_ms <= self.now_ms:
            job.pause = Pause(job.restart_at_ms, job.restart_at_ms + self.still_ms, _requirement(job))
            job.running, job.restart_at_ms = fits, None


def _epoch(job: _Job) -> str:
    return f"epoch-{job.epoch}"


def _requirement(job: _Job) -> str:
    return f"{_epoch(job)}/{job.requirement}"
