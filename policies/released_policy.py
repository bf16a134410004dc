"""Finds a released policy in the policy folder by name and hash.

A package lies in ``folder/<name>``, or in ``folder/<hash>`` where several versions are kept.
"""

import hashlib
from pathlib import Path

from surescale.contracts.foreign_files import contents
from surescale.contracts.messages import ReleaseTarget
from surescale.policies.onnx_sessions import Opener
from surescale.policies.package import CARD
from surescale.policies.policy import SPAN_MINUTES, Policy
from surescale.policies.registry import FORECAST, RULES, SHIPPED, Unavailable, load_policy
from surescale.policies.tuned import tuned_policy


def released_policy(
    name: str, sha256: str, folder: str, *, span_minutes: int = SPAN_MINUTES, opener: Opener | None = None
) -> Policy:
    """Return the policy of that name and hash ("" for a rule, which decides every ``span_minutes``); ``opener`` of its graphs.

    Never raises: a policy that is missing or has another hash answers every window with that reason.
    """
    if not sha256:
        if name in (*RULES, FORECAST):
            return load_policy(name, folder, span_minutes=span_minutes, opener=opener)
        return Unavailable(name, f"{name} is not a rule, and no hash of a package was given", span_minutes=span_minutes)
    root = folder_of(folder)
    found = {place: card_hash(root / place) for place in (name, sha256)}
    place = next((place for place, held in found.items() if held == sha256), None)
    if place is not None:
        return load_policy(place, folder, span_minutes=span_minutes, opener=opener)
    held = found[name]
    there = f"has hash {held[:12]}" if held else "is not there"
    reason = f"{name} of hash {sha256[:12]} is not in the policy folder: {name} {there}"
    return Unavailable(name, reason, span_minutes=span_minutes)


def as_released(policy: Policy, to: ReleaseTarget | None) -> Policy:
    """Return a policy with the constants that the release behind a decision sets, if there is one and it sets any."""
    return policy if to is None or to.tuned is None else tuned_policy(policy, to.tuned)


def folder_of(setting: str) -> Path:
    """Return the folder that the setting names; an empty setting means the packages that ship with surescale."""
    return Path(setting) if setting else SHIPPED


def card_hash(package: Path) -> str:
    """Return the hash of a package's card, which covers its files; "" if there is no card."""
    try:
        return hashlib.sha256(contents(package / CARD)).hexdigest()
    except OSError:
        return ""
