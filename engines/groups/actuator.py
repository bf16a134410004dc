"""What all actuators for workers of consumer groups share: how a command is taken in, and the reconciling thread."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Self, TypeVar

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.errors import SurescaleError
from surescale.engines.groups.chains import SETTING, Chain
from surescale.engines.ports.actuator import EPOCH_CHANGED, UNKNOWN_JOB, Accepted, EngineRefused
from surescale.engines.ports.requirement import Required, covers
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beside, fault, pause

UNKNOWN_TASK = "UNKNOWN_TASK"
"""The job has no such group, or the file does not say what scales it."""
RECONCILE_EVERY_S, RETRY_WITHIN_S = 0.5, 30.0


R = TypeVar("R", bound=Required)


class ScalesChains(ABC, Generic[R]):
    """``EngineApi`` without its look: how a command is taken in and refused, whoever keeps the workers."""

    cluster: str
    """Its name in the settings, the part before the slash of a job's id."""
    unscaled: ClassVar[str]
    """What of the file is missing for a task that it does not scale, and what to add."""
    recreated: ClassVar[str]
    """What has happened where a command is for an earlier submission; ``{epoch}`` names the present one."""

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for the command's number of workers, if nobody has asked for another one since the decision."""
        with self._answers():
            chain, required = self._addressed(command)
            if not covers(required.counts, command.targets):
                for task in command.targets:
                    if task not in required.counts:
                        raise EngineRefused(UNKNOWN_TASK, f"{task}: {SETTING} {self.unscaled}")
                self._ask(chain, required, command)
        return Accepted()

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Ask for something else, if the command is what is required now."""
        with self._answers():
            chain, required = self._addressed(command)
            if not covers(required.counts, put_back):
                self._ask_back(chain, required, command, put_back)

    def _addressed(self, command: RescheduleCommand) -> tuple[Chain, R]:
        chain = self._chain(command.job)
        required = self._required(chain)
        if command.expected is not None and command.expected.epoch not in ("", required.epoch):
            raise EngineRefused(EPOCH_CHANGED, self.recreated.format(epoch=required.epoch))
        return chain, required

    def _chain(self, job: str) -> Chain:
        of, _, name = job.partition("/")
        chain = self._chains().get(name)
        if chain is None or of != self.cluster:
            raise EngineRefused(UNKNOWN_JOB, f"{SETTING} has no job {name!r}")
        return chain

    @abstractmethod
    def _chains(self) -> Mapping[str, Chain]: ...

    @abstractmethod
    def _required(self, chain: Chain) -> R:
        """Return what is asked for now."""

    @abstractmethod
    def _ask(self, chain: Chain, required: R, command: RescheduleCommand) -> None: ...

    @abstractmethod
    def _ask_back(self, chain: Chain, required: R, command: RescheduleCommand, put_back: Mapping[str, int]) -> None: ...

    @abstractmethod
    def _answers(self) -> AbstractContextManager[None]:
        """Turn the client's problems into the port's."""


@dataclass(slots=True)
class ReconcilerThread:
    """Calls ``reconcile`` twice a second until it is stopped, and longer apart while that fails.

    A problem of the expected kind is logged now and then. Any other is logged with its trace, and the role is not ready until
    ``reconcile`` gets through again.
    """

    reconcile: Callable[[], None]
    problem: type[SurescaleError]
    log: logging.Logger
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start; the thread ends with the process at the latest, the workers do not."""
        self._thread = beside(self._run, self.log.name, self._stop.is_set)
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait for it. The workers run on."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        seldom, pause_s = Throttle(), RECONCILE_EVERY_S
        while not pause(self._stop, pause_s):
            pause_s = min(2 * pause_s, RETRY_WITHIN_S)
            try:
                self.reconcile()
            except self.problem as problem:
                fault("")
                pause_s = RECONCILE_EVERY_S
                if seldom.is_time():
                    self.log.warning("%s", problem)
            except Exception as error:
                fault(f"workers are not tended: {type(error).__name__}: {error}")
                if seldom.is_time():
                    self.log.exception("workers are not tended; it is tried again in %g s: %s", pause_s, error)
            else:
                fault("")
                pause_s = RECONCILE_EVERY_S


class TendsChains(ScalesChains[R]):
    """One whose workers are tended by a thread of this process. They run on when it ends."""

    _reconciling: ReconcilerThread

    def start(self) -> Self:
        """Start the thread."""
        self._reconciling.start()
        return self

    def stop(self) -> None:
        """Stop it, and wait for it."""
        self._reconciling.stop()
