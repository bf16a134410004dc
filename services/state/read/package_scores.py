"""How the packages in use were judged, from the scores beside their cards. A package is known by its hash, not by its name."""

import hashlib
from pathlib import Path

from surescale.contracts.errors import SurescaleError
from surescale.policies.package import CARD, read_file
from surescale.policies.registry import SHIPPED
from surescale.policies.scores import Scores, read_scores
from surescale.services.state.fleet_documents import PackageScores


def scores_of(folder: str, name: str, sha256: str) -> PackageScores | None:
    """Return the scores of a package of this version; None of a rule, of another version, and of one without scores.

    Args:
        folder: of the packages; empty: those that ship with surescale.
        name: of the package.
        sha256: of its card, as decisions name it.
    """
    if not sha256 or "/" in name or name.startswith("."):
        return None
    package = (Path(folder) if folder else SHIPPED) / name
    try:
        if hashlib.sha256(read_file(package, CARD)).hexdigest() != sha256:
            return None
    except SurescaleError:
        return None
    scores = read_scores(package)
    return None if scores is None else summed_up(scores)


def summed_up(scores: Scores) -> PackageScores | None:
    """Return the means over all jobs judged; of other policies, only those judged on every job. None: no job was judged."""
    judged = [each.policies for each in scores.jobs.values() if scores.policy in each.policies]
    if not judged:
        return None
    others = sorted(set.intersection(*(set(each) for each in judged)) - {scores.policy})
    return PackageScores(
        reward=_mean([each[scores.policy].reward for each in judged]),
        jobs=len(judged),
        beside={other: _mean([each[other].reward for each in judged]) for other in others},
        command=str(scores.terms.get("command", "")),
    )


def _mean(rewards: list[float]) -> float:
    return round(sum(rewards) / len(rewards), 4)
