"""Which release a rollback brings back. Pure."""

from contracts.errors import SettingsError
from contracts.messages import PolicyRelease
from contracts.releases import ReleaseTimeline


def rolled_back(releases: ReleaseTimeline, *, next_minute_ms: int, by: str) -> PolicyRelease:
    """Return the release that undoes the newest one from the next minute on. If the newest has not started, it never will.

    Raises:
        SettingsError: nothing was released before the newest release.
    """
    if not releases:
        raise SettingsError("policy: nothing has been released yet, so there is nothing to roll back")
    newest = releases[-1]
    used = (newest.policy, newest.sha256)
    before = next((release for release in reversed(releases) if (release.policy, release.sha256) != used), None)
    if before is None:
        raise SettingsError(f"policy: nothing was released before {newest.policy}; release the policy you want by its name")
    start_ms = max(next_minute_ms, newest.valid_from_ms)
    return PolicyRelease(cluster=newest.cluster, policy=before.policy, sha256=before.sha256, valid_from_ms=start_ms, set_by=by)
