"""What a package's card says of its own scores, in one line for people. Pure; a card that says nothing has no line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

BESIDE = ("static", "oracle")  # what a score is read beside: no policy at all, and one that knows the load to come


@dataclass(frozen=True, slots=True)
class Scores:
    """Mean reward over the jobs that a package was judged on, unseen in training, and of the policies beside it."""

    jobs: int
    reward: float
    beside: tuple[tuple[str, float], ...] = ()

    def line(self) -> str:
        """Return the scores for people.

        >>> Scores(6, 0.2319, (("static", 0.1897),)).line()
        'mean reward 0.232 on 6 jobs (static 0.190)'
        """
        beside = ", ".join(f"{name} {reward:.3f}" for name, reward in self.beside)
        return f"mean reward {self.reward:.3f} on {self.jobs} jobs" + (f" ({beside})" if beside else "")


def scores_of(card: Mapping[str, Any]) -> Scores | None:
    """Return the scores in a card: rewards by job and policy, or by week and job; None where there are none in these forms."""
    said = card.get("scores")
    if not isinstance(said, Mapping):
        return None
    by_job = said.get("jobs")
    if isinstance(by_job, Mapping):
        own = _numbers(by_job.values(), str(card.get("name")))
        others = {name: _numbers(by_job.values(), name) for name in BESIDE}
        beside = tuple((name, fmean(found)) for name, found in others.items() if own and len(found) == len(own))
        return Scores(len(own), fmean(own), beside) if own else None
    weeks = [week for week in said.values() if isinstance(week, Mapping)]
    own = _numbers(weeks[-1].values(), "reward") if weeks else []
    return Scores(len(own), fmean(own)) if own else None


def _numbers(jobs: Iterable[Any], name: str) -> list[float]:
    found = [job.get(name) for job in jobs if isinstance(job, Mapping)]
    return [float(number) for number in found if isinstance(number, int | float)]
