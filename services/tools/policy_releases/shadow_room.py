"""Finds the place of a shadow policy, and sees that not too many look on at once. Pure."""

from contracts.errors import SettingsError
from contracts.ids import cluster_of
from contracts.releases import SHADOWS_MAX, Releases, Scope, ScopedRelease, Slot


def check_room(releases: Releases, wanted: ScopedRelease) -> None:
    """Refuse one more shadow policy than look on at a job.

    Raises:
        SettingsError: names those that look on already.
    """
    held = {_version(slot) for slot in _looking_on(releases, wanted.cluster) if slot.job in ("", wanted.job or slot.job)}
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


def _version(slot: Slot) -> tuple[str, str]:
    return slot.policy, slot.sha256
