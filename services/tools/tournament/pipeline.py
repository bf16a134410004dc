"""A pipeline's jobs in tournaments: what serves them, a recording of their last days, and the release that follows."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET

from contracts.clock import MINUTE_MS
from contracts.ids import cluster_of
from contracts.messages import Tuning
from contracts.releases import ScopedRelease
from contracts.settings import PipelineSettings
from contracts.topics import DECISIONS, SNAPSHOTS
from services.job_settings.snapshot import read_snapshot
from services.tools.policy_releases.catalog import ReleaseCatalog, publish, read_catalog
from services.tools.policy_releases.start import next_minute_ms
from services.tools.recording.record import RecordingRequest, record
from services.tools.tournament.eligibility import check_eligible, former_winner
from services.tools.tournament.limited import hold_limited
from services.tools.tournament.report import Report, Version, release_of
from services.tools.tournament.run import DAY_MINUTES, Ask, is_needed

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How tournaments are held.

    Attributes:
        days: that are played.
        draws: of what varies in the twin.
        seconds: for one job.
        memory_mb: for one job.
        again: also for jobs where somebody took back what the last one had released.
        by: who has them held.
    """

    days: int
    draws: int
    seconds: float
    memory_mb: int
    again: bool
    by: str


def jobs_of(settings: PipelineSettings) -> list[str]:
    """Return the jobs of the cluster that the settings name.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    return sorted(job for job in read_catalog(settings).jobs if cluster_of(job) == settings.cluster)


def hold_for(settings: PipelineSettings, job: str, terms: Terms, *, publishes: bool, say: Say) -> Report:
    """Return the outcome of a job's tournament; with ``publishes``, write the release that follows from it.

    A kill at any moment leaves nothing behind but a file in the folder for temporary files: one record is written at the end.

    Raises:
        NoTournament: none is held; says why.
        ConnectionError: Kafka does not answer.
    """
    catalog = _allowed(settings, job, terms)
    report = _report(settings, job, terms, catalog, say)
    if publishes and report.change != "stays":
        # It took minutes; a person may have chosen since.
        catalog = _allowed(settings, job, terms)
        former = former_winner(job, catalog.releases, catalog.now_ms)
        release = release_of(report, former, start_ms=next_minute_ms(catalog.now_ms), by=terms.by)
        if release is not None:
            publish(settings, release)
    return report


def _allowed(settings: PipelineSettings, job: str, terms: Terms) -> ReleaseCatalog:
    catalog = read_catalog(settings)
    check_eligible(job, read_snapshot(settings, job).settings, catalog.records, catalog.now_ms, again=terms.again)
    return catalog


def _report(settings: PipelineSettings, job: str, terms: Terms, catalog: ReleaseCatalog, say: Say) -> Report:
    own = _version(catalog.releases.serving(job, catalog.now_ms, has_tournaments=False), settings.policy)
    serving = _version(catalog.releases.serving(job, catalog.now_ms), settings.policy)
    with tempfile.TemporaryDirectory(prefix="surescale-tournament-") as folder:
        path = Path(folder) / "last-days.ssrec"
        from_ms = max(0, catalog.now_ms - (terms.days * DAY_MINUTES + 60) * MINUTE_MS)
        asked = RecordingRequest((DECISIONS, SNAPSHOTS), (job,), from_ms)
        record(settings, asked, path, now_ms=round(time.time() * 1000), say=say, keeps=is_needed)
        ask = Ask(
            recording=str(path),
            job=job,
            days=terms.days,
            draws=terms.draws,
            folder=settings.policy_folder,
            span_minutes=settings.span_minutes,
            seed=settings.seed,
            serving=serving,
            own=own,
            seconds=terms.seconds,
        )
        return hold_limited(ask, terms.memory_mb)


def _version(release: ScopedRelease | None, pipeline_policy: str) -> Version:
    """Return what a release names; without one, the agents' own policy."""
    if release is None:
        return Version(policy=pipeline_policy)
    tuned = Tuning() if release.tuned is UNSET else release.tuned
    return Version(policy=release.policy, sha256=release.sha256, tuned=tuned)
