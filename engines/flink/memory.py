"""Memory of TaskManagers: time in garbage collection, heap, and what Flink manages itself.

Flink tells each collector's time in milliseconds per second, as a mean over the last minute (1.19 and later). Those that work
beside the job do not stop it, so only pauses count: what Flink sums up as ``All`` has both.
"""

import re
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final

from surescale.contracts.messages import TaskMemory
from surescale.engines.flink.answers import Metric, known
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.errors import FlinkError

KNOWN_FOR_S: Final = 2.0
"""All jobs end their minute at once, and each asks for the TaskManagers on which it runs."""
_PAUSES = re.compile(r"Status\.JVM\.GarbageCollector\.(?!All\.)(?!.*(?:Concurrent_GC|Cycles)\.).+\.TimeMsPerSecond")
_HEAP = ("Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.Heap.Max")
_MANAGED = ("Status.Flink.Memory.Managed.Used", "Status.Flink.Memory.Managed.Total")
_SECOND_MS = 1_000


class TaskManagerMemory:
    """The TaskManagers of one cluster, each asked when somebody wants to know. Thread-safe. What cannot be had is unknown."""

    def __init__(self, client: FlinkClient) -> None:
        """Ask nothing yet."""
        self._client = client
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, tuple[float, TaskMemory]] = {}

    def of(self, task_managers: Iterable[str]) -> TaskMemory | None:
        """Return the memory of the one among these that has least room in each; None: nothing is known of any."""
        with self._lock:
            self._forget()
            found = [self._of(each) for each in sorted(set(task_managers)) if each]
        fullest = TaskMemory(
            gc_share=_most(each.gc_share for each in found),
            heap_share=_most(each.heap_share for each in found),
            managed_share=_most(each.managed_share for each in found),
        )
        return None if fullest == TaskMemory() else fullest

    def _forget(self) -> None:
        self._known = {name: each for name, each in self._known.items() if time.monotonic() - each[0] <= KNOWN_FOR_S}

    def _of(self, task_manager: str) -> TaskMemory:
        if task_manager not in self._known:
            self._known[task_manager] = (time.monotonic(), self._ask(task_manager))
        return self._known[task_manager][1]

    def _ask(self, task_manager: str) -> TaskMemory:
        try:
            names = self._names.get(task_manager)
            if names is None:
                names = names_of(self._client.task_manager_metric_names(task_manager))
            found = self._client.task_manager_metrics(task_manager, names) if names else {}
        except FlinkError:  # it has gone, or whoever lets us ask Flink does not let us ask this
            self._names.pop(task_manager, None)
            return TaskMemory()
        if found:
            self._names[task_manager] = names
        else:
            self._names.pop(task_manager, None)
        return memory_of(found)


def names_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the metrics that tell of a TaskManager's memory, of all that it has."""
    return tuple(sorted(name for name in names if name in (*_HEAP, *_MANAGED) or _PAUSES.fullmatch(name)))


def memory_of(metrics: Mapping[str, Metric]) -> TaskMemory:
    """Return what a TaskManager's metrics say of its memory."""
    pauses = [known(metric.value) for name, metric in metrics.items() if _PAUSES.fullmatch(name)]
    paused_ms = [each for each in pauses if each is not None]
    is_known = bool(paused_ms) and len(paused_ms) == len(pauses)
    return TaskMemory(
        gc_share=min(1.0, sum(paused_ms) / _SECOND_MS) if is_known else None,
        heap_share=_share(metrics, _HEAP),
        managed_share=_share(metrics, _MANAGED),
    )


def _share(metrics: Mapping[str, Metric], names: tuple[str, str]) -> float | None:
    used, most = (known(metrics[name].value) if name in metrics else None for name in names)
    return min(1.0, round(used / most, 4)) if used is not None and most else None


def _most(shares: Iterable[float | None]) -> float | None:
    return max((each for each in shares if each is not None), default=None)
