"""Documents of the view for tests of what is made of them."""

from typing import TypeVar

from surescale.contracts.summaries import JobMinute, WindowSummary
from surescale.services.state.documents import JobOverview
from surescale.services.state.record_documents import Appended

WINDOW = WindowSummary(
    closed_append_ms=None, completeness=1.0, duplicates=0, late=0, load_records_per_minute=1.0, minutes_known=1,
    reached_wall_ms=None, samples=1, tasks=3, window_end_ms=0, window_id="w", window_minutes=60,
    minute=JobMinute(utilisation=0.5), restarts=0,
)  # fmt: skip


PLACE = {"appended_ms": 0, "partition": 0, "offset": 0}
T = TypeVar("T")


def appended(record: T) -> Appended[T]:
    """Return a record as the view has it."""
    return Appended(record=record, appended_ms=0, partition=0, offset=0)


def overview(**changes: object) -> JobOverview:
    """Return the overview of a job, changed as asked."""
    base: dict[str, object] = {
        "job": "flink/a-job-with-a-long-name",
        "state": "running",
        "generation": 0,
        "tasks": 1,
        "parallelism": 48,
        "mode": "act",
        "window_end_ms": 60_000,
        "completeness": 1.0,
        "load_records_per_minute": 169.0,
        "age_minutes": 0,
        "action": "hold",
        "outcome": "held",
        "gate_phase": "Idling",
        "wake_up_ms": None,
        "rent_per_day": 417.66,
        "status": "fine",
        "utilisation": 0.68,
        "backlog_records": 1_234.0,
        "latency_ms": 4_600.0,
        "backlog_ms": 18_000.0,
        "overloaded_tasks": 0,
        "configured_parallelism": None,
        "scalable_tasks": 1,
        "ran": 1.0,
        "is_at_limit": False,
        "fallback_reason": None,
        "applied_generation": 2,
        "decided_ms": 60_000,
        "came": "hold",
    }
    return JobOverview(**(base | changes))  # type: ignore[arg-type]
