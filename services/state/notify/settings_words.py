"""The events that a change of a job's settings makes. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from contracts.ids import cluster_of
from contracts.job_settings import JobSettings
from contracts.pauses import Paused, is_of_all_jobs
from contracts.wire import decode
from services.job_settings.changes import OPTIONS, REQUESTS, differences
from services.state.notify.kinds import Notice, listed
from services.state.notify.memory import Memory
from services.state.write.projections import Record

_TEXT_MAX = 200


def settings_notices(memory: Memory, record: Record) -> Iterator[Notice]:
    """Yield what a record of settings changes; nothing for one that is not in force, and for a copy."""
    settings = decode(record.value, JobSettings)
    known = memory.job(settings.job)
    before = known.settings or JobSettings(job=settings.job)
    if settings.version <= before.version:
        return
    known.settings = settings
    yield from _change_notices(before, settings, record)


def _change_notices(before: JobSettings, after: JobSettings, record: Record) -> Iterator[Notice]:
    job, cluster = after.job, cluster_of(after.job)
    subject = cluster if is_of_all_jobs(job) else job

    def notice(kind: str, summary: str, **data: Any) -> Notice:
        base = {"by": after.set_by, "version": after.version} | ({} if subject == cluster else {"job": job})
        return Notice(
            kind, cluster, subject, f"{job}/v{after.version}", summary, after.set_at_ms, record.appended_ms, base | data
        )

    if after.pause != before.pause:
        if after.pause is UNSET:
            yield notice("job.resumed", f"rescaling of {subject} is resumed by {after.set_by}")
        else:
            pause = msgspec.to_builtins(after.pause)
            yield notice("job.paused", str(Paused(subject, after.pause)), pause=pause)
    if after.approval is not UNSET and after.approval != before.approval:
        said = f"{after.approval.by} has approved the advice {after.approval.decision_id} for {job}"
        yield notice("job.approved", said, decision_id=after.approval.decision_id)
    changed = {name: pair for name, pair in differences(before, after).items() if name in OPTIONS or name in REQUESTS}
    if changed:
        words = listed(f"{_name(name)} {_text(was)} -> {_text(now)}" for name, (was, now) in changed.items())
        data = {name: {"before": _text(was), "after": _text(now)} for name, (was, now) in changed.items()}
        yield notice("job.settings_changed", f"{after.set_by} has changed settings of {job}: {words}", changed=data)


def _name(field: str) -> str:
    return OPTIONS.get(field, "").removeprefix("--") or REQUESTS[field]


def _text(value: object) -> str:
    if value is None:
        return "default"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
