"""The commands ``surescale policy train`` and ``surescale policy export``. Torch is imported only when one of them runs."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surescale.contracts.errors import SurescaleError, reason_of

if TYPE_CHECKING:
    from surescale.model_export.train import Progressed, Run


OPTIONS = {"seed": "--seed", "updates": "--updates", "workloads": "--workload", "jobs": "--job", "worlds": "--world"}
"""Options by the field of ``TrainSettings`` they set."""


class TrainingUnavailable(SurescaleError):
    """A library or device that training needs is missing."""


def need_libraries(*others: str) -> None:
    """Import the libraries of all training, and others by name, so that a missing one is reported early. Torch gets one thread.

    Raises:
        TrainingUnavailable: one is not installed or cannot be imported.
    """
    from surescale.policies.onnx_sessions import report_to_nobody

    report_to_nobody()
    for library in ("torch", "torch_geometric", *others):
        try:
            import_module(library)
        except ModuleNotFoundError as error:
            raise TrainingUnavailable(
                f"{error.name} is not installed; `make install-train` installs the libraries for training"
            ) from None
        except ImportError as error:
            raise TrainingUnavailable(f"{library} cannot be imported ({error}); `make install-train` reinstalls it") from None
    import torch

    torch.set_num_threads(1)


def device_named(name: str) -> str:
    """Return the torch device that an option names; ``auto`` is a GPU if there is one.

    Raises:
        TrainingUnavailable: torch does not know it or cannot find it.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).tolist()  # some devices cannot hold numbers
    except (RuntimeError, AssertionError, ImportError):
        raise TrainingUnavailable(f"--device {name}: torch finds no such device here; use cpu or auto") from None
    return name


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/sure"), show_default=True, help="Folder of the run.")
@click.option("--updates", type=click.IntRange(min=1), help="Number of policy updates; the default takes minutes on one core.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the training.")
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    help="Trace by name or CSV file; its first week counts. Repeatable (default: clarknet and nasa).",
)
@click.option("--job", "jobs", multiple=True, help="Graph to train on; repeatable (default: 40 drawn ones of 6 to 24 tasks).")
@click.option(
    "--world",
    "worlds",
    multiple=True,
    metavar="NAME[+NAME...][@SECONDS]",
    help="World to train in, as in evaluate; restart@300 sets the seconds of a restart. Repeatable: each update plays one, "
    "validation plays all (default: calm).",
)
@click.option(
    "--judge",
    "judges",
    is_flag=True,
    help="In the end, judge the kept network next to its plan alone: other graphs, the weeks after, other draws; about a minute "
    "a world. With --resume also for a run that is done.",
)
@click.option("--resume", "resumes", is_flag=True, help="Continue the run in --out.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where networks run: cpu, cuda, cuda:1, or auto for a GPU if there is one.",
)
def train(
    *, out: Path, updates: int | None, seed: int, resumes: bool, judges: bool, device: str, **places: tuple[str, ...]
) -> None:
    """Train the policy SURE in the simulator."""
    need_libraries("tensorboard")
    device = device_named(device)
    given = click.get_current_context().get_parameter_source
    settings = {"seed": seed, "updates": updates, **places}
    chosen = {field: value for field, value in settings.items() if given(field) is not ParameterSource.DEFAULT}
    run = _resumed(out, device, chosen) if resumes else _begun(out, device, chosen)
    _train_with_progress(run, out)
    if len(run.settings.worlds) > 1:
        for world, reward in run.best_by_world.items():
            click.echo(f"{world}: validation reward {reward:.4f} (the plan alone {run.rule_by_world[world]:.4f})")
    if judges:
        _judge(run)
    click.echo(f"validation reward {run.best:.4f} (the plan alone {run.rule:.4f}); next: surescale policy export --run {out}")


def _judge(run: "Run") -> None:
    from surescale.model_export.scores import Gain, gains

    def tell(world: str, gain: Gain) -> None:
        text = f"{gain.mean:+.4f} ± {gain.standard_error:.4f}"
        click.echo(f"{world}: {text} over the plan alone where it took no part, ahead in {gain.ahead} of {gain.cells} cells")

    gains(run, tell)


def make_folder(out: Path) -> None:
    """Make the folder of a run before training starts.

    Raises:
        SurescaleError: it cannot be made or written to; the message names the option.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SurescaleError(f"--out: {out} cannot be made ({reason_of(error)}); name another folder") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise SurescaleError(f"--out: {out} cannot be written to; name another folder")


def _begun(out: Path, device: str, chosen: dict[str, Any]) -> "Run":
    from surescale.model_export.checkpoints import CHECKPOINT
    from surescale.model_export.train import TrainSettings, start_run

    make_folder(out)
    if (out / CHECKPOINT).exists():
        raise SurescaleError(f"--out: {out} already holds a run; continue it with --resume, or name another folder")
    return start_run(TrainSettings(**chosen), device, lambda stage: click.echo(stage, err=True))


def _resumed(out: Path, device: str, chosen: dict[str, Any]) -> "Run":
    from surescale.model_export.checkpoints import CHECKPOINT
    from surescale.model_export.train import resume

    if not (out / CHECKPOINT).is_file():
        raise SurescaleError(f"--resume: there is no run in {out}; leave out --resume to start one")
    run = resume(out, device)
    for field, value in chosen.items():
        begun_with = getattr(run.settings, field)
        if value != begun_with:
            raise SurescaleError(
                f"{OPTIONS[field]}: the run in {out} was started with {begun_with} and keeps it; leave out the option, or "
                "start another run in another --out"
            )
    return run


def _train_with_progress(run: "Run", out: Path) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from torch.utils.tensorboard import SummaryWriter

    from surescale.model_export.train import train as bring_to_end

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress, SummaryWriter(str(out / "tensorboard")) as writer:
        bar = progress.add_task("training", total=run.settings.updates, completed=run.update)

        def tell(at: "Progressed") -> None:
            progress.update(bar, completed=at.update, description=f"best {at.best:.4f} (rule {at.rule:.4f})")
            if at.validation is not None and not progress.console.is_terminal:  # a log shows no progress bar
                line = f"update {at.update} of {run.settings.updates}: validation reward {at.validation:.4f}"
                click.echo(f"{line}, best {at.best:.4f} (the plan alone {at.rule:.4f})")
            writer.add_scalar("loss", at.loss, at.update)
            writer.add_scalar(f"branch_return/{at.job}", at.branch_return, at.update)
            if at.validation is not None:
                writer.add_scalar("validation_reward", at.validation, at.update)
                for world, reward in at.by_world.items():
                    writer.add_scalar(f"validation_reward/{world}", reward, at.update)

        bring_to_end(run, out, tell)


@click.command()
@click.option(
    "--run",
    "run_folder",
    type=click.Path(path_type=Path),
    default=Path("runs/sure"),
    show_default=True,
    help="Folder of the training run.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("policies/models"),
    show_default=True,
    help="Folder that gets the package.",
)
@click.option("--name", default="sure", show_default=True, help="Name of the policy and of its folder.")
@click.option(
    "--scores/--no-scores",
    default=True,
    show_default=True,
    help="Judge the package on the second week and write scores.json (takes minutes).",
)
@click.option(
    "--ranges",
    "only_ranges",
    is_flag=True,
    help="Only fit again where the features of training lay, and write that into the package's card (minutes, no torch).",
)
def export(run_folder: Path, out: Path, name: str, scores: bool, only_ranges: bool) -> None:
    """Export a training run as a model package.

    A package is two ONNX graphs, checked for parity with the trained networks, and a card.
    """
    if only_ranges:
        _complete(out / name)
        return
    need_libraries("onnx", "onnxscript", "onnxruntime")
    import logging

    from surescale.model_export.checkpoints import CHECKPOINT
    from surescale.model_export.export import check_name, export_package
    from surescale.model_export.scores import score_package
    from surescale.model_export.train import resume

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    if not (run_folder / CHECKPOINT).is_file():
        raise SurescaleError(f"--run: there is no training run in {run_folder}; start one with `surescale policy train`")
    check_name(out, name)
    package = export_package(resume(run_folder), out, name)
    click.echo(f"wrote {package}")
    if scores:
        score_package(package, click.echo)


def _complete(folder: Path) -> None:
    """Fit the ranges of a package's features and say how they came out."""
    from rich.progress import Progress

    from surescale.model_export.feature_ranges import complete_card
    from surescale.policies.sure.drift import Ranges

    with Progress() as progress:
        bar = progress.add_task("loops of the training's jobs")
        card = complete_card(folder, lambda done, of: progress.update(bar, completed=done, total=of))
    assert isinstance(card.ranges, Ranges), "just fitted"
    usual = f"{100 * card.ranges.usual:.2g} %"
    click.echo(f"{folder}: of {card.ranges.windows} windows, 99 in 100 have at most {usual} of their features outside the ranges")
