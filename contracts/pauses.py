"""What somebody has paused: the one answer for rescaler, state view and command line. Pure.

A pause of a job and one of its whole cluster hold together. A pause ends by the pipeline's clock. It stops decisions and what the
rescaler starts by itself; it never stops a job that lost its units from being started again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings, Pause

ALL_JOBS = "*"
"""Stands for every job of a cluster in the place of a job's name."""
_SHOWN_MS_MAX = 253_402_300_799_000  # the end of the year 9999: later times have no date


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause in force; ``scope`` is the job or the cluster that it was set for."""

    scope: str
    pause: Pause

    def __str__(self) -> str:
        """Return who paused what, until when and why."""
        what = {"up": "scaling up", "down": "scaling down", "both": "rescaling"}[self.pause.direction]
        return f"{what} of {self.scope} is paused by {self.pause.by} {_until(self.pause.until_ms)}: {self.pause.why}"


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses in force for one job at one moment."""

    paused: tuple[Paused, ...] = ()

    def stops(self, direction: Literal["up", "down"]) -> bool:
        """Say whether changes in a direction are paused."""
        return any(each.pause.direction in (direction, "both") for each in self.paused)

    def stops_change(self, before: int, after: int) -> bool:
        """Say whether a change of a parallelism is paused."""
        return after != before and self.stops("up" if after > before else "down")

    @property
    def stops_all(self) -> bool:
        """Both directions are paused, and with them what the rescaler starts by itself."""
        return self.stops("up") and self.stops("down")

    def __str__(self) -> str:
        """Return all of them, for people."""
        return "; ".join(map(str, self.paused))


NO_PAUSES = Pauses()


def all_jobs_of(cluster: str) -> str:
    """Return what stands in the place of a job's id in settings for all jobs of a cluster.

    >>> all_jobs_of("sim")
    'sim/*'
    """
    return f"{cluster}/{ALL_JOBS}"


def is_of_all_jobs(job: str) -> bool:
    """Say whether an id in the place of a job's stands for all jobs of a cluster."""
    return job.endswith(f"/{ALL_JOBS}")


def pauses_of(job: str, settings: Mapping[str, JobSettings], now_ms: int) -> Pauses:
    """Return the pauses in force for a job. ``settings``: by job, with those for all jobs of the cluster."""
    cluster = cluster_of(job)
    found = []
    for scope, of in ((job, job), (cluster, all_jobs_of(cluster))):
        allowed = settings.get(of)
        pause = in_force(allowed.pause, now_ms) if allowed is not None else None
        if pause is not None:
            found.append(Paused(scope, pause))
    return Pauses(tuple(found)) if found else NO_PAUSES


def in_force(pause: Pause | None, now_ms: int) -> Pause | None:
    """Return a pause unless its time has passed."""
    return pause if pause is not None and (pause.until_ms is None or now_ms < pause.until_ms) else None


def _until(at_ms: int | None) -> str:
    if at_ms is None or at_ms > _SHOWN_MS_MAX:
        return "until further notice"
    return f"until {datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
