"""For which of a cluster's jobs a policy is released: the options that say so, and what they mean. Pure but for click."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from contracts.errors import SettingsError
from contracts.ids import cluster_of
from contracts.releases import Role, ScopedRelease, Slot
from runtime import options
from runtime.printable import printable
from services.tools.policy_releases.names import check_cluster, check_job

F = TypeVar("F", bound=Callable[..., Any])

JOBS_NAMED = 5

share = click.option(
    "--canary",
    "canary",
    metavar="PERCENT",
    type=options.FiniteRange(0.1, 99.9),
    help="Only for this share of the cluster's jobs; the same jobs as long as the policy is the same.",
)
of_share = click.option("--canary", "canary", is_flag=True, help="The release to a share of the jobs.")
starts = click.option(
    "--from", "start", default="now", show_default=True, help="Event minute: milliseconds, ISO time (UTC), or now."
)
job = click.option("--job", help="Only for this job, CLUSTER/NAME.")


def release_to(
    role: Role, policy: str, sha256: str, *, cluster: str, job: str | None, canary: float | None, start_ms: int, by: str
) -> ScopedRelease:
    """Return a release to the jobs that the options name.

    Raises:
        SettingsError: they contradict each other.
    """
    if job is not None and canary is not None:
        raise SettingsError("--job and --canary: give one of them; a release is for one job or for a share of them")
    return ScopedRelease(
        cluster=cluster if job is None else cluster_of(job),
        policy=policy,
        sha256=sha256,
        valid_from_ms=start_ms,
        role=role,
        job=job,
        share_permille=None if canary is None else round(canary * 10),
        set_by=by,
    )


def slot_of(cluster: str, job: str | None, canary: bool) -> Slot:
    """Return the place of the release that the options name.

    Raises:
        SettingsError: they contradict each other.
    """
    if job is not None and canary:
        raise SettingsError("--job and --canary: give one of them; a release is for one job or for a share of them")
    if job is not None:
        return Slot(cluster_of(job), "serve", "job", job)
    return Slot(cluster, "serve", "canary" if canary else "cluster")


def check_scope(release: ScopedRelease, clusters: Iterable[str], jobs: Iterable[str]) -> None:
    """Check that the cluster, or the job, exists.

    Raises:
        SettingsError: names the nearest that do.
    """
    if release.job is None:
        check_cluster(release.cluster, sorted(clusters))
    else:
        check_job(release.job, sorted(jobs))


def reach(release: ScopedRelease, jobs: Iterable[str]) -> str:
    """Return which jobs a canary reaches, for people; empty for other scopes.

    >>> one = ScopedRelease(cluster="sim", policy="sure", sha256="", valid_from_ms=0, share_permille=500)
    >>> reach(one, ["sim/a", "sim/b", "sim/c"])
    '2 of 3 jobs: sim/b, sim/c'
    """
    if release.scope != "canary":
        return ""
    own = sorted(each for each in jobs if cluster_of(each) == release.cluster)
    reached = [each for each in own if release.is_for(each)]
    if not own:
        return "no job is known yet"
    if not reached:
        return f"none of {len(own)} jobs falls into that share; give a larger one"
    more = f" and {len(reached) - JOBS_NAMED} more" if len(reached) > JOBS_NAMED else ""
    return f"{len(reached)} of {len(own)} jobs: {', '.join(reached[:JOBS_NAMED])}{more}"


def say_reach(release: ScopedRelease, jobs: Iterable[str]) -> None:
    """Print which jobs a canary reaches."""
    if words := reach(release, jobs):
        click.echo(printable(words))
