"""Answers of a shadow policy, as Kafka has them and as the view keeps them."""

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Comparison, ServedDecision, ShadowDecision, ShadowStatus, TaskDifference, Verdict
from surescale.contracts.ids import shadow_id
from surescale.services.state.fleet_documents import StoredAnswer, answer_of
from tests.support.builders import JOB


def answer(
    minute: int, *, served: int = 4, shadow: int = 4, job: str = JOB, status: ShadowStatus = "answered", policy: str = "ds2"
) -> StoredAnswer:
    """Return an answer as the view keeps it."""
    return answer_of(shadow_decision(minute, served=served, shadow=shadow, job=job, status=status, policy=policy))


def shadow_decision(
    minute: int, *, served: int = 4, shadow: int = 4, job: str = JOB, status: ShadowStatus = "answered", policy: str = "ds2"
) -> ShadowDecision:
    """Return an answer on a job of two scalable tasks; the first takes up every difference."""
    differences = (TaskDifference(task="map", current=4, served=served, shadow=shadow),) if served != shadow else ()
    compared = Comparison(
        served=Verdict(action="hold", subtasks=served + 1, utilisation=4.0 / served),
        shadow=Verdict(action="act" if differences else "hold", subtasks=shadow + 1, utilisation=4.0 / shadow),
        took_ms=float(minute),
        tasks=2,
        differences=differences,
    )
    return ShadowDecision(
        shadow_id=shadow_id(job, minute * MINUTE_MS, policy, ""),
        job=job,
        span_end_ms=minute * MINUTE_MS,
        policy=policy,
        sha256="",
        served=ServedDecision(decision_id="d", policy="sure", took_ms=20.0),
        status=status,
        reason="because",
        comparison=compared if status == "answered" else None,
    )
