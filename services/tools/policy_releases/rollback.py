"""Which release a rollback brings back, and what ends a release. Pure."""

from msgspec import UNSET
from msgspec.structs import replace

from contracts.errors import SettingsError
from contracts.releases import Releases, ScopedRelease, Slot


def rolled_back(releases: Releases, slot: Slot, *, next_minute_ms: int, by: str) -> ScopedRelease:
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
    return replace(before, valid_from_ms=start_ms, set_by=by, set_at_ms=UNSET, note=UNSET, tournament=UNSET)


def withdrawn(releases: Releases, slot: Slot, *, next_minute_ms: int, by: str) -> ScopedRelease:
    """Return the record that ends what a slot holds, or will hold.

    Raises:
        SettingsError: it holds nothing.
    """
    timeline = releases.timeline(slot)
    if not timeline or timeline[-1].withdrawn:
        what = f"{slot.policy} does not run in shadow for" if slot.role == "shadow" else "nothing is released for"
        raise SettingsError(f"policy: {what} {where(slot)}")
    return ended(timeline[-1], start_ms=max(next_minute_ms, timeline[-1].valid_from_ms), by=by)


def ended(release: ScopedRelease, *, start_ms: int, by: str) -> ScopedRelease:
    """Return the record that ends a release."""
    return replace(release, withdrawn=True, valid_from_ms=start_ms, set_by=by, set_at_ms=UNSET, note=UNSET, tournament=UNSET)


def where(slot: Slot) -> str:
    """Return a slot's scope for people."""
    return {"job": slot.job, "canary": f"a share of the jobs of {slot.cluster}", "cluster": f"cluster {slot.cluster}"}[slot.scope]


def _used(release: ScopedRelease) -> tuple[object, ...] | None:
    """Return what tells releases of one slot apart for its jobs; None: there was none."""
    return None if release.withdrawn else (release.policy, release.sha256, release.share_permille, release.tuned)
