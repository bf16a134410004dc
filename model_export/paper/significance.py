"""SURE against each other variant, paired: Wilcoxon's signed-rank test, Holm's correction, intervals, wins and losses. No torch.

Pairs within a job are a training seed at an offset. Offsets are ten starts in one and the same week, so they overlap and these
p are too small for a claim about other weeks; over jobs a pair is one job's mean, and six jobs can give no p below 0.031.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contracts.errors import SurescaleError
from model_export.paper.results import Result
from model_export.paper.world import JOBS
from model_export.paper.zscores import VARIANTS, bootstrap
from policies.proposal import Float64

OURS = "SURE"
RIVALS = tuple(name for name in VARIANTS if name != OURS)
SIGNIFICANT = 0.05
JOBS_MIN = 6  # for fewer pairs no p of the test is below 0.05


class Unpaired(SurescaleError):
    """Two methods have no training seed in common on a job."""


@dataclass(frozen=True, slots=True)
class Versus:
    """SURE's mean reward less a rival's.

    Attributes:
        difference: mean over pairs; ``low`` and ``high`` its 95 % bootstrap interval, over seeds if there are several.
        adjusted: p after Holm's correction.
        standing: 1 won, 0 a tie (within one standard error of the paired differences), -1 lost.
    """

    difference: float
    low: float
    high: float
    adjusted: float
    standing: int


def paired(results: Sequence[Result], job: str, rival: str) -> Float64:
    """Return SURE's rewards less the rival's, [S, R] over common seeds and offsets; a rule, which has no seeds, meets all.

    Raises:
        Unpaired: the job lacks one of the two, or they share no seed.
    """
    ours, theirs = _by_seed(results, job, OURS), _by_seed(results, job, rival)
    if rival == "HPA" and theirs:
        theirs = dict.fromkeys(ours, next(iter(theirs.values())))
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise Unpaired(f"{JOBS[job]}: there is no training seed of both {OURS} and {rival}; --train makes what is missing")
    return np.array([np.subtract(ours[seed], theirs[seed]) for seed in common])


def _by_seed(results: Sequence[Result], job: str, method: str) -> dict[int, tuple[float, ...]]:
    found = (result for result in results if (result.job, result.method, result.changed) == (job, method, ""))
    return {result.seed: result.reward for result in found}


def signed_rank(differences: Sequence[float] | Float64) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test (1945); 1 where all differences are zero. Needs scipy."""
    from scipy.stats import wilcoxon

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
    """Return SURE against a rival on every job, p corrected over the jobs."""
    pairs = {job: paired(results, job, rival) for job in jobs}
    corrected = holm([signed_rank(found) for found in pairs.values()])
    return {job: _versus(found, p) for (job, found), p in zip(pairs.items(), corrected, strict=True)}


def _versus(pairs: Float64, adjusted: float) -> Versus:
    values = pairs.mean(axis=1) if len(pairs) > 1 else pairs[0]
    mean = float(values.mean())
    low, high = bootstrap(values.tolist())
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Versus(mean, low, high, adjusted, 0 if abs(mean) <= error else int(np.sign(mean)))


def table(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Return differences by rival and job with corrected p, wins, ties and losses, and the test over jobs' means."""
    found = {rival: compare(results, jobs, rival) for rival in RIVALS}
    over_jobs = holm([signed_rank([one.difference for one in by_job.values()]) for by_job in found.values()])
    heads = " | ".join(JOBS[job] for job in jobs)
    lines = [f"| SURE less | {heads} | won, tied, lost | p over jobs |", "| --- |" + " ---: |" * (len(jobs) + 2)]
    for (rival, by_job), p in zip(found.items(), over_jobs, strict=True):
        cells = " | ".join(_cell(by_job[job]) for job in jobs)
        lines.append(f"| {rival} | {cells} | {_counts(by_job)} | {_p(p) if len(jobs) >= JOBS_MIN else ''} |")
    return "\n".join([*lines, "", words(results, jobs)])


def words(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Say what the pairs, intervals and p of ``table`` are."""
    seeds = max(len(_by_seed(results, job, OURS)) for job in jobs)
    over = "training seeds" if seeds > 1 else "offsets (one training seed: how another training would end is not in it)"
    return (
        f"Difference of mean rewards, its 95 % bootstrap interval over {over}, and p of Wilcoxon's signed-rank test over seeds "
        f"and offsets, Holm-corrected over the jobs; bold: p below {SIGNIFICANT}. A tie is within one standard error. "
        "Last column: the same test over the jobs' means, Holm-corrected over the eight rivals (blank: too few jobs for any)."
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
