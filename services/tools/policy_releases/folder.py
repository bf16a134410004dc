"""Policies in the policy folder by name and hash: ``folder/<name>``, or ``folder/<hash>`` where several versions are kept."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.plurals import counted
from surescale.contracts.suggestions import meant
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable, load_policy, policy_names
from surescale.policies.released_policy import folder_of
from surescale.policies.scores import Scores, read_scores
from surescale.runtime.limited_graphs import opener_for

BESIDE = ("static", "oracle")  # what a score is compared with: no scaling at all, and a policy that knows the load to come


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Mean reward over the jobs a package was judged on, none of them trained on, and that of the policies beside it."""

    jobs: int
    reward: float
    beside: tuple[tuple[str, float], ...] = ()

    def line(self) -> str:
        """Return the summary for people.

        >>> ScoreSummary(6, 0.2319, (("static", 0.1897),)).line()
        'mean reward 0.232 on 6 jobs (static 0.190)'
        """
        beside = ", ".join(f"{name} {reward:.3f}" for name, reward in self.beside)
        return f"mean reward {self.reward:.3f} on {counted(self.jobs, 'job')}" + (f" ({beside})" if beside else "")


def summary_of(scores: Scores) -> ScoreSummary | None:
    """Return the means over all jobs that the package was judged on; None if there is no such job."""
    own = _rewards(scores, scores.policy)
    if not own:
        return None
    others = {name: _rewards(scores, name) for name in BESIDE}
    return ScoreSummary(
        len(own), fmean(own), tuple((name, fmean(each)) for name, each in others.items() if len(each) == len(own))
    )


def _rewards(scores: Scores, policy: str) -> list[float]:
    return [job.policies[policy].reward for job in scores.jobs.values() if policy in job.policies]


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
            scores=_summary(root / name) if item.sha256 else None,
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


def _summary(package: Path) -> ScoreSummary | None:
    scores = read_scores(package)
    return summary_of(scores) if scores else None


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
