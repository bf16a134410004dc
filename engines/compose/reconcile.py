"""Ends the containers that drain, and starts those that wait for room, whoever began it. Safe to stop at any point.

What must be known afterwards is in the engine: the name of a container that drains, the label of one that we made. So another
process goes on where this one ended. What is kept in memory only makes things calmer.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from surescale.engines.compose.answers import DRAINING, Container
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.errors import ComposeError, ComposeRefused, NameConflict, NotFound
from surescale.engines.compose.requirement import Requirement, requirement_of
from surescale.engines.groups.chains import Chain
from surescale.runtime.kafka_clock import wall_ms
from surescale.runtime.threads import background

RETRY_START_MS = 10_000
_ID_LENGTH = 6
_log = logging.getLogger("surescale.compose")


@dataclass(slots=True)
class ServiceReconciler:
    """Reconciles the services of all jobs. Thread-safe.

    Attributes:
        client: of the engine.
        chains: the jobs, by name.
        workers_max: containers of these jobs that may run on the machine.
        now_ms: wall time.
    """

    client: ComposeClient
    chains: Mapping[str, Chain]
    workers_max: int
    now_ms: Callable[[], int] = wall_ms
    _stopping: dict[str, threading.Thread] = field(default_factory=dict)
    _not_before_ms: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reconcile(self) -> None:
        """Do what can be done now.

        Raises:
            ComposeError: the engine cannot be asked.
        """
        required = [found for chain in self.chains.values() if (found := requirement_of(self.client, chain)) is not None]
        for container in _all(required):
            if container.is_draining:
                self._end(container)
        waiting = [each for each in _all(required) if each.waits_to_start and self._is_time(each)]
        for container in waiting[: max(0, self.workers_max - _started(required))]:
            try:
                self.client.start(container.id)
            except (ComposeRefused, NotFound) as problem:
                self._not_before_ms[container.id] = self.now_ms() + RETRY_START_MS
                _log.warning("%s cannot be started; it is tried again: %s", container.plain_name, problem)

    def room(self) -> int:
        """Return how many more containers may run on the machine.

        Raises:
            ComposeError: it is unknown.
        """
        required = [found for chain in self.chains.values() if (found := requirement_of(self.client, chain)) is not None]
        return max(0, self.workers_max - _started(required))

    def drain(self, container: Container) -> None:
        """Mark a container as one that ends, for good. `reconcile` does the rest, in this process or the next.

        Raises:
            ComposeError: it is unknown whether it is marked.
        """
        try:
            self.client.rename(container.id, f"{container.plain_name}{DRAINING}{container.id[:_ID_LENGTH]}")
        except NotFound:
            return

    def wait(self) -> None:
        """Wait until every container that this process has asked to end has ended."""
        with self._lock:
            threads = list(self._stopping.values())
        for thread in threads:
            thread.join()

    def _is_time(self, container: Container) -> bool:
        # A longer wait is of a clock that was set back since.
        return not 0 < self._not_before_ms.get(container.id, 0) - self.now_ms() <= RETRY_START_MS

    def _end(self, container: Container) -> None:
        """Stop a container in a thread of its own, since that takes as long as it drains; remove one that has ended."""
        if container.has_started:
            with self._lock:
                if container.id in self._stopping:
                    return
                thread = background(partial(self._stop, container), f"drain-{container.plain_name}")
                self._stopping[container.id] = thread
            thread.start()
            return
        with contextlib.suppress(NotFound, NameConflict):  # it is being removed
            self.client.remove(container.id)

    def _stop(self, container: Container) -> None:
        try:
            self.client.stop(container)
            self.client.remove(container.id)
        except (NotFound, NameConflict):
            pass
        except ComposeError as problem:
            _log.warning("%s may not have received the request to stop; sending it again: %s", container.plain_name, problem)
        finally:
            with self._lock:
                self._stopping.pop(container.id, None)


def _all(required: Iterable[Requirement]) -> list[Container]:
    return [each for job in required for containers in job.containers.values() for each in containers]


def _started(required: Iterable[Requirement]) -> int:
    return sum(each.has_started for each in _all(required))
