"""What can go wrong with the local stack. Every message is written for the person at the terminal.

StackError (a SurescaleError)
├── JavaError        no Java runtime that can run the broker and Spark
├── ArtifactError    a jar could not be fetched or is not the one that was asked for
├── ServerError      the broker or Redis cannot be started here
└── RoleError        a supervised process ended or never became ready
"""

from collections.abc import Callable

from contracts.errors import SurescaleError

Progress = Callable[[str], None]
"""Takes one line about what is going on, without a line end."""


class StackError(SurescaleError):
    """The local stack cannot do what was asked; the text says why and what helps."""


class JavaError(StackError):
    """No usable Java runtime was found."""


class ArtifactError(StackError):
    """A jar could not be fetched, or its bytes are not those of the lock."""


class ServerError(StackError):
    """Kafka or Redis cannot be started: program missing, port taken, or it ended at once."""


class RoleError(StackError):
    """A supervised role ended unexpectedly or did not become ready in time; the text ends with its last log lines."""

    def __init__(self, role: str, message: str) -> None:
        super().__init__(message)
        self.role = role


def silent(_line: str) -> None:
    """Progress for those who do not want any."""
