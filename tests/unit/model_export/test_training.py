"""A run of a few updates: it resumes to the same weights, exports with parity, and its package serves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from contracts.errors import SurescaleError  # noqa: E402
from model_export.commands import export as export_command  # noqa: E402
from model_export.commands import train as train_command  # noqa: E402
from model_export.evaluate import judge, paired  # noqa: E402
from model_export.export import ParityError, check_parity, export_package  # noqa: E402
from model_export.rollout import Branching  # noqa: E402
from model_export.train import Run, TrainSettings, resume, save, start_run, train  # noqa: E402
from policies.onnx_policy import OnnxPolicy  # noqa: E402
from policies.registry import load_policy  # noqa: E402
from policies.rules.fixed import Hold, Static  # noqa: E402
from policies.rules.target_utilisation import TargetUtilisation  # noqa: E402
from simulation.jobs import load_job  # noqa: E402
from simulation.workload import load_workload  # noqa: E402

SMALL = TrainSettings(
    workloads=("clarknet",),
    jobs=("j_2521346",),
    validation_jobs=("j_2521346",),
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


@pytest.mark.parametrize(("field", "value"), [("seed", -1), ("jobs", ("j_2521346", "j_nowhere"))])
def test_settings_that_would_fail_later_are_refused_before_anything_is_fitted(field: str, value: object) -> None:
    """A seed that no generator takes, and a graph that is not there, are named at once."""
    with pytest.raises(SurescaleError, match=r"seed -1|j_nowhere"):
        start_run(replace(SMALL, **{field: value}))


def test_training_moves_the_weights_and_keeps_the_best(run: Run) -> None:
    """What is kept is never worse on validation than the plan alone."""
    assert run.update == 2
    assert run.best >= run.rule
    assert any(not torch.equal(tensor, run.best_state[name]) for name, tensor in run.model.state_dict().items())


def test_a_run_resumes_where_it_was_cut(run: Run, tmp_path: Path) -> None:
    """One update, a checkpoint, and a second update from it end at the weights of an uncut run."""
    half = start_run(SMALL)

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
    for name, tensor in run.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], tensor)


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
    assert isinstance(policy, OnnxPolicy), policy
    parity = policy.card.training["parity"]
    assert parity["states"] >= 256
    assert parity["error_max"] <= 1e-5


def test_parity_fails_when_torch_and_onnx_differ(run: Run, package: Path) -> None:
    """A weight changed after the export is found."""
    with torch.no_grad():
        run.model.policy.out.bias.add_(1e-3)
    with pytest.raises(ParityError, match="differ"):
        check_parity(run, package / "small", states=8)
    with torch.no_grad():
        run.model.policy.out.bias.sub_(1e-3)


def test_judging_tells_good_sizes_from_bad_ones() -> None:
    """Over half a day a rule that follows the load beats one that never acts on a job started too wide."""
    workload = load_workload("clarknet")
    job, first = load_job("j_2521346", workload), np.array([16_320])
    scores = {rule.name: judge(rule, job, workload, first, 72) for rule in (TargetUtilisation(), Static(), Hold())}
    assert scores["static"].rescales_per_day == 0
    assert scores["static"].reward == scores["hold"].reward
    assert scores["target-utilisation"].utilisation > scores["static"].utilisation
    assert paired(scores["static"], scores["hold"], block_hours=3) == (0.0, 0.0)


def test_a_workload_shorter_than_a_week_is_refused(tmp_path: Path) -> None:
    """The message counts what is there and what is needed."""
    short = tmp_path / "short.csv"
    short.write_text("minute,requests\n" + "".join(f"{minute},100\n" for minute in range(200)))
    with pytest.raises(SurescaleError, match="200 minutes; training needs a week"):
        start_run(replace(SMALL, workloads=(str(short),)))


def test_exporting_a_run_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    """The message names the option and the command."""
    result = CliRunner().invoke(export_command, ["--run", str(tmp_path)])
    assert isinstance(result.exception, SurescaleError)
    assert "surescale train" in str(result.exception)


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The message names the option and what to give."""
    refused = CliRunner().invoke(train_command, ["--device", "cuda:99", "--out", str(tmp_path)])
    assert "--device cuda:99: torch finds no such device here; give cpu" in str(refused.exception)
