"""What the past rescales of a job were: each as an event, with its cause, and how long they stopped the job.

From 2.3 on Flink remembers them, if `web.adaptive-scheduler.rescale-history.size` is above 0. Otherwise a rescale is seen by the
new execution graph that it made, and what lies between two looks is seen as one.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, Literal

from engines.flink.answers import Checkpoints, JobDetail, Rescale
from engines.flink.client import FlinkClient
from engines.flink.pause import Interruption, interruption_of, last_interruption
from monitor.event_log import EventLog, changes

_DESCRIBED_MAX: Final = 5  # of those that lie before the first look; each takes a request
_INITIAL: Final = "INITIAL_SCHEDULE"
_CAUSES: Final = {
    "UPDATE_REQUIREMENT": "its requirement was changed",
    "NEW_RESOURCE_AVAILABLE": "slots were added",
    "RECOVERABLE_FAILOVER": "after a failure",
}
_OF_A_WISH: Final = frozenset({"UPDATE_REQUIREMENT", "NEW_RESOURCE_AVAILABLE"})
"""Causes without a failure, which takes time of its own."""


class Rescales:
    """The rescales of one submission of a job. For one thread."""

    def __init__(self, job: str, flink_job: str, client: FlinkClient, events: EventLog, still_ms: deque[int]) -> None:
        """``still_ms``: how long the last rescales stopped the job, also those of earlier submissions; bounded by its owner."""
        self._job, self._flink_job, self._client, self._events = job, flink_job, client, events
        self._still_ms = still_ms
        self._known: set[str] = set()

    def ask(self, labels: Mapping[str, str], since: str) -> bool:
        """Take what Flink remembers and we do not know yet into events and measures; return whether there was anything.

        Args:
            labels: names of the tasks, for people.
            since: where the newest graph began, in words.
        """
        listed = self._client.rescales(self._flink_job)
        fresh = [each for each in listed if each.rescale_uuid not in self._known and each.terminal_state is not None]
        self._known.update(each.rescale_uuid for each in fresh)
        carried_out = [each for each in fresh if each.terminal_state == "COMPLETED" and each.trigger_cause != _INITIAL]
        for at, each in reversed(list(enumerate(carried_out[:_DESCRIBED_MAX]))):
            described = self._client.rescale(self._flink_job, each.rescale_uuid) or each
            self._take(described, labels, f", {since}" if at == 0 else "")
        return bool(carried_out)

    def measure(self, detail: JobDetail, checkpoints: Checkpoints) -> None:
        """Measure the rescale that made the present graph, where Flink remembers none."""
        self._measured(last_interruption(detail, checkpoints))

    def _take(self, rescale: Rescale, labels: Mapping[str, str], since: str) -> None:
        found = interruption_of(rescale)
        what = changes(*(_named(rescale, labels, when) for when in ("pre", "post")))
        cause = _CAUSES.get(rescale.trigger_cause or "", rescale.trigger_cause or "cause unknown")
        words = self._measured(found) if rescale.trigger_cause in _OF_A_WISH else ""
        self._events.add(
            "rescaled" if what else "job_restarted",
            f"rescale:{self._flink_job}:{rescale.rescale_uuid}",
            found.running_at_ms if found is not None else max(0, rescale.end_timestamp_in_millis or 0),
            job=self._job,
            detail=f"{what or 'restarted by Flink'}{since}: {cause}{words}",
        )

    def _measured(self, found: Interruption | None) -> str:
        if found is None or found.running_at_ms < found.stopped_at_ms:
            return ""
        still_ms = found.running_at_ms - found.stopped_at_ms
        self._still_ms.append(still_ms)
        return f", down for {still_ms / 1000:.1f} s"


def _named(rescale: Rescale, labels: Mapping[str, str], when: Literal["pre", "post"]) -> list[tuple[str, int]]:
    """Return the parallelism of the vertices before or after a rescale by name; those that did not run are left out."""
    counts = {task: getattr(vertex, f"{when}_rescale_parallelism") for task, vertex in sorted(rescale.vertices.items())}
    return [(labels.get(task, task), count) for task, count in counts.items() if count]
