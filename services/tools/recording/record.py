"""Writes a recording of a pipeline's topics: which records, in which order, and the facts that make it self-contained."""

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from surescale.contracts import topics
from surescale.contracts.errors import RecordRejected, SettingsError, SurescaleError
from surescale.contracts.ids import split_job
from surescale.contracts.job_settings import JobSettings, newer
from surescale.contracts.messages import JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.wire import decode
from surescale.services.tools.recording.format import (
    FACTS,
    OF_A_JOB,
    Header,
    RawRecord,
    RecordedJob,
    RecordedTopic,
    RecordingWriter,
    is_about,
    is_between,
    job_of,
)
from surescale.services.tools.recording.sources import KafkaSource, Say, Source


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """What to record: these topics (none named: all that a replay needs), of these jobs (none named: all)."""

    topics: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    from_ms: int | None = None
    until_ms: int | None = None


def checked(asked: RecordingRequest, prefix: str) -> RecordingRequest:
    """Return the request with topic names as in the table.

    Raises:
        SettingsError: a topic is not one of surescale's, a job's name is not valid, or the time ends before it begins.
    """
    bare = tuple(name if name in topics.TOPICS else name.removeprefix(prefix) for name in asked.topics)
    for name in bare:
        if name not in topics.TOPICS:
            raise SettingsError(f"--topic: there is no topic {name!r}; known: {', '.join(topics.TOPICS)}")
    for job in asked.jobs:
        try:
            job.encode()
            split_job(job)
        except RecordRejected as error:
            raise SettingsError(f"--job: {error.message}") from None
        except UnicodeEncodeError:
            raise SettingsError(f"--job: {job!r} is not UTF-8, as the names of jobs are") from None
    if asked.from_ms is not None and asked.until_ms is not None and asked.from_ms >= asked.until_ms:
        raise SettingsError("--from: must lie before --until")
    return RecordingRequest(bare, asked.jobs, asked.from_ms, asked.until_ms)


def record(
    settings: PipelineSettings,
    asked: RecordingRequest,
    path: Path,
    *,
    now_ms: int,
    say: Say,
    keeps: Callable[[RawRecord], bool] = lambda record: True,
) -> RecordingWriter:
    """Write a recording of what is committed now, of the records that it ``keeps``, and return the finished writer.

    Raises:
        SettingsError: see ``checked``.
        SurescaleError: nothing that was asked for was found; no file is written.
        ConnectionError: Kafka does not answer.
    """
    asked = checked(asked, settings.topic_prefix)
    wanted = ordered(asked.topics or OF_A_JOB)
    source = KafkaSource(settings, [*FACTS, *wanted], say=say)
    jobs = frozenset(asked.jobs)
    header = Header(
        created_ms=now_ms,
        surescale=importlib.metadata.version("surescale"),
        topic_prefix=settings.topic_prefix,
        asked_topics=asked.topics,
        asked_jobs=asked.jobs,
        from_ms=asked.from_ms,
        until_ms=asked.until_ms,
        topics=tuple(RecordedTopic(name=name, partitions=count) for name, count in source.partitions.items()),
        jobs=known_jobs(source, jobs),
    )
    counted = frozenset(wanted or source.partitions)
    found: dict[str | None, int] = {}
    with RecordingWriter(path, header) as writer:
        for each in source.records(source.partitions):
            if is_about(each, jobs) and is_between(each, asked.from_ms, asked.until_ms) and keeps(each):
                writer.add(each)
                if each.topic in counted:
                    job = job_of(each) if jobs else None
                    found[job] = found.get(job, 0) + 1
        missing = sorted(jobs - found.keys())
        if missing or not found:
            what = f"records of job {missing[0]}" if missing else "records"
            raise SurescaleError(f"{source.name} has no {what} on {', '.join(sorted(counted))} in the time asked for")
    return writer


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the topics other than facts in the order of a recording: decisions before the windows they were made on."""
    chosen = [name for name in dict.fromkeys(names) if name not in FACTS]
    return tuple(sorted(chosen, key=lambda name: (name == topics.SNAPSHOTS, chosen.index(name))))


def known_jobs(source: Source, jobs: frozenset[str]) -> tuple[RecordedJob, ...]:
    """Return the jobs asked for (none named: all) with their newest topology and settings, by name."""
    topologies: dict[str, JobTopology] = {}
    settings: dict[str, JobSettings] = {}
    for each in source.records((topics.JOB_TOPOLOGY, topics.JOB_SETTINGS)):
        if not is_about(each, jobs):
            continue
        try:
            if each.topic == topics.JOB_TOPOLOGY:
                topology = decode(each.value, JobTopology)
                topologies[topology.job] = topology
            else:
                found = decode(each.value, JobSettings)
                settings[found.job] = newer(settings.get(found.job), found)
        except RecordRejected:
            continue  # what does not parse is not in force
    names = sorted({*topologies, *settings, *jobs})
    return tuple(RecordedJob(job=name, topology=topologies.get(name), settings=settings.get(name)) for name in names)
