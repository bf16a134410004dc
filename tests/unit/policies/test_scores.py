"""Scores beside a package's card: written and read back alike, and worth nothing when damaged."""

import hashlib
import shutil
from pathlib import Path

import pytest

from surescale.policies.registry import SHIPPED
from surescale.policies.scores import FILE, JobScores, Lead, PolicyScore, Scores, judged_line, read_scores, write_scores

SHA = hashlib.sha256((SHIPPED / "sure/card.json").read_bytes()).hexdigest()
JUDGED = Scores(
    policy="sure",
    terms={"workload": "clarknet", "week": 2, "latency_weight": 0.5},
    jobs={
        "j": JobScores(
            tasks=3,
            policies={"static": PolicyScore(reward=0.1), "sure": PolicyScore(reward=0.2, worst_hour=-0.4)},
            leads={"static": Lead(mean=0.1, standard_error=0.01)},
        )
    },
)


def test_scores_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The same scores give the same bytes."""
    write_scores(JUDGED, tmp_path)
    first = (tmp_path / FILE).read_bytes()
    assert read_scores(tmp_path) == JUDGED
    write_scores(JUDGED, tmp_path)
    assert (tmp_path / FILE).read_bytes() == first


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
def test_every_shipped_package_says_how_it_was_judged(name: str) -> None:
    """Its own reward stands among the policies of every job."""
    scores = read_scores(SHIPPED / name)
    assert scores is not None
    assert scores.policy == name
    assert scores.jobs
    assert all(name in job.policies for job in scores.jobs.values())


@pytest.mark.parametrize("content", [None, b"", b"[", b"[" * 200_000, b"\xff", b'{"policy": "sure", "jobs": 3}'])
def test_scores_that_cannot_be_read_are_no_scores(tmp_path: Path, content: bytes | None) -> None:
    """A missing or damaged file costs a package its line in a list and nothing else."""
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    assert read_scores(tmp_path) is None


def test_a_package_in_use_says_in_a_line_how_it_was_judged() -> None:
    """The one that `surescale policy list` prints."""
    line = judged_line("", "sure", SHA)
    assert line is not None
    assert line.startswith("on 11 jobs ")
    assert "rescales a day" in line


@pytest.mark.parametrize(("name", "sha256"), [("sure", ""), ("sure", "ab" * 32), ("nope", SHA), ("../sure", SHA), (".", SHA)])
def test_what_is_not_known_by_its_hash_has_no_line(name: str, sha256: str) -> None:
    """A rule, another version, no package, and a name that would leave the folder."""
    assert judged_line("", name, sha256) is None


def test_a_package_without_scores_has_no_line(tmp_path: Path) -> None:
    """Nor one whose scores cannot be read."""
    shutil.copytree(SHIPPED / "sure", tmp_path / "sure")
    (tmp_path / "sure/scores.json").write_text("{")
    assert judged_line(str(tmp_path), "sure", SHA) is None
