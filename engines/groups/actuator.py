"""What all actuators for workers of consumer groups share: the job that a command is for, its epoch, the reconciling thread."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.errors import SurescaleError
from surescale.engines.groups.chains import Chain
from surescale.engines.ports.actuator import EPOCH_CHANGED, UNKNOWN_JOB, EngineRefused
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beside, fault, pause

UNKNOWN_TASK = "UNKNOWN_TASK"
"""The job has no such group, or the file does not say what scales it."""
RECONCILE_EVERY_S, RETRY_WITHIN_S = 0.5, 30.0


def chain_of(job: str, cluster: str, chains: Mapping[str, Chain]) -> Chain:
    """Return the job of the file that an id ``cluster/name`` names.

    Raises:
        EngineRefused: the file has no such job, or the id is of another cluster.
    """
    of, _, name = job.partition("/")
    chain = chains.get(name)
    if chain is None or of != cluster:
        raise EngineRefused(UNKNOWN_JOB, f"SURESCALE_GROUPS_FILE has no job {name!r}")
    return chain


def check_epoch(command: RescheduleCommand, epoch: str, what_happened: str) -> None:
    """Refuse a command that was decided on for an earlier submission of the job.

    Raises:
        EngineRefused: says what happened.
    """
    if command.expected is not None and command.expected.epoch not in ("", epoch):
        raise EngineRefused(EPOCH_CHANGED, what_happened)


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
        self._thread = beside(self._run, self.log.name)
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
