"""What the workers of a job are asked to be, whoever keeps that: the monitor shows it beside what runs, and it has a name."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

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


def digest(lines: Iterable[str]) -> str:
    """Return a short name for some lines, whatever their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:_ID_LENGTH]
