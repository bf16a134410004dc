"""What the workers of a job are asked to be, whoever keeps that: the monitor shows it beside what runs, and it has a name."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, Self

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import GroupWorker, Host
from surescale.engines.ports.source import HELD, SourceUnavailable

if TYPE_CHECKING:
    from surescale.engines.settings import SourceSettings

_ID_LENGTH = 16


class Required(Protocol):
    """Workers by task, with a name of this requirement, and of the submission of the job that it is for."""

    @property
    def epoch(self) -> str:
        """Return the name of the submission."""
        ...

    @property
    def id(self) -> str:
        """Return the name of the requirement."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the workers by task."""
        ...


class Requirements:
    """What an actuator asks for, for sources that cannot see it. This one asks for nothing. Thread-safe.

    Attributes:
        can: what the actuator can do.
    """

    def __init__(self, can: Capabilities) -> None:
        self.can = can

    @classmethod
    def of(cls, settings: "SourceSettings") -> Self:
        """Return those of a role's settings; nothing is asked yet."""
        return cls(Capabilities(engine=settings.engine))

    def check_tasks(self, job: str, tasks: Iterable[str]) -> None:
        """Refuse tasks that the actuator could not be told.

        Raises:
            SettingsError: names the task.
        """

    def required(self, job: str) -> Required | None:
        """Return what the workers of a job, by its name in the settings' file, are asked to be; None if nobody keeps them.

        Raises:
            SourceUnavailable: it is unknown now.
        """
        try:
            return self.look(job)
        except SourceUnavailable:
            raise
        except SurescaleError as problem:
            raise SourceUnavailable(f"{job}: {problem}; {HELD}") from None

    def look(self, job: str) -> Required | None:
        """Ask for `required`; may raise whatever is wrong."""
        return None

    def failing(self, job: str, task: str) -> str:
        """Return how a worker of a task fails to start, for people; empty if none does, or it is not known here.

        Raises:
            SourceUnavailable: it is unknown now.
        """
        return ""

    def workers(self, job: str, task: str) -> tuple[GroupWorker, ...]:
        """Return the workers of a task that are asked for or still run, by index; none where they are not processes here.

        Raises:
            SourceUnavailable: they are unknown now.
        """
        return ()

    def hosts(self) -> tuple[Host, ...]:
        """Return machines with a known room for workers.

        Raises:
            SourceUnavailable: the room is unknown now.
        """
        return ()

    def close(self) -> None:
        """Close what is kept open."""


def digest(lines: Iterable[str]) -> str:
    """Return a short name for some lines, whatever their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:_ID_LENGTH]


def covers(state: Mapping[str, int], target: Mapping[str, int]) -> bool:
    """Say whether every task of a target has its parallelism; other tasks may have any."""
    return all(state.get(task) == count for task, count in target.items())


def in_words(parallelism: Mapping[str, int]) -> str:
    """Return ``count=3, parse=1``."""
    return ", ".join(f"{task}={count}" for task, count in sorted(parallelism.items()))
