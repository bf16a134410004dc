"""A run of a few updates: it resumes to the same weights, exports with parity, and its package serves."""

import re
import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="these tests and nine more files of them need torch: make install-train")

from surescale.contracts.errors import SurescaleError  # noqa: E402
from surescale.model_export import checkpoints, scores  # noqa: E402
from surescale.model_export.checkpoints import CHECKPOINT, CheckpointNotWritten, CheckpointRejected  # noqa: E402
from surescale.model_export.commands import export as export_command  # noqa: E402
from surescale.model_export.commands import train as train_command  # noqa: E402
from surescale.model_export.export import (  # noqa: E402
    ExportRefused,
    ParityError,
    check_name,
    check_parity,
    export_package,
    largest_error,
    opened,
    put_in_place,
)
from surescale.model_export.outlook_fit import fit_forecast  # noqa: E402
from surescale.model_export.plan_loops import Ground  # noqa: E402
from surescale.model_export.rollout import Branching  # noqa: E402
from surescale.model_export.scores import score_package  # noqa: E402
from surescale.model_export.train import (  # noqa: E402
    Run,
    TrainingDiverged,
    TrainSettings,
    _next_ground,
    _weeks,
    first_week,
    plan_alone,
    resume,
    save,
    start_run,
    train,
)
from surescale.policies.registry import load_policy  # noqa: E402
from surescale.policies.scores import read_scores  # noqa: E402
from surescale.policies.sure.planning_input import with_restart  # noqa: E402
from surescale.policies.sure.policy import SurePolicy  # noqa: E402
from surescale.simulation.evaluation.judge import EvaluationRequest, judge, setting_of  # noqa: E402
from surescale.simulation.load.graphs import load_graph  # noqa: E402
from surescale.simulation.load.jobs import load_job  # noqa: E402
from surescale.simulation.load.workload import Workload, load_workload  # noqa: E402
from surescale.simulation.model.worlds import world_named  # noqa: E402

SMALL = TrainSettings(
    workloads=("clarknet",),
    jobs=("clicks",),
    validation_jobs=("clicks",),
    updates=2,
    hidden=8,
    anchors=3,
    validate_every=1,
    branching=Branching(rows=4, apart_spans=2, times=1, branches=6, spans=2),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run of two updates."""
    torch.set_num_threads(1)
    begun = start_run(SMALL)
    train(begun, tmp_path_factory.mktemp("run"), lambda at: None)
    return begun


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the checkpoint of a run before its first update."""
    folder = tmp_path_factory.mktemp("begun")
    save(start_run(SMALL), folder)
    return (folder / CHECKPOINT).read_bytes()


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", -1), ("seed", 2**64), ("jobs", ("clicks", "nowhere")), ("worlds", ("calm", "mars")), ("worlds", ())],
)
def test_settings_that_would_fail_later_are_refused_before_anything_is_fitted(field: str, value: object) -> None:
    """A seed that no generator takes, and a graph or world that is not there, are named at once."""
    with pytest.raises(SurescaleError, match=r"seed -1|seed 18446744073709551616|j_nowhere|mars|no world"):
        start_run(replace(SMALL, **{field: value}))


def test_a_run_in_several_worlds_plays_and_reports_each(run: Run, tmp_path: Path) -> None:
    """Validation plays every world; a mean over them decides; a checkpoint keeps them; the command prints a line for each."""
    begun = start_run(replace(SMALL, worlds=("calm", "drift", "restart@300"), updates=6, validate_every=6))
    assert begun.rule_by_world["calm"] == run.rule
    assert len(set(begun.rule_by_world.values())) == 3
    assert begun.rule == pytest.approx(np.mean(list(begun.rule_by_world.values())))
    played = {_next_ground(replace(begun, update=at), _weeks(begun.settings)).terms.world.name for at in range(20)}
    assert played == {"calm", "drift", "restart"}
    train(begun, tmp_path, lambda at: None)
    again = resume(tmp_path)
    assert (again.best_by_world, again.rule_by_world) == (begun.best_by_world, begun.rule_by_world)
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path), "--resume"])
    assert f"restart@300: validation reward {begun.best_by_world['restart@300']:.4f} (the plan alone" in done.stdout


def test_a_plan_in_training_knows_what_it_knows_in_the_pipeline(run: Run) -> None:
    """The seconds of a long restart, which set its prices; a minute is what it ships with."""
    job, load = load_job("clicks", load_workload("clarknet")), load_workload("clarknet")
    long, usual = (Ground.of(run.base, job, load, world_named(name)) for name in ("restart@300", "drift"))
    assert long.planning == with_restart(run.base.planning, 300.0) != run.base.planning
    assert long.terms.restart_ms == 300_000
    assert usual.planning == run.base.planning


def test_training_moves_the_weights_and_keeps_the_best(run: Run) -> None:
    """What is kept is never worse on validation than the plan alone."""
    assert run.update == 2
    assert run.best >= run.rule
    assert any(not torch.equal(tensor, run.best_state[name]) for name, tensor in run.network.state_dict().items())


def test_a_run_resumes_where_it_was_cut(run: Run, begun: bytes, tmp_path: Path) -> None:
    """One update, a checkpoint, and a second update from it end at the weights of an uncut run, to the last bit."""
    (tmp_path / CHECKPOINT).write_bytes(begun)
    half = resume(tmp_path)

    class Cut(Exception):
        """Stands for a lost machine."""

    def cut_after_one(at: object) -> None:
        save(half, tmp_path)
        raise Cut

    with pytest.raises(Cut):
        train(half, tmp_path, cut_after_one)
    again = resume(tmp_path)
    assert again.update == 1
    train(again, tmp_path, lambda at: None)
    for name, tensor in run.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], tensor), name


@pytest.fixture(scope="module")
def package(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the run's package, its outputs made large enough to be compared."""
    run.best_state = {name: tensor.clone() for name, tensor in run.best_state.items()}
    torch.nn.init.orthogonal_(run.best_state["policy.out.weight"])
    folder = tmp_path_factory.mktemp("models")
    export_package(run, folder, "small")
    return folder


def test_an_exported_package_serves(package: Path) -> None:
    """It loads through the registry, and its card records the parity that was measured."""
    policy = load_policy("small", str(package))
    assert isinstance(policy, SurePolicy), policy
    parity = policy.card.training["parity"]
    assert parity["states"] >= 256
    assert parity["error_max"] <= 1e-5


def test_parity_fails_when_torch_and_onnx_differ(run: Run, package: Path) -> None:
    """A weight changed after the export is found."""
    with torch.no_grad():
        run.network.policy.out.bias.add_(1e-3)
    with pytest.raises(ParityError, match="differ"):
        check_parity(run, package / "small", states=8)
    with torch.no_grad():
        run.network.policy.out.bias.sub_(1e-3)


def test_a_package_is_scored_as_evaluate_scores_it(package: Path) -> None:
    """``scores.json`` and ``surescale policy evaluate`` give one figure for one policy, and judging leaves the hash alone."""
    before, a_day = opened(package / "small").sha256, EvaluationRequest(runs=1, calibrate="0:18600", tuned=False)
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
    assert opened(package / "small").sha256 == before


def test_a_network_is_judged_where_it_took_no_part(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With zeros for an output layer it is its plan alone, to the last bit; graphs of its training are left out."""
    monkeypatch.setattr(scores, "LOADS", ("clarknet",))
    monkeypatch.setattr(scores, "DECISIONS", 6)
    assert scores.unseen_jobs(run) == ("orders", "payments", "delivery")
    save(replace(run, best_state=plan_alone(run.network)), tmp_path)
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path), "--resume", "--judge"])
    assert done.exit_code == 0, done.output
    assert "calm: +0.0000 ± 0.0000 over the plan alone where it took no part, ahead in 0 of 3 cells" in done.stdout


def test_a_workload_shorter_than_a_week_is_refused(tmp_path: Path) -> None:
    """The message counts what is there and what is needed."""
    short = tmp_path / "short.csv"
    short.write_text("minute,requests\n" + "".join(f"{minute},100\n" for minute in range(200)))
    with pytest.raises(SurescaleError, match="200 minutes; training needs a week"):
        start_run(replace(SMALL, workloads=(str(short),)))


def _week_with_gap(path: Path, first: int, minutes: int) -> str:
    """Write a week of ClarkNet that lacks some minutes and return its name."""
    counts = [str(count) for count in load_workload("clarknet").requests[:10_080].tolist()]
    for minute in range(first, first + minutes):
        counts[minute % len(counts)] = ""
    path.write_text("minute,requests\n" + "".join(f"{minute},{count}\n" for minute, count in enumerate(counts)))
    return str(path)


@pytest.mark.parametrize(("first", "last"), [(3_000, 3_059), (10_050, 29)])
def test_a_week_with_a_gap_of_a_whole_window_is_refused(first: int, last: int, tmp_path: Path) -> None:
    """An hour without counts shows a policy nothing, also where the week's end and its beginning make one gap together."""
    name = _week_with_gap(tmp_path / "gap.csv", first, 60)
    with pytest.raises(SurescaleError, match=rf"nobody counted minutes {first} to {last};"):
        start_run(replace(SMALL, workloads=(name,)))


def test_what_a_gap_hides_is_not_learned(tmp_path: Path) -> None:
    """A gap of half an hour at noon of every day is no daily dip: the forecast is nearly that of the whole record."""
    whole = load_workload("clarknet")
    holes = whole.requests[:10_080].astype(np.float64)
    holes.reshape(7, 1_440)[:, 720:750] = np.nan
    holed = Workload.counted("holed", holes, whole.trace_start_ms)
    found = [fit_forecast(first_week(each)) for each in (whole, holed)]
    np.testing.assert_allclose(found[1].trend_only, found[0].trend_only, atol=0.05)
    with pytest.raises(SurescaleError, match="no 120 minutes in a row without a gap"):
        fit_forecast(Workload.counted("torn", np.tile([np.nan] * 30 + [100.0] * 90, 84), whole.trace_start_ms))


def test_a_run_whose_loss_is_no_number_stops_and_keeps_its_checkpoint(begun: bytes, tmp_path: Path) -> None:
    """The message names the update and the job; the weights that were kept are still there to be exported."""
    (tmp_path / CHECKPOINT).write_bytes(begun)
    broken = resume(tmp_path)
    with torch.no_grad():
        broken.network.policy.out.bias.fill_(float("nan"))
    with pytest.raises(TrainingDiverged, match=r"update 1 on clicks: its loss \(nan\).*--seed"):
        train(broken, tmp_path, lambda at: None)
    assert (tmp_path / CHECKPOINT).read_bytes() == begun


@pytest.mark.parametrize("share", [0.0, 0.4, 0.99])
def test_a_checkpoint_cut_short_is_refused_by_name(share: float, begun: bytes, tmp_path: Path) -> None:
    """Whatever torch makes of half a file."""
    (tmp_path / CHECKPOINT).write_bytes(begun[: int(share * len(begun))])
    with pytest.raises(CheckpointRejected, match=r"checkpoint\.pt is damaged"):
        resume(tmp_path)


@pytest.mark.parametrize("document", [[1], {"settings": "{}"}])
def test_a_checkpoint_of_something_else_is_refused_by_name(document: object, tmp_path: Path) -> None:
    """A list, and a run without most of its parts."""
    torch.save(document, tmp_path / CHECKPOINT)
    with pytest.raises(CheckpointRejected, match=r"checkpoint\.pt does not hold a run"):
        resume(tmp_path)


def test_a_checkpoint_of_other_features_is_refused(tmp_path: Path) -> None:
    """Weights mean nothing without the slots that they were learned on."""
    torch.save({"slots_sha256": "of another version"}, tmp_path / CHECKPOINT)
    with pytest.raises(CheckpointRejected, match="trained on other features"):
        resume(tmp_path)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """A file that may not grow beyond a kilobyte stands for the disk: one line, no partial file, the old bytes."""
    (tmp_path / CHECKPOINT).write_bytes(b"before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(CheckpointNotWritten, match=r"checkpoint\.pt cannot be written \(file too large\)"):
            checkpoints.write({"weights": torch.zeros(10_000)}, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(CHECKPOINT, b"before")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--resume", "--updates", "500"], "--updates: the run in .* was started with 2 "),
        (["--resume", "--seed", "3"], "--seed: .* was started with 0 "),
        (["--resume", "--world", "drift"], "--world: .* was started with .*calm"),
        (["--resume", "--job", "orders"], "--job: .* was started with .*clicks"),
        ([], "--out: .* already holds a run; continue it with --resume"),
    ],
)
def test_a_run_is_neither_changed_nor_overwritten_by_the_way(words: list[str], told: str, run: Run, tmp_path: Path) -> None:
    """Options of another run are refused by name, and a folder that holds a run is not overwritten."""
    save(run, tmp_path)
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path), "--device", "cpu", *words])
    assert isinstance(done.exception, SurescaleError)
    assert re.search(told, str(done.exception))


def test_a_finished_run_resumed_has_nothing_left_to_do(run: Run, tmp_path: Path) -> None:
    """With its own settings given again it says what it came to."""
    save(run, tmp_path)
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path), "--resume", "--updates", "2", "--job", "clicks"])
    assert done.exit_code == 0
    assert f"validation reward {run.best:.4f}" in done.stdout


def test_a_log_gets_a_line_per_validation(begun: bytes, tmp_path: Path) -> None:
    """Without a terminal there is no progress bar, so each validation gets a line."""
    (tmp_path / CHECKPOINT).write_bytes(begun)
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path), "--resume"])
    assert re.search(r"update 1 of 2: validation reward 0\.\d+, best 0\.\d+ \(the plan alone 0\.\d+\)", done.stdout)
    assert "update 2 of 2" in done.stdout


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(train_command, ["--out", str(tmp_path / "file" / "run")])
    assert re.search(r"--out: .* cannot be made \(not a directory\)", str(done.exception))


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


def test_what_is_no_number_is_no_parity() -> None:
    """Both sides alike or one alone."""
    nan = np.array([1.0, np.nan])
    assert largest_error(nan, nan) == np.inf
    assert largest_error(np.array([1.0, 2.0]), nan) == np.inf
    assert largest_error(np.array([1.0, 2.0]), np.array([1.5, 2.0])) == 0.5


def test_exporting_a_run_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    """The message names the option and the command."""
    result = CliRunner().invoke(export_command, ["--run", str(tmp_path)])
    assert isinstance(result.exception, SurescaleError)
    assert "surescale policy train" in str(result.exception)


@pytest.mark.parametrize("device", ["cuda:99", "meta", "hpu", "gpu"])
def test_a_device_that_is_not_there_is_refused(device: str, tmp_path: Path) -> None:
    """The message names the option and what to give; ``meta`` is torch's name for one that holds no numbers."""
    refused = CliRunner().invoke(train_command, ["--device", device, "--out", str(tmp_path)])
    assert f"--device {device}: torch finds no such device here; use cpu or auto" in str(refused.exception)


def test_a_missing_library_is_one_line_before_the_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not after minutes of fitting."""
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    refused = CliRunner().invoke(train_command, ["--out", str(tmp_path)])
    assert "tensorboard is not installed; `make install-train`" in str(refused.exception)
