"""No actuator: the jobs of this cluster are only watched and advised about."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.engines.ports.actuator import Accepted, EngineRefused, JobStatus

if TYPE_CHECKING:
    from surescale.engines.settings import ClusterSettings

NO_ACTUATOR = "NO_ACTUATOR"
"""Nothing carries commands out."""


class ReadOnlyEngine:
    """``EngineApi`` that refuses everything. No command but advice is made for such a cluster, so it is hardly ever asked."""

    def __init__(self, engine: str) -> None:
        """``engine`` is the kind of the engine."""
        self._can = Capabilities(engine=engine)

    @classmethod
    def of(cls, settings: "ClusterSettings", timeout_s: float) -> Self:
        """Return the one of a role's settings."""
        return cls(settings.engine)

    def capabilities(self) -> Capabilities:
        """Return that nothing can be commanded."""
        return self._can

    def request(self, command: RescheduleCommand) -> Accepted:
        """Refuse."""
        raise _refusal()

    def look(self, job: str) -> JobStatus:
        """Refuse."""
        raise _refusal()

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse."""
        raise _refusal()


def _refusal() -> EngineRefused:
    return EngineRefused(NO_ACTUATOR, "SURESCALE_ACTUATOR is none; name one, or let the job's mode be advise")
