"""What the rescaler does once its memory, or what people set, is gone with its topics: nothing, until somebody says so.

A Kafka that came back empty has neither bounds nor pauses nor the generations that were counted. The hold is a pause of the whole
cluster, the same that `surescale pause` writes: each job's condition shows it, and `surescale resume` ends it.
"""

import logging
import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings, Pause, newer
from surescale.contracts.pauses import all_jobs_of
from surescale.contracts.topics import JOB_SETTINGS, RESCALER_STATE
from surescale.contracts.wire import decode
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.kafka import LogReader
from surescale.runtime.topic_records import send, value_of

REMEMBERED = (RESCALER_STATE, JOB_SETTINGS)
"""Topics without which the rescaler does not know what it did, or what it may do."""
BY = "surescale"
_VERSION_MAX = 2**53  # a `Count`


def hold(settings: RescalerSettings, lost: Sequence[str], log: logging.Logger) -> None:
    """Pause every job of the cluster, in both directions, until somebody resumes it. ``lost``: topics that were made again.

    Raises:
        KafkaException, TimeoutError, ConnectionError: Kafka does not answer, or refuses, and nothing was written.
    """
    reader = LogReader(settings, [JOB_SETTINGS])
    try:
        values = [value_of(record) for record in reader.read_to_end()]
    finally:
        reader.close()
    before = newest(values, all_jobs_of(settings.cluster))
    held = held_from(before, lost, settings.cluster, 0 if settings.pipeline_clock else time.time_ns() // 1_000_000)
    if held is not before:
        send(settings, JOB_SETTINGS, held.job, held)
    log.error("%s made again: cluster %s is paused: %s", ", ".join(lost), settings.cluster, held.pause and held.pause.why)


def newest(values: Iterable[bytes | None], job: str) -> JobSettings:
    """Return the settings in force under a name, by the values of the topic in order; those that cannot be read do not count."""
    latest = JobSettings(job=job)
    for value in values:
        try:
            found = decode(value, JobSettings)
        except RecordRejected:
            continue
        if found.job == job:
            latest = newer(latest, found)
    return latest


def held_from(before: JobSettings, lost: Sequence[str], cluster: str, now_ms: int) -> JobSettings:
    """Return the settings of all jobs with a pause of both directions; as they are if they have one until further notice.

    ``now_ms``: by the pipeline's clock; 0: it has not been seen.
    """
    given = before.pause
    if given is not None and given.direction == "both" and given.until_ms is None:
        return before
    why = (
        f"Kafka's topics {' and '.join(lost)} were made again, so what was remembered and set is gone; "
        f"set the jobs' limits again, then `surescale resume {cluster}`"
    )
    pause = Pause(why=why[:256], by=BY, at_ms=now_ms)
    return replace(before, version=min(before.version + 1, _VERSION_MAX), pause=pause, set_by=BY, set_at_ms=now_ms, request=None)
