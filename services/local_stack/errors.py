"""What can go wrong with the local stack. Every message is written for the person at the terminal.

StackError (a SurescaleError)
├── JavaError        no Java runtime that can run the broker and Spark
├── ArtifactError    a jar differs from the lock, or cannot be kept
│   └── DownloadError    it could not be fetched
├── ServerError      the broker or Redis cannot be started here
└── RoleError        a supervised process ended or never became ready
"""

from collections.abc import Callable

from surescale.contracts.errors import SurescaleError

Say = Callable[[str], None]
"""Takes one line of progress, without a line end."""


class StackError(SurescaleError):
    """The local stack cannot do what was asked; the message says why and what helps."""


class JavaError(StackError):
    """No usable Java runtime was found."""


class ArtifactError(StackError):
    """A jar could not be fetched or kept, or its bytes differ from the lock."""


class DownloadError(ArtifactError):
    """Nothing could be downloaded: no network, or a mirror that does not have it."""


class ServerError(StackError):
    """Kafka, Redis or Flink cannot be started or used: the program is missing, a port is taken, or it ended at once."""


class RoleError(StackError):
    """A supervised role ended unexpectedly or was not ready in time; the message ends with its last log lines."""

    def __init__(self, role: str, message: str) -> None:
        super().__init__(message)
        self.role = role


def silent(_line: str) -> None:
    """Ignore a line of progress."""
