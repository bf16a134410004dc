"""``surescale dev bench policies`` and ``inference``. Torch is imported only for training, figure 5 and packages."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from benchmarks.machine import conditions, conditions_line
from benchmarks.markdown import read_page, with_part
from benchmarks.report import say
from surescale.contracts.errors import SurescaleError, reason_of
from surescale.runtime import options
from surescale.runtime.atomic_files import write_atomically

if TYPE_CHECKING:
    from reproductions.sure.environment import PaperMode

SEED = 0


class BenchRefused(SurescaleError):
    """The benchmark cannot run as asked; the message says what to do."""


class TrainingUnavailable(SurescaleError):
    """A library that training needs is missing."""


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


@click.command("policies")
@click.option("--quick", is_flag=True, help="Judge the shipped models: at most a minute, without torch.")
@click.option("--train", "trains", is_flag=True, help="First train every model that has no result in --out (needs torch).")
@click.option("--figures", "draws", is_flag=True, help="Also draw figures 4 and 5; with --train, train the models they need.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/paper"), show_default=True, help="Folder of the runs.")
@click.option(
    "--mode", "modes", type=click.Choice(["clean", "compat"]), multiple=True, help="Load model; repeatable (default: both)."
)
@click.option("--job", "jobs", multiple=True, help="One of the paper's six jobs; repeatable (default: all).")
@click.option("--seeds", type=click.IntRange(1, 20), default=5, show_default=True, help="Training seeds.")
@click.option(
    "--budget-s", type=options.FiniteRange(min=1), default=600.0, show_default=True, help="Processor seconds per training."
)
@click.option("--updates", type=click.IntRange(min=1), help="Stop each training after this many updates.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Train with another setting, e.g. estimator=score.")
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Update the tables in this Markdown page, and the plots next to it.",
)
@click.option("--ship", type=click.Path(file_okay=False, path_type=Path), help="Write runs of seed 0 as packages (needs torch).")
@options.as_json
def policies(
    quick: bool,
    trains: bool,
    draws: bool,
    out: Path,
    modes: tuple[PaperMode, ...],
    jobs: tuple[str, ...],
    seeds: int,
    budget_s: float,
    updates: int | None,
    changes: tuple[str, ...],
    page: Path | None,
    ship: Path | None,
    as_json: bool,
) -> None:
    """The tables and figures of the SURE paper next to ours.

    Makes tables 1 and 2, and figures 4 and 5.

    --quick judges the shipped models. Without it, the tables show the results in --out. --train makes those first: one model per
    method, job, mode and seed. It resumes where an earlier run stopped.
    """
    _refuse_idle(quick, trains, ship is not None)
    if quick:
        _judge_shipped(as_json)
        return
    from reproductions.sure.environment import MODES

    chosen_modes, chosen_jobs = tuple(dict.fromkeys(modes or MODES)), _known(jobs)
    if page is not None:
        read_page(page, [*(f"paper-{mode}" for mode in chosen_modes), *(["paper-figures"] if draws else [])])
    if trains:
        _train(out, chosen_modes, chosen_jobs, seeds, budget_s, updates, changes, draws)
    if ship is not None:
        _ship(out, ship, budget_s, updates)
    _show(out, chosen_modes, chosen_jobs, draws, page, as_json)


def _known(jobs: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen jobs, all of them by default.

    Raises:
        BenchRefused: a job is not one of the paper's.
    """
    from reproductions.sure.environment import JOBS

    unknown = sorted(set(jobs) - set(JOBS))
    if unknown:
        raise BenchRefused(f"--job {unknown[0]}: the paper's jobs are {', '.join(JOBS)}")
    return tuple(dict.fromkeys(jobs or JOBS))


def _judge_shipped(as_json: bool) -> None:
    from reproductions.sure import quick

    found = quick.run(say)
    click.echo(_json(found.results) if as_json else f"{conditions_line(conditions(SEED))}\n\n{found.markdown()}")


def _show(out: Path, modes: Sequence[PaperMode], jobs: Sequence[str], draws: bool, page: Path | None, as_json: bool) -> None:
    """Print the tables of the results in a folder, and write them to a page if one is given."""
    from reproductions.sure import report

    results = report.results_of(out, jobs)
    if not results:
        raise BenchRefused(f"there are no results in {out}: add --train (takes hours, needs torch), or use --quick")
    if as_json and page is None:
        click.echo(_json(results))
        return
    texts = report.tables(results, modes, jobs)
    for mode in modes:
        if f"paper-{mode}" not in texts:
            say(f"no tables for mode {mode}: no job in {out} has results of all nine variants yet")
    drawn: dict[str, str] = {}
    if draws:
        texts["paper-figures"], drawn = report.figures(results, out)
    if page is not None:
        _write(page, texts, drawn)
    click.echo(_json(results) if as_json else "\n\n".join([conditions_line(conditions(SEED)), *texts.values()]))


def _refuse_idle(quick: bool, trains: bool, ships: bool) -> None:
    """Refuse options that would have no effect in the chosen form of the command.

    Raises:
        BenchRefused: names the option, and the option it needs or conflicts with.
    """
    context = click.get_current_context()
    given = [name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    spelling = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    beside = [name for name in given if name not in ("quick", "as_json")]
    if quick and beside:
        raise BenchRefused(f"--quick judges the shipped models as they are and takes only --json; drop {spelling[beside[0]]}")
    if "changes" in given and not trains:
        raise BenchRefused("--set changes how policies are trained: add --train, and another folder with --out")
    idle = [name for name in ("seeds", "budget_s", "updates") if name in given and not trains and not (ships and name != "seeds")]
    if idle:
        raise BenchRefused(f"{spelling[idle[0]]} only affects training: add --train or drop it; tables show all results in --out")


def _ship(out: Path, folder: Path, budget_s: float, updates: int | None) -> None:
    need_libraries("onnx", "onnxscript", "onnxruntime")
    import logging

    from reproductions.sure.settings import PaperSettings
    from reproductions.sure.ship import ship_sure_paper, ship_variants

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    ship_variants(out, folder / "variants", say)
    ship_sure_paper(out, folder, PaperSettings("SURE", (), budget_s=budget_s, updates_max=updates), say)


def _train(
    out: Path,
    modes: tuple[PaperMode, ...],
    jobs: tuple[str, ...],
    seeds: int,
    budget_s: float,
    updates: int | None,
    changes: Sequence[str],
    draws: bool,
) -> None:
    need_libraries()
    from reproductions.sure import campaign
    from reproductions.sure.settings import PaperSettings, changed_settings

    wrong = [change for change in changes if "=" not in change]
    if wrong:
        raise BenchRefused(f"--set {wrong[0]}: write NAME=VALUE, such as gnn=gin")
    settings = PaperSettings("SURE", jobs, budget_s=budget_s, updates_max=updates)
    settings = changed_settings(settings, dict(change.split("=", 1) for change in changes))

    make_folder(out)
    items = list(campaign.tables(modes, seeds, jobs))
    if draws:
        items += list(campaign.figure_4(seeds))
    campaign.run_campaign(items, out, settings, say)


def _json(results: Sequence[msgspec.Struct]) -> str:
    return json.dumps([msgspec.to_builtins(result) for result in results], indent=1)


def _write(page: Path, texts: dict[str, str], drawn: dict[str, str]) -> None:
    content = read_page(page, texts)
    for name, text in texts.items():
        content = with_part(content, name, text)
    write_atomically(page, content, option="--page")
    for name, svg in drawn.items():
        write_atomically(page.parent / "figures" / name, svg, option="--page")


@click.command("inference")
@click.option("--package", type=click.Path(path_type=Path), help="Package to time (default: the shipped sure-paper).")
@click.option(
    "--tasks", "sizes", type=click.IntRange(2, 1000), multiple=True, help="Number of tasks; repeatable (default: 6 to 1,000)."
)
@click.option(
    "--states", type=click.IntRange(min=1), default=200, show_default=True, help="Decisions per size; wide jobs get fewer."
)
@options.as_json
def inference(package: Path | None, sizes: tuple[int, ...], states: int, as_json: bool) -> None:
    """Time and memory of one decision's network.

    Measures batch 1 on one thread, for growing numbers of tasks and k1.
    """
    from reproductions.sure import inference as bench
    from reproductions.sure.packages import served
    from reproductions.sure.sweeps import ANCHORS

    folder = package or bench.PACKAGE
    wanted = sizes or (6, 16, 25, 32, 40, 46, 100, 300, 1000)
    found = bench.growth(served(folder), wanted, ANCHORS, states)
    memory = {tasks: bench.peak_mib(tasks, folder) for tasks in {max(wanted), min(wanted)}}
    if as_json:
        document = {"conditions": conditions(SEED), "times": [asdict(one) for one in found], "peak_mib": memory}
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(f"{conditions_line(conditions(SEED))}; processor time, {folder.name}\n\n{bench.table(found, memory)}")
