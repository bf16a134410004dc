"""Which release is in force at an event time, and which one a rollback brings back. Pure."""

from collections.abc import Iterable

from contracts.errors import SettingsError
from contracts.messages import PolicyRelease

Timeline = tuple[PolicyRelease, ...]


def timeline(releases: Iterable[PolicyRelease], cluster: str) -> Timeline:
    """Return a cluster's releases by the minute from which they hold; of two for one minute the later record stays.

    ``releases`` come in the order of the topic.
    """
    by_start = {release.valid_from_ms: release for release in releases if release.cluster == cluster}
    return tuple(by_start[start] for start in sorted(by_start))


def in_force(releases: Timeline, at_ms: int) -> PolicyRelease | None:
    """Return the latest release that holds at an event time, None before the first."""
    return next((release for release in reversed(releases) if release.valid_from_ms <= at_ms), None)


def rolled_back(releases: Timeline, *, next_minute_ms: int, by: str) -> PolicyRelease:
    """Return the release that undoes the newest one, from the next minute on; a newest one still to come never takes effect.

    Raises:
        SettingsError: nothing was released before the newest release.
    """
    if not releases:
        raise SettingsError("policy: none was released yet, so there is nothing to roll back")
    newest = releases[-1]
    used = (newest.policy, newest.sha256)
    before = next((release for release in reversed(releases) if (release.policy, release.sha256) != used), None)
    if before is None:
        raise SettingsError(f"policy: nothing was released before {newest.policy}; release the policy wanted by its name")
    start_ms = max(next_minute_ms, newest.valid_from_ms)
    return PolicyRelease(cluster=newest.cluster, policy=before.policy, sha256=before.sha256, valid_from_ms=start_ms, set_by=by)
