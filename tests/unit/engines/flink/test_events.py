"""What happened in a Flink cluster, as events."""

import pytest

from surescale.engines.flink.answers import Checkpoint, Checkpoints
from surescale.engines.flink.job import FlinkEvents

EXPIRED = "Checkpoint expired before completing."


@pytest.mark.parametrize(
    ("message", "is_savepoint", "kind"),
    [
        (EXPIRED, False, "checkpoint_failed"),
        ("Checkpoint was declined.", False, "checkpoint_failed"),
        ("Asynchronous task checkpoint failed.", False, "checkpoint_failed"),
        (f"Of task count 3. Failure reason: {EXPIRED}", False, "checkpoint_failed"),
        (EXPIRED, True, "exception"),
        ("Checkpoint was declined (tasks not ready)", False, "exception"),
        ("Trigger checkpoint failure.", False, "exception"),
        ("Not all required tasks are currently running.", False, "exception"),
        ("The job has failed.", False, "exception"),
        ("CheckpointCoordinator shutdown.", False, "exception"),
        (None, False, "exception"),
    ],
)
def test_only_failures_that_count_for_flink_are_failed_checkpoints(message: str | None, is_savepoint: bool, kind: str) -> None:
    """They release a rescale that waits for a checkpoint; what never began, and savepoints, are told and release nothing."""
    failed = Checkpoint(id=7, status="FAILED", is_savepoint=is_savepoint, trigger_timestamp=5, failure_message=message)
    events = FlinkEvents("flink")
    events.add_checkpoints("flink/orders", "e", Checkpoints(history=(failed,)))
    (event,) = events.after("")
    assert (event.kind, event.at_ms) == (kind, 5)
    assert (message or "no reason given") in event.detail
