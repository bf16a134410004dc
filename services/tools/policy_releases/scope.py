"""For which of a cluster's jobs a release is, from when, and what ends it. Pure but for click."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.ids import cluster_of, split_job
from surescale.contracts.plurals import listed
from surescale.contracts.releases import SHADOWS_MAX, Release, Releases, Role, Scope, Slot
from surescale.contracts.suggestions import near
from surescale.runtime import options
from surescale.runtime.instants import event_time_ms
from surescale.runtime.printable import printable

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
) -> Release:
    """Return a release to the jobs that the options name.

    Raises:
        SettingsError: they contradict each other.
    """
    _check_one_scope(job, is_canary=canary is not None)
    return Release(
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
    _check_one_scope(job, is_canary=canary)
    if job is not None:
        return Slot(cluster_of(job), "serve", "job", job)
    return Slot(cluster, "serve", "canary" if canary else "cluster")


def _check_one_scope(job: str | None, *, is_canary: bool) -> None:
    if job is not None and is_canary:
        raise SettingsError("--job and --canary: give one of them; a release is for one job or for a share of them")


def check_scope(release: Release, clusters: Iterable[str], jobs: Iterable[str]) -> None:
    """Check that the cluster, or the job, exists.

    Raises:
        SettingsError: names the nearest that do.
    """
    if release.job is None:
        check_cluster(release.cluster, sorted(clusters))
    else:
        check_job(release.job, sorted(jobs))


def reach(release: Release, jobs: Iterable[str]) -> str:
    """Return which jobs a canary reaches, for people; empty for other scopes.

    >>> one = Release(cluster="sim", policy="sure", sha256="", valid_from_ms=0, share_permille=500)
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
    return f"{len(reached)} of {len(own)} jobs: {listed(reached, JOBS_NAMED)}"


def say_reach(release: Release, jobs: Iterable[str]) -> None:
    """Print which jobs a canary reaches."""
    if words := reach(release, jobs):
        click.echo(printable(words))


def check_cluster(cluster: str, known: Sequence[str]) -> None:
    """Check a cluster's name against those that monitors have named; before the first of them, any name will do.

    Raises:
        SettingsError: there are clusters, and this is none of them; names the nearest.
    """
    if known and cluster not in known:
        raise SettingsError(f"--cluster: there is no cluster {cluster!r}; known: {', '.join(near(cluster, known))}")


def check_job(job: str, known: Sequence[str]) -> None:
    """Check a job's id against those that monitors have named; before the first of them, any id will do.

    Raises:
        SettingsError: it is not of the form CLUSTER/NAME, or there are jobs and this is none of them; names the nearest.
    """
    try:
        split_job(job)
    except RecordRejected:
        raise SettingsError(f"--job: {job!r} is not of the form CLUSTER/NAME") from None
    if known and job not in known:
        raise SettingsError(f"--job: there is no job {job!r}; known: {', '.join(near(job, known))}")


_YEAR_10000_MS = 253_402_300_800_000


def next_minute_ms(now_ms: int) -> int:
    """Return the first minute end after now.

    >>> next_minute_ms(60_000), next_minute_ms(60_001)
    (120000, 120000)
    """
    return minute_end_ms(now_ms + 1)


def start_ms(text: str, now_ms: int) -> int:
    """Return the event minute that a user means: milliseconds, an ISO time (UTC unless stated), or ``now``.

    A time before the next minute is refused: spans that have ended may have been decided on already.

    Raises:
        SettingsError: it is not a time, not a whole minute, or in the past.
    """
    earliest = next_minute_ms(now_ms)
    if text == "now":
        return earliest
    try:
        at_ms = event_time_ms(text)
    except ValueError:
        raise SettingsError(
            f"--from: {text!r} is not a time; give milliseconds, an ISO time such as 1995-08-28T10:00, or now"
        ) from None
    if at_ms % MINUTE_MS:
        raise SettingsError(f"--from: {text} is not a whole minute; the next one is {minute_end_ms(at_ms)}")
    if at_ms < earliest:
        raise SettingsError(
            f"--from: {text} is in the past: spans up to {now_ms} may have been decided on; the earliest is {earliest}, or now"
        )
    if at_ms >= _YEAR_10000_MS:
        raise SettingsError(f"--from: {text} is not a time in milliseconds")
    return at_ms


def rolled_back(releases: Releases, slot: Slot, *, next_minute_ms: int, by: str) -> Release:
    """Return the release that undoes the newest one of a slot from the next minute on. If the newest has not started, it never
    will.

    The first release of a slot is undone by ending it: then the next wider scope counts, at last the agents' own policy.

    Raises:
        SettingsError: nothing was ever released there.
    """
    timeline = releases.timeline(slot)
    if not timeline or all(release.withdrawn for release in timeline):
        raise SettingsError(f"policy: nothing has been released for {where(slot)} yet, so there is nothing to roll back")
    newest = timeline[-1]
    before = next((release for release in reversed(timeline) if _used(release) != _used(newest)), None)
    start_ms = max(next_minute_ms, newest.valid_from_ms)
    if before is None:
        return ended(newest, start_ms=start_ms, by=by)
    return replace(before, valid_from_ms=start_ms, set_by=by, set_at_ms=None, note=None, tournament=None)


def withdrawn(releases: Releases, slot: Slot, *, next_minute_ms: int, by: str) -> Release:
    """Return the record that ends what a slot holds, or will hold.

    Raises:
        SettingsError: it holds nothing.
    """
    timeline = releases.timeline(slot)
    if not timeline or timeline[-1].withdrawn:
        what = f"{slot.policy} does not run in shadow for" if slot.role == "shadow" else "nothing is released for"
        raise SettingsError(f"policy: {what} {where(slot)}")
    return ended(timeline[-1], start_ms=max(next_minute_ms, timeline[-1].valid_from_ms), by=by)


def ended(release: Release, *, start_ms: int, by: str) -> Release:
    """Return the record that ends a release."""
    return replace(release, withdrawn=True, valid_from_ms=start_ms, set_by=by, set_at_ms=None, note=None, tournament=None)


def where(slot: Slot) -> str:
    """Return a slot's scope for people."""
    return {"job": slot.job, "canary": f"a share of the jobs of {slot.cluster}", "cluster": f"cluster {slot.cluster}"}[slot.scope]


def _used(release: Release) -> tuple[object, ...] | None:
    """Return what tells releases of one slot apart for its jobs; None: there was none."""
    return None if release.withdrawn else (release.policy, release.sha256, release.share_permille, release.tuned)


def check_room(releases: Releases, wanted: Release) -> None:
    """Refuse one more shadow policy than look on at a job.

    Raises:
        SettingsError: names those that look on already.
    """
    held = {
        (slot.policy, slot.sha256) for slot in _looking_on(releases, wanted.cluster) if slot.job in ("", wanted.job or slot.job)
    }
    others = held - {(wanted.policy, wanted.sha256)}
    if len(others) >= SHADOWS_MAX:
        names = ", ".join(sorted(policy for policy, _ in others))
        raise SettingsError(
            f"policy: a job has at most {SHADOWS_MAX} shadow policies, and these run already: {names}; end one with "
            "`surescale policy shadow NAME --stop`"
        )


def shadow_slot(releases: Releases, policy: str, cluster: str, job: str | None, canary: bool) -> Slot:
    """Return the place of the policy that looks on where the options say, of several versions the newest.

    Raises:
        SettingsError: no policy of that name looks on there.
    """
    scope: Scope = "job" if job is not None else "canary" if canary else "cluster"
    cluster = cluster if job is None else cluster_of(job)
    found = [slot for slot in _looking_on(releases, cluster) if (slot.policy, slot.scope, slot.job) == (policy, scope, job or "")]
    if not found:
        known = sorted({slot.policy for slot in _looking_on(releases, cluster)})
        there = f"; these do: {', '.join(known)}" if known else ""
        raise SettingsError(f"policy: {policy} does not run in shadow for {job or cluster}{there}")
    return max(found, key=lambda slot: releases.timeline(slot)[-1].valid_from_ms)


def _looking_on(releases: Releases, cluster: str) -> list[Slot]:
    slots = (slot for slot in releases.slots(cluster) if slot.role == "shadow")
    return [slot for slot in slots if not releases.timeline(slot)[-1].withdrawn]
