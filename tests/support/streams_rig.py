"""A state service that sets jobs as ScaledStreams say, beside an API server: what both its doubles and a real one are asked."""

from collections.abc import Callable
from typing import Any

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS
from tests.support.builders import JOB
from tests.support.topic_records import records
from tests.support.waiting import wait_until

Document = dict[str, Any]


def resource(name: str, namespace: str, **spec: Any) -> Document:
    """Return a ScaledStream as somebody writes it."""
    return {
        "apiVersion": "surescale.dev/v1alpha1",
        "kind": "ScaledStream",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"job": JOB, **spec},
    }


def in_force(pipeline: PipelineSettings) -> JobSettings:
    """Return the job's settings in force."""
    found: list[JobSettings] = records(pipeline, JOB_SETTINGS, JobSettings)
    return max((each for each in found if each.job == JOB), key=lambda each: each.version, default=JobSettings(job=JOB))


def condition(document: Document, kind: str = "Set") -> Document:
    """Return a condition of a resource; empty while it has none."""
    conditions = document.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def tells(read: Callable[[], Document], status: str, reason: str) -> Document:
    """Wait until a resource says whether its job is set, and why; return it."""

    def has_told() -> bool:
        found = condition(read())
        return (found.get("status"), found.get("reason")) == (status, reason)

    wait_until(has_told, what=f"the condition Set to be {status}, {reason}")
    return read()
