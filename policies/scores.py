"""How a model package was judged: ``scores.json`` beside its card. For people: no decision reads it and no checksum covers it."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.foreign_files import contents
from surescale.contracts.plurals import counted
from surescale.policies.package import CARD, read_file
from surescale.policies.registry import SHIPPED

FILE = "scores.json"


class PolicyScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One policy on one job: the mean hourly reward and, where known, what it is made of."""

    reward: float
    latency_minutes: float | None = None
    utilisation: float | None = None
    rescales_per_day: float | None = None
    worst_hour: float | None = None  # reward of the worst hour


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """The mean difference of two policies' hourly rewards, and its standard error."""

    mean: float
    standard_error: float


class JobScores(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All policies judged on one job, by name, and by how much the package leads some of them."""

    tasks: int
    policies: dict[str, PolicyScore]
    leads: dict[str, Lead] = {}


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """What a package was judged on, by whom, and the result on each job. ``terms`` are for people."""

    policy: str
    """The package's name in ``policies``."""
    terms: dict[str, str | int | float]
    jobs: dict[str, JobScores]


def read_scores(package: Path) -> Scores | None:
    """Return a package's scores, None if it has none that can be read."""
    try:
        return msgspec.json.decode(contents(package / FILE), type=Scores)
    except (OSError, *UNREADABLE):
        return None


def write_scores(scores: Scores, package: Path) -> None:
    """Write a package's scores, one field a line; the same scores give the same bytes."""
    raw = msgspec.json.format(msgspec.json.encode(scores, order="deterministic"), indent=1)
    (package / FILE).write_bytes(raw + b"\n")


class ScoreSummary(msgspec.Struct, frozen=True):
    """Means over the jobs a package was judged on, none of them trained on, of its own figures and of the best constant sizes."""

    jobs: int
    own: PolicyScore
    static: PolicyScore | None = None

    def line(self) -> str:
        """Return the summary for people: rent, latency and rescales, or the reward where no more is known.

        As much work in a larger share of the time paid for is so much less rent.

        >>> own = PolicyScore(reward=0.23, utilisation=0.6, latency_minutes=0.1, rescales_per_day=9.62)
        >>> static = PolicyScore(reward=0.19, utilisation=0.45, latency_minutes=0.09, rescales_per_day=0.3)
        >>> ScoreSummary(6, own, static).line()
        'on 6 jobs 25% less rent than static, latency 6.0 s (static 5.4 s), 9.6 rescales a day (static 0.3)'
        >>> ScoreSummary(4, PolicyScore(reward=0.16, utilisation=0.51, latency_minutes=0.2)).line()
        'on 4 jobs 51% busy, latency 12.0 s'
        >>> ScoreSummary(1, PolicyScore(reward=0.1564)).line()
        'on 1 job a mean reward of 0.156'
        """
        own, static = self.own, self.static or PolicyScore(reward=math.nan)
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


def summary_of(package: Path) -> ScoreSummary | None:
    """Return how a package was judged; None if its scores cannot be read, or if it was judged on no job."""
    scores = read_scores(package)
    return None if scores is None else summed_up(scores)


def judged_line(folder: str, name: str, sha256: str) -> str | None:
    """Return in a line how the package of this version was judged; None of a rule, another version, and one without scores.

    Args:
        folder: of the packages; empty: those that ship with surescale.
        name: of the package.
        sha256: of its card, as decisions name it: a package is known by its hash, not by its name.
    """
    if not sha256 or "/" in name or name.startswith("."):
        return None
    package = (Path(folder) if folder else SHIPPED) / name
    try:
        if hashlib.sha256(read_file(package, CARD)).hexdigest() != sha256:
            return None
    except SurescaleError:
        return None
    summary = summary_of(package)
    return None if summary is None else summary.line()


def summed_up(scores: Scores) -> ScoreSummary | None:
    """Return the means over all jobs judged, those of constant sizes only if every job has them; None if there is no such job."""
    judged = [job.policies for job in scores.jobs.values() if scores.policy in job.policies]
    if not judged:
        return None
    static = _mean_of(judged, "static") if all("static" in each for each in judged) else None
    return ScoreSummary(len(judged), _mean_of(judged, scores.policy), static)


def _mean_of(judged: Sequence[Mapping[str, PolicyScore]], policy: str) -> PolicyScore:
    """Return the mean of each of a policy's figures; what is unknown on one job is unknown."""
    figures = [msgspec.structs.asdict(each[policy]) for each in judged]
    means = {
        name: fmean(each[name] for each in figures) for name in figures[0] if all(each[name] is not None for each in figures)
    }
    return PolicyScore(**means)
