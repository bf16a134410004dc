"""A package of ``sure``: fitted, written whole or not at all, scored, served."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.plan_loops import Ground
from surescale.contracts.errors import SurescaleError
from surescale.model_export.commands import export as export_command
from surescale.model_export.export import ExportRefused, check_name, export_package, put_in_place
from surescale.model_export.outlook_fit import first_weeks, fit_base, fit_forecast
from surescale.model_export.scores import score_package
from surescale.policies.registry import load_policy
from surescale.policies.scores import read_scores
from surescale.policies.sure.planning_input import with_restart
from surescale.policies.sure.policy import SurePolicy
from surescale.simulation.evaluation.judge import EvaluationRequest, judge, setting_of
from surescale.simulation.load.graphs import load_graph
from surescale.simulation.load.jobs import load_job
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.model.worlds import world_named


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a package that was fitted to one load."""
    folder = tmp_path_factory.mktemp("models")
    export_package(("clarknet",), folder, "small")
    return folder


def test_what_ships_is_what_the_command_fits() -> None:
    """To the last digit, from the first weeks of both loads."""
    shipped = load_policy("sure")
    assert isinstance(shipped, SurePolicy)
    assert fit_base(first_weeks(("clarknet", "nasa"))) == shipped.card.base


def test_an_exported_package_serves(package: Path) -> None:
    """It loads through the registry, and its card says what it was fitted to."""
    policy = load_policy("small", str(package))
    assert isinstance(policy, SurePolicy), policy
    assert policy.card.training["workloads"] == ["clarknet"]


def test_the_command_writes_a_package(tmp_path: Path) -> None:
    """And says where it lies."""
    done = CliRunner().invoke(export_command, ["--out", str(tmp_path), "--name", "mine", "--no-scores"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"wrote {tmp_path / 'mine'}\n"
    assert isinstance(load_policy("mine", str(tmp_path)), SurePolicy)


def test_a_plan_in_loops_knows_what_it_knows_in_the_pipeline() -> None:
    """The seconds of a long restart, which set its prices; a minute is what it ships with."""
    shipped = load_policy("sure")
    assert isinstance(shipped, SurePolicy)
    base = shipped.card.base
    job, load = load_job("clicks", load_workload("clarknet")), load_workload("clarknet")
    long, usual = (Ground.of(base, job, load, world_named(name)) for name in ("restart@300", "drift"))
    assert long.planning == with_restart(base.planning, 300.0) != base.planning
    assert long.terms.restart_ms == 300_000
    assert usual.planning == base.planning


def test_a_package_is_scored_as_evaluate_scores_it(package: Path) -> None:
    """``scores.json`` and ``surescale policy evaluate`` give one figure for one policy, and judging leaves the hash alone."""
    before, a_day = load_policy("small", str(package)).sha256, EvaluationRequest(runs=1, calibrate="0:18600", tuned=False)
    score_package(package / "small", lambda line: None, jobs=("clicks",), beside=("forecast",), asked=a_day)
    scores = read_scores(package / "small")
    assert scores is not None
    judged = scores.jobs["clicks"]
    own, rival = (
        judge(name, setting_of(load_graph("clicks"), load_workload("clarknet"), asked), lambda stage, share: None).outcome.hours
        for name, asked in (("small", replace(a_day, policy_folder=str(package))), ("forecast", a_day))
    )
    assert judged.policies["small"].reward == round(own.reward, 4)
    assert judged.policies["forecast"].reward == round(rival.reward, 4)
    assert judged.leads["forecast"].mean == round(own.reward - rival.reward, 4)
    assert load_policy("small", str(package)).sha256 == before


def test_a_load_shorter_than_a_week_is_refused(tmp_path: Path) -> None:
    """The message counts what is there and what is needed."""
    short = tmp_path / "short.csv"
    short.write_text("minute,requests\n" + "".join(f"{minute},100\n" for minute in range(200)))
    refused = CliRunner().invoke(export_command, ["--workload", str(short), "--out", str(tmp_path)])
    assert isinstance(refused.exception, SurescaleError)
    assert re.search("200 minutes; fitting needs a week", str(refused.exception))


def test_what_a_gap_hides_is_not_learned(tmp_path: Path) -> None:
    """A gap of half an hour at noon of every day is no daily dip: the forecast is nearly that of the whole record."""
    whole = load_workload("clarknet")
    holes = whole.requests[:10_080].astype(np.float64)
    holes.reshape(7, 1_440)[:, 720:750] = np.nan
    holed = Workload.counted("holed", holes, whole.trace_start_ms)
    found = [fit_forecast(replace(each, requests=each.requests[:10_080])) for each in (whole, holed)]
    np.testing.assert_allclose(found[1].trend_only, found[0].trend_only, atol=0.05)
    with pytest.raises(SurescaleError, match="no 120 minutes in a row without a gap"):
        fit_forecast(Workload.counted("torn", np.tile([np.nan] * 30 + [100.0] * 90, 84), whole.trace_start_ms))


@pytest.mark.parametrize("name", ["", "..", "a/b", "static", "forecast"])
def test_a_name_that_nobody_could_load_is_refused(name: str, tmp_path: Path) -> None:
    """Rules have their names first, and a path is no name."""
    with pytest.raises(ExportRefused, match="--name"):
        check_name(tmp_path, name)


def test_an_export_never_replaces_what_is_no_package(package: Path, tmp_path: Path) -> None:
    """A folder of somebody's files stays; a package makes room for the next one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ExportRefused, match=r"is not a package .*choose another name"):
        check_name(tmp_path, "mine")
    for attempt in ("one", "two"):
        part = tmp_path / "scratch" / attempt
        shutil.copytree(package / "small", part)
        (part / "notes").write_text(attempt)
        put_in_place(part, tmp_path, "small")
    assert (tmp_path / "small" / "notes").read_text() == "two"
