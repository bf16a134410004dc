"""Windows of simulated jobs in a recording, as the pipeline would leave them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import SNAPSHOTS
from surescale.contracts.windows import Window, encode_window
from surescale.services.tools.recording.format import Header, RawRecord, RecordedJob, RecordedTopic, RecordingWriter


def write_recording(path: Path, *jobs: Sequence[Window], settings: Mapping[str, JobSettings] | None = None) -> Path:
    """Write the windows of some jobs to a recording and return its path; ``settings`` are those of jobs that have any."""
    known = settings or {}
    header = Header(
        created_ms=0,
        surescale="0",
        topic_prefix="",
        asked_topics=(),
        asked_jobs=(),
        from_ms=None,
        until_ms=None,
        topics=(RecordedTopic(name=SNAPSHOTS, partitions=1),),
        jobs=tuple(
            RecordedJob(job=newest.job, topology=newest.topology, settings=known.get(newest.job))
            for newest in (windows[-1] for windows in jobs)
        ),
    )
    with RecordingWriter(path, header) as writer:
        for windows in jobs:
            for at, window in enumerate(windows):
                writer.add(RawRecord(SNAPSHOTS, 0, at, window.window_end_ms, window.job.encode(), encode_window(window)))
    return path
