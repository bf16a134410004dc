"""Whether a tournament may choose a job's policy: never against what a person has chosen. Pure."""

from collections.abc import Sequence

from contracts.ids import cluster_of
from contracts.job_settings import JobSettings
from contracts.releases import Releases, ScopedRelease, Slot
from services.tools.tournament.report import NoTournament


def check_eligible(job: str, settings: JobSettings, records: Sequence[ScopedRelease], now_ms: int, *, again: bool) -> None:
    """Refuse a tournament for a job whose policy a person has chosen.

    Args:
        job: ``CLUSTER/NAME``.
        settings: of the job.
        records: all releases in the order in which they were written.
        now_ms: event time.
        again: hold one even if somebody took back what the last one had released.

    Raises:
        NoTournament: says who chose what, and what to do.
    """
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


def former_winner(job: str, releases: Releases, now_ms: int) -> ScopedRelease | None:
    """Return the release of a tournament that serves a job now, if one does."""
    found = releases.serving(job, now_ms)
    return found if found is not None and found.is_of_tournament else None
