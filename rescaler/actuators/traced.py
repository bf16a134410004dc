"""An engine whose calls are traced below the command that they carry out."""

from collections.abc import Callable, Mapping

from contracts.capabilities import Capabilities
from contracts.commands import RescheduleCommand
from rescaler.actuators.base import Accepted, EngineApi, JobStatus
from runtime.tracing.spans import Span


class TracedEngine:
    """Passes every call on. What changes something has a span; looks, many a second, are counted."""

    def __init__(self, engine: EngineApi, call: Callable[[str], Span]) -> None:
        """``call`` begins the span of a call."""
        self._engine, self._call = engine, call
        self.looks = 0

    def capabilities(self) -> Capabilities:
        """Return what the engine can do."""
        return self._engine.capabilities()

    def request(self, command: RescheduleCommand) -> Accepted:
        """Request that a command be carried out."""
        with self._call("engine.request"):
            return self._engine.request(command)

    def look(self, job: str) -> JobStatus:
        """Return the progress of a job."""
        self.looks += 1
        return self._engine.look(job)

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Stop wanting what a command asked for."""
        with self._call("engine.withdraw"):
            self._engine.withdraw(command, put_back)
