"""What the past rescales of a job were: each as an event, with its cause, and how long they stopped the job.

From 2.3 on Flink remembers them, if `web.adaptive-scheduler.rescale-history.size` is above 0. Otherwise a rescale is seen by the
new execution graph that it made, and what lies between two looks is seen as one.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from surescale.engines.flink.answers import Checkpoints, JobDetail, Rescale
from surescale.engines.flink.client import FlinkClient
from surescale.engines.ports.event_log import EventLog, changes

AT_CHECKPOINT_MS = 5_000
"""A restart that comes sooner than this after a checkpoint came because of it."""
_EXECUTING, _RESTARTING = "Executing", "Restarting"
_DESCRIBED_MAX: Final = 5  # of those that lie before the first look; each takes a request
_INITIAL: Final = "INITIAL_SCHEDULE"
_CAUSES: Final = {
    "UPDATE_REQUIREMENT": "its requirement was changed",
    "NEW_RESOURCE_AVAILABLE": "slots were added",
    "RECOVERABLE_FAILOVER": "after a failure",
}
_OF_A_WISH: Final = frozenset({"UPDATE_REQUIREMENT", "NEW_RESOURCE_AVAILABLE"})
"""Causes without a failure, which takes time of its own."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """When the old graph stopped and the new one ran, in milliseconds of the JobManager's clock."""

    stopped_at_ms: int
    running_at_ms: int


def interruption_of(rescale: Rescale) -> Interruption | None:
    """Return the interruption of a completed rescale; None for one that is under way, was given up, or started the job."""
    if rescale.terminal_state != "COMPLETED":
        return None
    stopped = next((each.enter_timestamp_in_millis for each in rescale.scheduler_states if each.state == _RESTARTING), None)
    last = rescale.scheduler_states[-1] if rescale.scheduler_states else None
    if stopped is None or last is None or last.state != _EXECUTING or last.enter_timestamp_in_millis is None:
        return None
    return Interruption(stopped, last.enter_timestamp_in_millis)


def last_interruption(detail: JobDetail, checkpoints: Checkpoints) -> Interruption | None:
    """Return the last interruption of a job that runs; None if it has not been restored from a checkpoint.

    Flink (from 2.0 on) stops the old graph when a checkpoint completes, and restores that one. A restart that came otherwise is
    counted from the making of the new graph, which leaves out the end of the old one: a few tenths of a second.
    """
    restored, created = checkpoints.latest.restored, detail.timestamps.get("CREATED", 0)
    running = detail.timestamps.get("RUNNING", 0)
    if restored is None or not created or running < created:
        return None
    acknowledged = next((each.latest_ack_timestamp for each in checkpoints.history if each.id == restored.id), -1)
    is_at_checkpoint = 0 <= created - acknowledged <= AT_CHECKPOINT_MS
    return Interruption(acknowledged if is_at_checkpoint else created, running)


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
