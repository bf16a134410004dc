"""A package's scores in one line for people."""

from dataclasses import dataclass
from statistics import fmean

from policies.scores import Scores

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
        return f"mean reward {self.reward:.3f} on {self.jobs} jobs" + (f" ({beside})" if beside else "")


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
