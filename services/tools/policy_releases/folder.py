"""Policies in the policy folder by name and hash: ``folder/<name>``, or ``folder/<hash>`` where several versions are kept."""

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.suggestions import meant
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable, load_policy, policy_names
from surescale.policies.released_policy import folder_of
from surescale.policies.scores import ScoreSummary, summary_of
from surescale.runtime.limited_graphs import opener_for


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy that can be named with a folder; ``unusable`` says why it cannot decide, the hash is empty for a rule.

    ``what`` is one line on what it does, "" where its class says nothing or it is unusable.
    """

    policy: str
    what: str
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
            what=_what_it_does(item),
            sha256=item.sha256,
            span_minutes=item.span_minutes,
            unusable=item.reason if isinstance(item, Unavailable) else None,
            scores=summary_of(root / name) if item.sha256 else None,
        )
        for name, item in known.items()
    ]


def _what_it_does(policy: Policy) -> str:
    """Return the first line of its class's docstring, "" for that which a dataclass writes itself: it lists the fields."""
    kind = type(policy)
    text = (kind.__doc__ or "").strip()
    if isinstance(policy, Unavailable) or not text or text.startswith(f"{kind.__name__}("):
        return ""
    return text.splitlines()[0].replace("``", "")


def _opened(name: str, folder: str) -> Policy:
    """Return a policy; the graphs of a package that surescale does not ship run as the agent runs them, within limits."""
    return load_policy(name, folder, opener=opener_for(folder))


def verified(name: str, folder: str) -> Policy:
    """Return the policy of that name after checking its files, checksums and features, and running it on a blank window.

    Raises:
        SettingsError: it cannot be used; the message says why.
    """
    if not name.strip():
        raise SettingsError("policy: it has no name; write a policy's name, or leave it out")
    known = policy_names(folder)
    if name not in known:
        where = folder or "the folder that ships with surescale"
        raise SettingsError(f"policy {name}: there is no such policy in {where}; {meant(name, known)}")
    policy = _opened(name, folder)
    if isinstance(policy, Unavailable):
        raise SettingsError(f"policy {name}: {policy.reason}")
    if policy.name != name and policy.sha256 != name:
        raise SettingsError(f"policy {name}: its card names it {policy.name!r}; give its folder that name, or its hash")
    return policy
