"""Policies in the policy folder by name and hash: ``folder/<name>``, or ``folder/<hash>`` where several versions are kept."""

import hashlib
import json
from pathlib import Path
from typing import Any

from contracts.errors import SettingsError
from policies.package import CARD
from policies.policy import Policy
from policies.registry import FORECAST, RULES, SHIPPED, Unavailable, load_policy, policy_names
from services.policy_releases.scores import Scores, scores_of


def released_policy(name: str, sha256: str, folder: str) -> Policy:
    """Return the policy of that name and hash ("" for a rule).

    Never raises: a policy that is not there, or has another hash, is one whose every answer is that reason.
    """
    if not sha256:
        if name in (*RULES, FORECAST):
            return load_policy(name, folder)
        return Unavailable(name, f"{name} is no rule, and no hash of a package was given")
    root = folder_of(folder)
    found = {place: card_hash(root / place) for place in (name, sha256)}
    place = next((place for place, held in found.items() if held == sha256), None)
    if place is not None:
        return load_policy(place, folder)
    held = found[name]
    there = f"has hash {held[:12]}" if held else "is not there"
    return Unavailable(name, f"{name} of hash {sha256[:12]} is not in the policy folder: {name} {there}")


def folder_of(setting: str) -> Path:
    """Return the folder that the setting names; an empty one means the packages that ship with surescale."""
    return Path(setting) if setting else SHIPPED


def policies_in(folder: str) -> list[dict[str, Any]]:
    """Return what there is, by the names of the folder: policy, hash, span, why it cannot be used, and its card's scores."""
    root = folder_of(folder)
    known = {name: load_policy(name, folder) for name in policy_names(folder)}
    return [
        {
            "policy": item.name,
            "sha256": item.sha256,
            "span_minutes": item.span_minutes,
            "unusable": getattr(item, "reason", None),
            "scores": card_scores(root / name) if item.sha256 else None,
        }
        for name, item in known.items()
    ]


def card_scores(package: Path) -> Scores | None:
    """Return what a package's card says of its scores, None where there is no card or it says nothing."""
    try:
        card = json.loads((package / CARD).read_bytes())
    except (OSError, ValueError):
        return None
    return scores_of(card) if isinstance(card, dict) else None


def card_hash(package: Path) -> str:
    """Return the hash of a package's card, which covers its files; "" where there is no card."""
    try:
        return hashlib.sha256((package / CARD).read_bytes()).hexdigest()
    except OSError:
        return ""


def verified(name: str, folder: str) -> Policy:
    """Return the policy of that name after its check: files, checksums, features, and one run on a blank window.

    Raises:
        SettingsError: it cannot be used; the message says why.
    """
    known = policy_names(folder)
    if name not in known:
        where = folder or "the folder that ships with surescale"
        raise SettingsError(f"policy {name}: there is none of that name in {where}; known: {', '.join(known)}")
    policy = load_policy(name, folder)
    if isinstance(policy, Unavailable):
        raise SettingsError(f"policy {name}: {policy.reason}")
    if policy.name != name and policy.sha256 != name:
        raise SettingsError(f"policy {name}: its card says that it is {policy.name!r}; name its folder so, or by its hash")
    return policy
