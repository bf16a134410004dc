"""The scores of a package in use: its own, of the version that decided, and nothing of any other."""

import hashlib
import shutil
from pathlib import Path

import pytest

from surescale.policies.registry import SHIPPED
from surescale.policies.scores import JobScores, PolicyScore, Scores
from surescale.services.state.read.package_scores import scores_of, summed_up

SHA = hashlib.sha256((SHIPPED / "sure/card.json").read_bytes()).hexdigest()


def test_the_shipped_package_has_its_scores() -> None:
    """Those of `surescale policy list`, as means over all jobs that it was judged on."""
    found = scores_of("", "sure", SHA)
    assert found is not None
    assert (found.jobs, found.command[:25]) == (11, "surescale policy evaluate")
    assert found.beside["target-utilisation"] < found.reward < found.beside["oracle"]


@pytest.mark.parametrize(("name", "sha256"), [("sure", ""), ("sure", "ab" * 32), ("nope", SHA), ("../sure", SHA), (".", SHA)])
def test_what_is_not_known_by_its_hash_has_none(name: str, sha256: str) -> None:
    """A rule, another version, no package, and a name that would leave the folder."""
    assert scores_of("", name, sha256) is None


def test_a_package_without_scores_has_none(tmp_path: Path) -> None:
    """Nor one whose scores cannot be read."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "sure")
    (tmp_path / "sure/scores.json").write_text("{")
    assert scores_of(str(tmp_path), "sure", SHA) is None


def test_only_policies_judged_on_every_job_are_beside() -> None:
    """A mean over other jobs says nothing."""
    jobs = {
        "a": JobScores(tasks=1, policies={"p": PolicyScore(reward=0.2), "q": PolicyScore(reward=0.1)}),
        "b": JobScores(tasks=1, policies={"p": PolicyScore(reward=0.4)}),
    }
    found = summed_up(Scores(policy="p", terms={"command": "c"}, jobs=jobs))
    assert found is not None
    assert (found.reward, found.beside, found.command) == (0.3, {}, "c")
    assert summed_up(Scores(policy="x", terms={}, jobs=jobs)) is None
