"""Policies in the policy folder by name and hash: ``folder/<name>``, or ``folder/<hash>`` where several versions are kept."""

from pathlib import Path

import msgspec

from contracts.errors import SettingsError
from policies.policy import Policy
from policies.registry import Unavailable, load_policy, policy_names
from policies.released_policy import folder_of
from policies.scores import read_scores
from services.agent.limited_graphs import Limits
from services.agent.settings import AgentSettings
from services.tools.policy_releases.scores import ScoreSummary, summary_of


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy that can be named with a folder; ``unusable`` says why it cannot decide, the hash is empty for a rule."""

    policy: str
    sha256: str
    span_minutes: int
    unusable: str | None
    scores: ScoreSummary | None


def policies_in(folder: str) -> list[PolicyRow]:
    """Return every policy that can be named with a folder."""
    root = folder_of(folder)
    known = {name: _opened(name, folder) for name in policy_names(folder)}
    return [
        PolicyRow(
            policy=item.name,
            sha256=item.sha256,
            span_minutes=item.span_minutes,
            unusable=item.reason if isinstance(item, Unavailable) else None,
            scores=_summary(root / name) if item.sha256 else None,
        )
        for name, item in known.items()
    ]


def _summary(package: Path) -> ScoreSummary | None:
    scores = read_scores(package)
    return summary_of(scores) if scores else None


def _opened(name: str, folder: str) -> Policy:
    """Return a policy; the graphs of a package that did not ship with surescale run as the agent runs them, within limits."""
    if not folder:
        return load_policy(name)
    usual = AgentSettings()
    return load_policy(name, folder, opener=Limits(usual.policy_seconds, usual.policy_memory_mb).open)


def verified(name: str, folder: str) -> Policy:
    """Return the policy of that name after checking its files, checksums and features, and running it on a blank window.

    Raises:
        SettingsError: it cannot be used; the message says why.
    """
    known = policy_names(folder)
    if name not in known:
        where = folder or "the folder that ships with surescale"
        raise SettingsError(f"policy {name}: there is no such policy in {where}; known: {', '.join(known)}")
    policy = _opened(name, folder)
    if isinstance(policy, Unavailable):
        raise SettingsError(f"policy {name}: {policy.reason}")
    if policy.name != name and policy.sha256 != name:
        raise SettingsError(f"policy {name}: its card names it {policy.name!r}; give its folder that name, or its hash")
    return policy
