"""Advice that may be approved, as the rescalers tell of it."""

from surescale.contracts.errors import SettingsError
from surescale.contracts.rescaler_state import OpenAdvice
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.suggestions import near
from surescale.contracts.topics import RESCALER_STATE
from surescale.runtime.topic_records import memories, read_topics


class NoOpenAdvice(SettingsError):
    """What should be approved is not open, or no longer."""


def open_advice(settings: PipelineSettings) -> dict[str, OpenAdvice]:
    """Return the open advice of every job that has one.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    found: dict[str, OpenAdvice] = {}
    for record in memories(read_topics(settings, [RESCALER_STATE])[RESCALER_STATE]):
        if record.kind == "job" and record.summary is not None:
            found.pop(record.id, None)
            if record.summary.advice is not None:
                found[record.id] = record.summary.advice
    return found


def chosen(found: dict[str, OpenAdvice], target: str) -> tuple[str, OpenAdvice]:
    """Return the job and the advice that a job's name or a decision's id means.

    Raises:
        NoOpenAdvice: no advice of this name is open; says which are.
    """
    for job, advice in found.items():
        if target in (job, advice.decision_id):
            return job, advice
    ids = {advice.decision_id: job for job, advice in found.items()}
    like = near(target, sorted(ids))
    known = f"; open: {', '.join(like)}" if like else "; none is open at all"
    raise NoOpenAdvice(
        f"DECISION_ID|JOB: {target!r} is not open advice: a newer decision was made, it was carried out, or the job's mode is "
        f"not advise{known}"
    )
