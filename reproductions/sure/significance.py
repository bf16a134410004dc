"""SURE against each other variant, paired: Wilcoxon's signed-rank test, Holm's correction, intervals, wins and losses.

Within a job, a pair is a training seed at an offset. The offsets are ten starts in the same week. They overlap, so these p-values
are too small for claims about other weeks. Over jobs, a pair is one job's mean, and with six jobs no p can be below 0.031.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reproductions.sure.environment import JOBS
from reproductions.sure.results import Result
from reproductions.sure.zscores import VARIANTS, bootstrap
from surescale.contracts.errors import SurescaleError
from surescale.policies.answer import Float64

OURS = "SURE"
RIVALS = tuple(name for name in VARIANTS if name != OURS)
SIGNIFICANT = 0.05
JOBS_MIN = 6  # with fewer pairs the test gives no p below 0.05


class Unpaired(SurescaleError):
    """Two methods have no training seed in common on a job."""


@dataclass(frozen=True, slots=True)
class Versus:
    """SURE's mean reward minus a rival's.

    Attributes:
        difference: mean over pairs.
        low, high: its 95 % bootstrap interval, over seeds if there are several.
        adjusted: p after Holm's correction.
        standing: 1 won, 0 a tie (within one standard error of the paired differences), -1 lost.
    """

    difference: float
    low: float
    high: float
    adjusted: float
    standing: int


def pairs_of(results: Sequence[Result], job: str, rival: str) -> Float64:
    """Return SURE's rewards minus the rival's, [S, R] over common seeds and offsets. A rule has no seeds and pairs with all.

    Raises:
        Unpaired: the job lacks one of the two, or they have no seed in common.
    """
    ours, theirs = _by_seed(results, job, OURS), _by_seed(results, job, rival)
    if rival == "HPA" and theirs:
        theirs = dict.fromkeys(ours, next(iter(theirs.values())))
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise Unpaired(f"{JOBS[job]}: {OURS} and {rival} have no training seed in common; --train adds the missing runs")
    return np.array([np.subtract(ours[seed], theirs[seed]) for seed in common])


def _by_seed(results: Sequence[Result], job: str, method: str) -> dict[int, tuple[float, ...]]:
    found = (result for result in results if (result.job, result.method, result.changed) == (job, method, ""))
    return {result.seed: result.reward for result in found}


def signed_rank(differences: Sequence[float] | Float64) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test (1945); 1 where all differences are zero."""
    from scipy.stats import wilcoxon  # importing it takes seconds

    values = np.asarray(differences, dtype=np.float64).ravel()
    return float(wilcoxon(values).pvalue) if values.any() else 1.0


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's step-down correction (1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(values), 0.0
    for done, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - done) * values[at]))
        adjusted[at] = largest
    return adjusted


def compare(results: Sequence[Result], jobs: Sequence[str], rival: str) -> dict[str, Versus]:
    """Compare SURE with a rival on every job; p is corrected over the jobs."""
    pairs = {job: pairs_of(results, job, rival) for job in jobs}
    corrected = holm([signed_rank(found) for found in pairs.values()])
    return {job: _versus(found, p) for (job, found), p in zip(pairs.items(), corrected, strict=True)}


def _versus(pairs: Float64, adjusted: float) -> Versus:
    values = pairs.mean(axis=1) if len(pairs) > 1 else pairs[0]
    mean = float(values.mean())
    low, high = bootstrap(values.tolist())
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Versus(mean, low, high, adjusted, 0 if abs(mean) <= error else int(np.sign(mean)))


def table(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Return differences by rival and job with corrected p, wins, ties and losses, and the test over the means of jobs."""
    found = {rival: compare(results, jobs, rival) for rival in RIVALS}
    over_jobs = holm([signed_rank([one.difference for one in by_job.values()]) for by_job in found.values()])
    heads = " | ".join(JOBS[job] for job in jobs)
    lines = [f"| SURE minus | {heads} | won, tied, lost | p over jobs |", "| --- |" + " ---: |" * (len(jobs) + 2)]
    for (rival, by_job), p in zip(found.items(), over_jobs, strict=True):
        cells = " | ".join(_cell(by_job[job]) for job in jobs)
        lines.append(f"| {rival} | {cells} | {_counts(by_job)} | {_p(p) if len(jobs) >= JOBS_MIN else ''} |")
    return "\n".join([*lines, "", words(results, jobs)])


def words(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Explain the pairs, intervals and p-values of ``table``."""
    seeds = max(len(_by_seed(results, job, OURS)) for job in jobs)
    over = "training seeds" if seeds > 1 else "offsets (one training seed, so the spread between trainings is not included)"
    return (
        f"Difference of mean rewards, its 95 % bootstrap interval over {over}, and p of Wilcoxon's signed-rank test over seeds "
        f"and offsets, Holm-corrected over the jobs; bold: p below {SIGNIFICANT}. A tie is within one standard error. "
        "Last column: the same test over the means of jobs, Holm-corrected over the eight rivals (blank: too few jobs)."
    )


def _counts(by_job: Mapping[str, Versus]) -> str:
    standings = [one.standing for one in by_job.values()]
    return ", ".join(str(standings.count(kind)) for kind in (1, 0, -1))


def _cell(one: Versus) -> str:
    mark = "**" if one.adjusted < SIGNIFICANT else ""
    return f"{mark}{_plain(one.difference)}{mark} [{_plain(one.low)}, {_plain(one.high)}], {_p(one.adjusted)}"


def _plain(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
