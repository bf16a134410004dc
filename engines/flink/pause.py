"""How long a rescale kept a job from processing: by Flink's own account (from 2.3 on), else by what it stamps with times."""

from dataclasses import dataclass

from engines.flink.answers import Checkpoints, JobDetail, Rescale

AT_CHECKPOINT_MS = 5_000
"""A restart that comes sooner than this after a checkpoint came because of it."""
_EXECUTING, _RESTARTING = "Executing", "Restarting"


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
