"""What happened in a Flink cluster, as events with ids of their own.

An id follows from Flink's own ids and times, so a monitor that restarts gives the same event the same id. Only what Flink does
not remember (requirements that changed, TaskManagers that came and went) is seen by comparing two looks.
"""

from collections.abc import Iterator

from surescale.contracts.messages import EventKind
from surescale.engines.flink.answers import Checkpoint, Checkpoints, Exceptions
from surescale.engines.ports.event_log import EventLog


class FlinkEvents(EventLog):
    """The newest events of one cluster."""

    def add_checkpoints(self, job: str, epoch: str, checkpoints: Checkpoints) -> None:
        """Note a job's finished checkpoints."""
        for each in sorted(checkpoints.history, key=lambda checkpoint: checkpoint.id):
            for kind, at_ms, detail in _ended(each):
                self.add(kind, f"checkpoint:{epoch}:{each.id}", at_ms, job=job, detail=detail)

    def add_exceptions(self, job: str, epoch: str, exceptions: Exceptions) -> None:
        """Note what made a job restart."""
        for each in sorted(exceptions.exception_history.entries, key=lambda entry: entry.timestamp):
            if each.timestamp >= 0:
                self.add(
                    "exception", f"exception:{epoch}:{each.timestamp}", each.timestamp, job=job, detail=_words(each.stacktrace)
                )


def _ended(checkpoint: Checkpoint) -> Iterator[tuple[EventKind, int, str]]:
    kind = "savepoint" if checkpoint.is_savepoint else "checkpoint"
    if checkpoint.status == "COMPLETED" and checkpoint.latest_ack_timestamp >= 0:
        size, took_ms = max(0, checkpoint.state_size), max(0, checkpoint.end_to_end_duration)
        yield "checkpoint_completed", checkpoint.latest_ack_timestamp, f"{kind} {checkpoint.id}: {size} bytes in {took_ms} ms"
    elif checkpoint.status == "FAILED":
        at_ms = max(checkpoint.failure_timestamp, checkpoint.trigger_timestamp, 0)
        told = f"{kind} {checkpoint.id}: {checkpoint.failure_message or 'no reason given'}"
        # Failed checkpoints release a rescale that waits for one, as in Flink; those that never began say nothing about the job.
        yield ("checkpoint_failed", at_ms, told) if checkpoint.has_failed else ("exception", at_ms, f"{told} (it does not count)")


def _words(stacktrace: str) -> str:
    """Return the first line of an exception and its deepest cause."""
    lines = [line.strip() for line in stacktrace.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return "; ".join([*lines[:1], *causes[-1:]])
