"""The commands ``surescale train`` and ``surescale export``. Torch is imported only when one of them runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from contracts.errors import SurescaleError

if TYPE_CHECKING:
    from model_export.train import Progressed, Run


class TrainingUnavailable(SurescaleError):
    """A library that only training needs is missing."""


def _need_torch() -> None:
    try:
        import torch
        import torch_geometric  # noqa: F401
    except ImportError as error:
        raise TrainingUnavailable(f"{error.name} is not installed; `make install-train` installs what training needs") from None
    torch.set_num_threads(1)


def device_named(name: str) -> str:
    """Return the device of torch's that an option names; ``auto`` is a GPU if there is one.

    Raises:
        TrainingUnavailable: torch does not know it, or it is not there.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError):
        raise TrainingUnavailable(f"--device {name}: torch finds no such device here; give cpu, or leave it at auto") from None
    return name


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/sure"),
    show_default=True,
    help="Folder of the run.",
)
@click.option(
    "--updates",
    type=click.IntRange(min=1),
    help="Policy updates; the default takes minutes on one core.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    help="Name or CSV file (repeatable; default: both shipped); first weeks count.",
)
@click.option(
    "--job",
    "jobs",
    multiple=True,
    help="Graph to train on (repeatable; default: all shipped ones of 6 to 24 tasks).",
)
@click.option("--resume", "resumes", is_flag=True, help="Go on with the run in --out.")
@click.option(
    "--device", default="auto", show_default=True, help="Where networks run: cpu, cuda, cuda:1 ...; auto: a GPU if there is one."
)
def train(
    out: Path,
    updates: int | None,
    seed: int,
    workloads: tuple[str, ...],
    jobs: tuple[str, ...],
    resumes: bool,
    device: str,
) -> None:
    """Train SURE in the simulator."""
    _need_torch()
    device = device_named(device)
    from model_export.train import CHECKPOINT, TrainSettings, start_run
    from model_export.train import resume as resume_run

    if resumes:
        if not (out / CHECKPOINT).is_file():
            raise SurescaleError(f"--resume: there is no run in {out}; leave the option out to start one")
        run = resume_run(out, device)
    else:
        chosen = {"updates": updates, "jobs": jobs, "workloads": workloads}
        run = start_run(TrainSettings(seed=seed, **{key: value for key, value in chosen.items() if value}), device)
    _train_with_progress(run, out)
    click.echo(f"validation reward {run.best:.4f} (the plan alone {run.rule:.4f}); next: surescale export --run {out}")


def _train_with_progress(run: "Run", out: Path) -> None:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from torch.utils.tensorboard import SummaryWriter

    from model_export.train import train as bring_to_end

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns) as progress,
        SummaryWriter(str(out / "tensorboard")) as writer,
    ):
        bar = progress.add_task("training", total=run.settings.updates, completed=run.update)

        def tell(at: "Progressed") -> None:
            progress.update(
                bar,
                completed=at.update,
                description=f"best {at.best:.4f} (rule {at.rule:.4f})",
            )
            writer.add_scalar("loss", at.loss, at.update)
            writer.add_scalar(f"branch_return/{at.job}", at.branch_return, at.update)
            if at.validation is not None:
                writer.add_scalar("validation_reward", at.validation, at.update)

        bring_to_end(run, out, tell)


@click.command()
@click.option(
    "--run",
    "run_folder",
    type=click.Path(path_type=Path),
    default=Path("runs/sure"),
    show_default=True,
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("policies/models"),
    show_default=True,
)
@click.option(
    "--name",
    default="sure",
    show_default=True,
    help="The package's folder and the policy's name.",
)
@click.option(
    "--scores/--no-scores",
    default=True,
    show_default=True,
    help="Judge the package on the second week (minutes).",
)
def export(run_folder: Path, out: Path, name: str, scores: bool) -> None:
    """Turn a training run into a model package: two ONNX graphs, a parity check and a card."""
    _need_torch()
    import logging

    from model_export.export import export_package
    from model_export.scores import score_package
    from model_export.train import CHECKPOINT, resume

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    if not (run_folder / CHECKPOINT).is_file():
        raise SurescaleError(f"--run: there is no training run in {run_folder}; start one with `surescale train`")
    package = export_package(resume(run_folder), out, name)
    click.echo(f"wrote {package}")
    if scores:
        score_package(package, click.echo)
