"""The port between the rescaler and an engine: ask for a change, look how far it is.

EngineProblem
├── EngineRefused     the engine will not do this, and will not do it later either
└── EngineAway        the engine does not answer, or answers that it cannot now: ask again

Both calls are idempotent: asking twice for the same command gives the same answer.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from contracts.commands import RescheduleCommand
from contracts.errors import SurescaleError

RescaleState = Literal["pending", "warming", "restarting", "done", "failed"]


class EngineProblem(SurescaleError):
    """Base of what an engine may answer instead of doing what it was asked."""


class EngineRefused(EngineProblem):
    """A refusal with a code, e.g. ``STALE_GENERATION`` or ``UNKNOWN_PARALLEL_UNIT``."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class EngineAway(EngineProblem):
    """No usable answer; nothing is known about what was asked."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """When, on the road's clock, a change takes effect and when the job runs again; of a ``prepare``, when learners are ready.

    Of learners that warm up it is an estimate.
    """

    effective_at_ms: int
    done_at_ms: int


@dataclass(frozen=True, slots=True)
class Rescale:
    """The last change an engine was asked for."""

    command_id: str
    state: RescaleState
    effective_at_ms: int
    done_at_ms: int
    code: str = ""
    """Why it failed."""
    learners: int = 0
    """Units that restore state for it."""
    lag_bytes: int = 0
    """What they have still to restore."""
    units: tuple[int, ...] = ()
    """Units that made a ``prepare`` fail."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """How far an engine is with a job."""

    generation: int
    """The last desired generation that is in effect."""
    rescale: Rescale | None


class EngineApi(Protocol):
    """What an actuator needs of an engine."""

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for a command to be carried out.

        Raises:
            EngineRefused, EngineAway: nothing was changed; or, when away, it is not known.
        """
        ...

    def look(self, job: str) -> JobSeen:
        """Look at a job.

        Raises:
            EngineRefused: there is no such job.
            EngineAway: no answer.
        """
        ...
