"""Policies in the policy folder by name and hash: ``folder/<name>``, or ``folder/<hash>`` where several versions are kept."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.plurals import counted
from surescale.contracts.suggestions import meant
from surescale.policies.policy import Policy
from surescale.policies.registry import Unavailable, load_policy, policy_names
from surescale.policies.released_policy import folder_of
from surescale.policies.scores import PolicyScore, Scores, read_scores
from surescale.runtime.limited_graphs import opener_for

BESIDE = ("static", "oracle")  # what a score is compared with: no scaling at all, and a policy that knows the load to come


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Means over the jobs a package was judged on, none of them trained on, of its own figures and the policies beside it."""

    jobs: int
    own: PolicyScore
    beside: dict[str, PolicyScore] = field(default_factory=dict)

    def line(self) -> str:
        """Return the summary for people: rent, latency and rescales, or the reward where no more is known.

        As much work in a larger share of the time paid for is so much less rent.

        >>> own = PolicyScore(reward=0.23, utilisation=0.6, latency_minutes=0.1, rescales_per_day=9.62)
        >>> static = PolicyScore(reward=0.19, utilisation=0.45, latency_minutes=0.09, rescales_per_day=0.3)
        >>> ScoreSummary(6, own, {"static": static}).line()
        'on 6 jobs 25% less rent than static, latency 6.0 s (static 5.4 s), 9.6 rescales a day (static 0.3)'
        >>> ScoreSummary(4, PolicyScore(reward=0.16, utilisation=0.51, latency_minutes=0.2)).line()
        'on 4 jobs 51% busy, latency 12.0 s'
        >>> ScoreSummary(1, PolicyScore(reward=0.1564)).line()
        'on 1 job a mean reward of 0.156'
        """
        own, static = self.own, self.beside.get("static", PolicyScore(reward=math.nan))
        told = []
        if own.utilisation and static.utilisation:
            less = 1.0 - static.utilisation / own.utilisation
            told.append(f"{abs(less):.0%} {'less' if less >= 0 else 'more'} rent than static")
        elif own.utilisation is not None:
            told.append(f"{own.utilisation:.0%} busy")
        if own.latency_minutes is not None:
            beside = "" if static.latency_minutes is None else f" (static {60.0 * static.latency_minutes:.1f} s)"
            told.append(f"latency {60.0 * own.latency_minutes:.1f} s{beside}")
        if own.rescales_per_day is not None:
            beside = "" if static.rescales_per_day is None else f" (static {static.rescales_per_day:.1f})"
            told.append(f"{own.rescales_per_day:.1f} rescales a day{beside}")
        return f"on {counted(self.jobs, 'job')} " + (", ".join(told) or f"a mean reward of {own.reward:.3f}")


def summary_of(scores: Scores) -> ScoreSummary | None:
    """Return the means over all jobs that the package was judged on; None if there is no such job."""
    judged = [job.policies for job in scores.jobs.values() if scores.policy in job.policies]
    if not judged:
        return None
    others = [name for name in BESIDE if all(name in each for each in judged)]
    return ScoreSummary(len(judged), _mean_of(judged, scores.policy), {name: _mean_of(judged, name) for name in others})


def _mean_of(judged: Sequence[Mapping[str, PolicyScore]], policy: str) -> PolicyScore:
    """Return the mean of each of a policy's figures; what is unknown on one job is unknown."""
    figures = [msgspec.structs.asdict(each[policy]) for each in judged]
    means = {
        name: fmean(each[name] for each in figures) for name in figures[0] if all(each[name] is not None for each in figures)
    }
    return PolicyScore(**means)


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
