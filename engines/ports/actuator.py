"""The port between the rescaler and an engine: request a change, check its progress, take it back.

EngineError
├── EngineRefused     the engine will not do this, now or later
└── EngineUnavailable        the engine does not answer, or cannot answer now: ask again

Every call is idempotent: asking twice for the same command gives the same answer. An engine that remembers commands by our
generation tells their progress as a `Rescale`. Any other engine tells what it was asked for and what it runs, and the actuator
compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, runtime_checkable

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import Rescale, RescheduleCommand
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import JobState

WaitingFor = Literal["", "checkpoint", "slots", "cooldown"]

# Codes of refusals that mean the same for every engine.
UNKNOWN_JOB = "UNKNOWN_JOB"
"""The engine runs no such job."""
EPOCH_CHANGED = "EPOCH_CHANGED"
"""The job was submitted again since the decision."""
REQUIREMENT_CHANGED = "REQUIREMENT_CHANGED"
"""Somebody else has changed what the engine was asked for."""
CANNOT_WITHDRAW = "CANNOT_WITHDRAW"
"""The engine cannot take a command back."""


class EngineError(SurescaleError):
    """Base of what an engine may answer instead of accepting a request."""


class EngineRefused(EngineError):
    """A refusal with a code, e.g. ``STALE_GENERATION`` or ``UNKNOWN_PARALLEL_UNIT``."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class EngineUnavailable(EngineError):
    """No usable answer; it is unknown whether the request was accepted."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """When, on the pipeline's clock, a change takes effect and when the job runs again; of a ``prepare``: learners are ready.

    While learners warm up, the end is an estimate. None: the engine does not say beforehand.
    """

    effective_at_ms: int | None = None
    done_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """How the engine's last rescale interrupted the job, by the engine's own account. Times are of the pipeline's clock."""

    stopped_at_ms: int
    running_at_ms: int
    requirement_id: str = ""
    """The requirement that it carried out; empty if the engine does not say."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """An engine's progress with a job.

    Attributes:
        generation: the last desired generation in effect; 0 where the engine remembers none.
        rescale: the last command that the engine accepted; None where it remembers none.
        epoch: names one submission of the job; empty where the engine has no such name.
        requirement_id: names the requirement in force; empty where the engine has no such name.
        required: parallelism that the engine was last asked for, by task.
        running: parallelism of the subtasks that run, by task; while the job does not run, the last one that ran.
        state: of the job.
        waiting_for: what the engine waits for before it runs what is required; empty if it does not say.
        pause: of the last rescale; None if the engine does not say.
        hindrance: why fewer run than are required and what to do, in words; empty if the engine does not say.
    """

    generation: int = 0
    rescale: Rescale | None = None
    epoch: str = ""
    requirement_id: str = ""
    required: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    state: JobState = "running"
    waiting_for: WaitingFor = ""
    pause: Pause | None = None
    hindrance: str = ""


class EngineApi(Protocol):
    """What an actuator needs from an engine."""

    def capabilities(self) -> Capabilities:
        """Return what the engine can do.

        Raises:
            EngineUnavailable: no answer.
        """
        ...

    def request(self, command: RescheduleCommand) -> Accepted:
        """Request that a command be carried out and return its times.

        An engine that was asked for this before gives the same answer. Otherwise it first compares the job with
        ``command.expected``, if there is one, and refuses with `EPOCH_CHANGED` or `REQUIREMENT_CHANGED` where they differ. Tasks
        that the command does not name keep what is required of them.

        Raises:
            EngineRefused: nothing was changed.
            EngineUnavailable: it is unknown whether anything was changed.
        """
        ...

    def look(self, job: str) -> JobStatus:
        """Return the progress of a job.

        Raises:
            EngineRefused: there is no such job.
            EngineUnavailable: no answer.
        """
        ...

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Stop wanting what a command asked for, and require ``put_back`` instead: a parallelism for each task it names.

        If that is required already, nothing happens.

        Raises:
            EngineRefused: nothing was changed: `CANNOT_WITHDRAW`, or `REQUIREMENT_CHANGED` if neither the command nor
                ``put_back`` is required now.
            EngineUnavailable: it is unknown whether anything was changed.
        """
        ...


@runtime_checkable
class TendsWorkers(Protocol):
    """An engine that starts, drains and replaces workers by itself, command or not."""

    def start(self) -> Self:
        """Tend the workers in a thread of its own, a loop of the watchdog whose loop calls this."""
        ...

    def stop(self) -> None:
        """Stop tending. The workers run on."""
        ...
