"""A pipeline's jobs in tournaments: what serves them, a recording of their last days, and the release that follows.

A tournament never chooses against what a person has chosen (`check_eligible`).
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Tuning
from surescale.contracts.releases import Release, Releases, Slot
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS
from surescale.services.job_settings.snapshot import read_snapshot
from surescale.services.tools.policy_releases.catalog import ReleaseCatalog, publish, read_catalog
from surescale.services.tools.policy_releases.scope import next_minute_ms
from surescale.services.tools.recording.record import RecordingRequest, record
from surescale.services.tools.recording.sources import Say
from surescale.services.tools.tournament.hold import DAY_MINUTES, Ask, is_needed
from surescale.services.tools.tournament.hold_limited import hold_limited
from surescale.services.tools.tournament.tournament_report import NoTournament, PolicyVersion, TournamentReport, release_of


def check_eligible(
    job: str, settings: JobSettings, records: Sequence[Release], now_ms: int, *, again: bool, by_label: bool = False
) -> None:
    """Refuse a tournament for a job whose policy a person has chosen.

    Args:
        job: ``CLUSTER/NAME``.
        settings: of the job, with its labels.
        records: all releases in the order in which they were written.
        now_ms: event time.
        again: hold one even if somebody took back what the last one had released.
        by_label: a label of the job chose its policy.

    Raises:
        NoTournament: says who chose what, and what to do.
    """
    if settings.policy and by_label:
        raise NoTournament(
            f"{job}: its label surescale.policy names {settings.policy}, and a tournament does not change that; "
            "take the label away to leave the choice open"
        )
    if settings.policy:
        raise NoTournament(
            f"{job}: {settings.set_by} set its policy to {settings.policy}, and a tournament does not change that; "
            f"`surescale job set {job} --policy default` leaves the choice open"
        )
    slot = Slot(cluster_of(job), "serve", "job", job)
    own = [each for each in records if each.slot == slot]
    newest = own[-1] if own else None
    if newest is not None and not newest.is_of_tournament:
        who = newest.set_by or "somebody"
        if not newest.withdrawn:
            raise NoTournament(
                f"{job}: {who} released {newest.policy} for this job, and a tournament does not change that; "
                f"`surescale policy withdraw --job {job}` leaves the choice open"
            )
        if not again and len(own) > 1 and own[-2].is_of_tournament:
            raise NoTournament(f"{job}: {who} took back what a tournament had released; --again holds one anyway")
    canary = Releases(records).in_force(Slot(cluster_of(job), "serve", "canary"), now_ms)
    if canary is not None and canary.is_for(job):
        raise NoTournament(f"{job}: it is in the canary of {canary.policy}, and a tournament would spoil what that shows")


def former_winner(job: str, releases: Releases, now_ms: int) -> Release | None:
    """Return the release of a tournament that serves a job now, if one does."""
    found = releases.serving(job, now_ms)
    return found if found is not None and found.is_of_tournament else None


@dataclass(frozen=True, slots=True)
class TournamentTerms:
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


def hold_for(settings: PipelineSettings, job: str, terms: TournamentTerms, *, publishes: bool, say: Say) -> TournamentReport:
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


def _allowed(settings: PipelineSettings, job: str, terms: TournamentTerms) -> ReleaseCatalog:
    catalog = read_catalog(settings)
    known = read_snapshot(settings, job)
    in_use = in_force(known.settings, known.topology.labels)
    check_eligible(job, in_use, catalog.records, catalog.now_ms, again=terms.again, by_label=not known.settings.policy)
    return catalog


def _report(settings: PipelineSettings, job: str, terms: TournamentTerms, catalog: ReleaseCatalog, say: Say) -> TournamentReport:
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
            memory_mb=terms.memory_mb,
        )
        return hold_limited(ask)


def _version(release: Release | None, pipeline_policy: str) -> PolicyVersion:
    """Return what a release names; without one, the agents' own policy."""
    if release is None:
        return PolicyVersion(policy=pipeline_policy)
    tuned = release.tuned or Tuning()
    return PolicyVersion(policy=release.policy, sha256=release.sha256, tuned=tuned)
