"""Which policy release is in force at an event time. Pure."""

from collections.abc import Iterable

from contracts.messages import PolicyRelease

ReleaseTimeline = tuple[PolicyRelease, ...]
"""One cluster's releases, by the minute each takes effect."""


def release_timeline(releases: Iterable[PolicyRelease], cluster: str) -> ReleaseTimeline:
    """Return a cluster's releases by the minute each takes effect; if two share a minute, the later record wins.

    ``releases`` come in the order of the topic.
    """
    by_start = {release.valid_from_ms: release for release in releases if release.cluster == cluster}
    return tuple(by_start[start] for start in sorted(by_start))


def release_in_force(releases: ReleaseTimeline, at_ms: int) -> PolicyRelease | None:
    """Return the latest release in effect at an event time, or None before the first."""
    return next((release for release in reversed(releases) if release.valid_from_ms <= at_ms), None)
