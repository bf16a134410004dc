"""``surescale policy tournament`` on recordings of simulated jobs: who wins, who does not, and what is refused in one line."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.archive import load_graph
from benchmarks.lived_days import life_of
from surescale.policies.registry import load_policy
from surescale.services.tools.tournament import hold_limited
from surescale.services.tools.tournament.hold import Ask, hold
from surescale.services.tools.tournament.tournament_report import NoTournament, PolicyVersion, TournamentReport
from surescale.simulation.evaluation.judge import EvaluationRequest, setting_of
from surescale.simulation.load.workload import load_workload
from surescale.simulation.tournament import candidates
from tests.support.command_line import SURESCALE, surescale
from tests.support.waiting import wait_until

JOB = "j_756953"
DAY = 24 * 60
FIRST_MINUTE = 4 * DAY


def lived(path: Path, policy: str, *, hours: int, restart_s: float | None = None) -> Path:
    """Write a recording of some hours of a job under a policy."""
    world = "calm" if restart_s is None else "restart"
    asked = EvaluationRequest(world=world, restart_s=restart_s, load_parallelism=5.0, runs=1, calibrate=f"0:{7 * DAY}")
    life = life_of(setting_of(load_graph(JOB), load_workload("clarknet"), asked).trial, FIRST_MINUTE)
    life.serve(load_policy(policy), hours)
    return life.record(path)


@pytest.fixture(scope="module")
def threshold_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days under a rule that does badly."""
    return lived(tmp_path_factory.mktemp("days") / "threshold.ssrec", "threshold", hours=75)


def asked(recording: Path, policy: str, **changes: Any) -> Ask:
    """Return what is asked of a recording."""
    served = PolicyVersion(policy=policy, sha256=load_policy(policy).sha256)
    given: dict[str, Any] = {
        "recording": str(recording), "job": f"sim/{JOB}", "days": 3, "draws": 2, "folder": "", "span_minutes": 10, "seed": 0,
        "serving": served, "own": served, "seconds": 7_200.0, "memory_mb": 1_024, "checks_who_decided": False,
    }  # fmt: skip
    return Ask(**given | changes)


def held(recording: Path, policy: str, days: int) -> TournamentReport:
    """Hold a tournament in which only a few candidates take part, on as few days as wanted: most of its time goes by hours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surescale.services.tools.tournament.hold.DAYS_LEAST", days)
        patch.setattr(candidates, "SETTINGS_OF_SURE", (candidates.AS_IT_SHIPS,))
        patch.setattr(candidates, "CALIBRATED", ("ds2-gate",))
        patch.setattr(candidates, "PLACES", 4)
        return hold(asked(recording, policy, days=days), lambda stage, share: None)


@pytest.fixture(scope="module")
def after_threshold(tmp_path_factory: pytest.TempPathFactory) -> TournamentReport:
    """The outcome on a day under a rule that does badly."""
    return held(lived(tmp_path_factory.mktemp("day") / "threshold.ssrec", "threshold", hours=27), "threshold", days=1)


def test_a_better_policy_wins_where_the_one_that_serves_does_badly(after_threshold: TournamentReport) -> None:
    """A step at a time does not follow a morning: ``sure`` or a calibrated rule is ahead by more than the twin's error."""
    report = after_threshold
    assert report.change == "wins"
    assert report.winner.policy in ("sure", "ds2-gate")
    best = next(row for row in report.rows if row.version == report.winner)
    assert best.difference is not None
    assert best.twin_error is not None
    assert best.difference - best.twin_error >= 0.005
    assert report.expected is not None
    assert report.result().against == "threshold"


@pytest.mark.nightly("a second tournament takes half a minute; test_verdict.py and test_who_may_choose.py test who stays")
def test_nothing_changes_where_nobody_is_ahead(tmp_path: Path) -> None:
    """In a calm world no rule and no constant beats ``sure`` by the margin."""
    report = held(lived(tmp_path / "sure.ssrec", "sure", hours=75), "sure", days=3)
    assert (report.change, report.winner, report.expected) == ("stays", report.serving, None)
    assert len(report.rows) == 3


def test_less_than_three_known_days_are_too_few(tmp_path: Path) -> None:
    """A young job, or one whose tasks have just changed, is left alone."""
    two = lived(tmp_path / "two.ssrec", "hold", hours=50)
    code, out, err = surescale("policy", "tournament", str(two))
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].endswith("days of it are known since its tasks last changed; a tournament needs 3")


def test_a_tournament_that_takes_too_much_is_stopped_and_nothing_follows(threshold_days: Path) -> None:
    """Too little memory, or too little time, is one line; the process that asked goes on."""
    with pytest.raises(NoTournament):
        hold_limited.hold_limited(asked(threshold_days, "threshold", memory_mb=1))
    with pytest.raises(NoTournament, match="--time-limit"):
        hold_limited.hold_limited(asked(threshold_days, "threshold", seconds=1.0))


def test_a_kill_in_the_middle_leaves_nothing_behind(threshold_days: Path, tmp_path: Path) -> None:
    """The child ends soon after its parent; no file is left, and the next run starts over."""
    words = [*SURESCALE, "policy", "tournament", str(threshold_days)]
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(words, stderr=log, stdout=log, env=os.environ | {"TMPDIR": str(tmp_path)})
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    wait_until(lambda: children.read_text().strip() or None, 60, "the child of the tournament")
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) != 0
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_policy_that_is_not_here_cannot_be_played(threshold_days: Path) -> None:
    """A package of another folder, say."""
    with pytest.raises(NoTournament, match="what serves it cannot be played here"):
        hold(asked(threshold_days, "threshold", serving=PolicyVersion(policy="sure", sha256="f" * 64)), lambda stage, share: None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--job", "sim/a", "--all-jobs"], "--job, --all-jobs: give one of them, not both"),
        ([], "none is held unless you say so"),
        (["--all-jobs", "--daily", "25:00"], "--daily: '25:00' is not a time of day; give HH:MM in UTC, such as 03:30"),
        (["nowhere.ssrec"], "nowhere.ssrec cannot be read"),
        (["nowhere.ssrec", "--all-jobs"], "RECORDING: a tournament on a recording is for one job, once"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str) -> None:
    """It names what is wrong and the fix."""
    code, out, err = surescale("policy", "tournament", *words)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert said in err


def test_the_table_is_readable_and_json_holds_the_same(
    threshold_days: Path, after_threshold: TournamentReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighty columns hold names, rewards and leads."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(hold_limited, "hold_limited", lambda ask: after_threshold)
    code, shown, said = surescale("policy", "tournament", str(threshold_days), "--dry-run")
    assert code == 0, said
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "threshold *" in shown
    assert f"{after_threshold.winner.policy} " in shown
    code, told, said = surescale("policy", "tournament", str(threshold_days), "--json")
    assert code == 0, said
    assert {row["version"]["policy"] for row in json.loads(told)["rows"]} == {"threshold", "sure", "ds2-gate", "static"}
