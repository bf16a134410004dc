"""The settings of one job on Kafka: read to their end, changed by one more record that has a version, a who and a when."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Message

from contracts.errors import SettingsError
from contracts.ids import cluster_of
from contracts.messages import JobSettings, JobTopology, PolicyRelease
from contracts.settings import RoadSettings
from contracts.topics import CLOCK, JOB_SETTINGS, JOB_TOPOLOGY, POLICY_RELEASES
from services.job_settings.changes import Recorded, changed, differences, newest
from services.policy_releases.releases import in_force, timeline
from services.road_topics import append_ms, everything, parsed, road_now_ms, send

NEAR_MAX = 3
ATTEMPTS_MAX = 5

Wanted = Callable[["Book"], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Book:
    """What Kafka knows of one job's settings at one instant."""

    job: str
    topology: JobTopology
    history: tuple[Recorded, ...]
    now_ms: int
    release: PolicyRelease | None

    @property
    def settings(self) -> JobSettings:
        """Return the settings in force."""
        return newest(self.history, self.job)


@dataclass(frozen=True, slots=True)
class Changed:
    """The settings before and after; ``overtaken_by`` is who changed them at the same time and was last."""

    before: JobSettings
    after: JobSettings
    overtaken_by: str | None = None

    @property
    def differences(self) -> dict[str, tuple[object, object]]:
        """Return the fields that differ."""
        return differences(self.before, self.after)


def read_book(settings: RoadSettings, job: str) -> Book:
    """Read what there is on a job.

    Raises:
        SettingsError: no topology has named the job.
        ConnectionError: Kafka does not answer.
    """
    found = everything(settings, [JOB_SETTINGS, JOB_TOPOLOGY, CLOCK, POLICY_RELEASES])
    topologies = {topology.job: topology for topology in parsed(found[JOB_TOPOLOGY], JobTopology)}
    if job not in topologies:
        near = difflib.get_close_matches(job, topologies, n=NEAR_MAX, cutoff=0.3) or sorted(topologies)[:NEAR_MAX]
        raise SettingsError(f"JOB: there is no job {job!r}" + (f"; known: {', '.join(near)}" if near else " and no other yet"))
    now_ms, cluster = road_now_ms(settings, found[CLOCK]), cluster_of(job)
    return Book(
        job=job,
        topology=topologies[job],
        history=tuple(_history(found[JOB_SETTINGS], job)),
        now_ms=now_ms,
        release=in_force(timeline(parsed(found[POLICY_RELEASES], PolicyRelease), cluster), now_ms),
    )


def change(settings: RoadSettings, job: str, wanted: Wanted, by: str) -> Changed:
    """Write the next version of a job's settings, or nothing when they are as wanted already.

    Two who write at the same time may choose the same version. The later record wins then, and a record that another one's
    higher version has passed is written again with a version of its own.

    Raises:
        SettingsError: the job is unknown, or what is wanted contradicts itself; nothing was written.
        ConnectionError: Kafka does not answer.
    """
    book = read_book(settings, job)
    before = book.settings
    for _ in range(ATTEMPTS_MAX):
        after = changed(book.settings, wanted(book), book.topology, by=by, at_ms=book.now_ms)
        if not differences(book.settings, after):
            return Changed(book.settings, book.settings)
        send(settings, JOB_SETTINGS, job, after)
        book = read_book(settings, job)
        if book.settings == after:
            return Changed(before, after)
        if _follows(book.history, after):
            return Changed(before, after, overtaken_by=book.settings.set_by)
    raise ConnectionError(f"{job}: others keep changing its settings; try again")


def _follows(history: tuple[Recorded, ...], ours: JobSettings) -> bool:
    """Return whether the settings in force were written after ours."""
    records = [recorded.settings for recorded in history]
    at = max(index for index, record in enumerate(records) if record == ours)
    return any(record.version >= ours.version for record in records[at + 1 :])


def _history(records: list[Message], job: str) -> list[Recorded]:
    return [
        Recorded(settings, append_ms(record))
        for record in records
        for settings in parsed([record], JobSettings)
        if settings.job == job
    ]
