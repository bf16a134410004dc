"""What the workers of a job are asked to be, whoever keeps that: the monitor shows it beside what runs."""

from collections.abc import Mapping
from typing import Protocol


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
