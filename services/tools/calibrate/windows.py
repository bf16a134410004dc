"""A job's windows in a recording."""

from collections.abc import Iterator

from contracts.errors import RecordRejected, SettingsError
from contracts.topics import SNAPSHOTS
from contracts.windows import Window, decode_window
from services.tools.recording.format import Recording
from services.tools.recording.records import job_of


def chosen_job(opened: Recording, asked: str | None) -> str:
    """Return the job asked for, or the only one.

    Raises:
        SettingsError: the recording does not have it, or has several.
    """

    jobs = [each.job for each in opened.header.jobs]
    if asked is not None and asked in jobs:
        return asked
    known = ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "") or "none"
    if asked is not None:
        raise SettingsError(f"--job: {opened.path} has no job {asked[:200]!r}; it has {known}")
    if len(jobs) != 1:
        raise SettingsError(f"--job: name one of the jobs in {opened.path}: {known}")
    return jobs[0]


def windows_of(opened: Recording, job: str) -> Iterator[Window]:
    """Yield a job's windows in order of time; those that cannot be read are left out, as in the pipeline.

    Raises:
        SettingsError: there is none.
        RecordingRejected: the file is damaged.
    """

    found = unreadable = 0
    for record in opened.records():
        if record.topic != SNAPSHOTS or job_of(record) != job:
            continue
        try:
            window = decode_window(record.value)
        except RecordRejected:
            unreadable += 1
            continue
        found += 1
        yield window
    if not found:
        why = f"its {unreadable} windows cannot be read" if unreadable else f"it has no windows of {job}"
        raise SettingsError(f"{opened.path}: {why}; record topic {SNAPSHOTS} with this surescale")
