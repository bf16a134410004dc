"""``surescale bench policies`` and ``surescale bench inference``. Torch is imported only to train."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from contracts.errors import SurescaleError, reason_of
from model_export.commands import make_folder, need_libraries
from runtime.options import FiniteRange
from runtime.whole_files import write_whole

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"


class BenchRefused(SurescaleError):
    """The benchmark cannot run as asked; the message says what to do."""


@click.command("policies")
@click.option("--quick", is_flag=True, help="Judge the shipped models: a minute at most, no torch.")
@click.option("--train", "trains", is_flag=True, help="Train what has no result in --out yet (torch), then make the tables.")
@click.option("--figures", "draws", is_flag=True, help="Also make figures 4 and 5; with --train, train what they need.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/paper"), show_default=True, help="Folder of the runs.")
@click.option("--mode", "modes", type=click.Choice(["clean", "compat"]), multiple=True, help="Repeatable; default: both.")
@click.option("--job", "jobs", multiple=True, help="Job of the paper's six (repeatable; default: all).")
@click.option("--seeds", type=click.IntRange(1, 20), default=5, show_default=True, help="Training seeds.")
@click.option("--budget-s", type=FiniteRange(min=1), default=600.0, show_default=True, help="Processor seconds per training.")
@click.option("--updates", type=click.IntRange(min=1), help="End a training after so many updates, the same for every method.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Train with another setting, e.g. estimator=score.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="Page that gets the tables; plots go beside it.")
@click.option("--ship", type=click.Path(file_okay=False, path_type=Path), help="Write runs of seed 0 as packages (torch).")
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
def policies(
    quick: bool,
    trains: bool,
    draws: bool,
    out: Path,
    modes: tuple[str, ...],
    jobs: tuple[str, ...],
    seeds: int,
    budget_s: float,
    updates: int | None,
    changes: tuple[str, ...],
    write: Path | None,
    ship: Path | None,
    as_json: bool,
) -> None:
    """Make tables 1 and 2 and figures 4 and 5 of the SURE paper, ours beside the paper's.

    --quick judges shipped models. Without it the tables are made of the results in --out; --train makes them first, one model per
    method, job, mode and seed, and goes on where an earlier run stopped.
    """
    _refuse_idle(quick, trains, ship is not None)
    if quick:
        from model_export.paper import quick as short

        found = short.run(lambda line: click.echo(line, err=True))
        click.echo(_json(found.results) if as_json else f"{machine()}\n\n{found.markdown()}")
        return
    from model_export.paper import report

    chosen_modes, chosen_jobs = (tuple(dict.fromkeys(found)) for found in (modes or ("clean", "compat"), jobs or report.ALL_JOBS))
    unknown = sorted(set(chosen_jobs) - set(report.ALL_JOBS))
    if unknown:
        raise BenchRefused(f"--job {unknown[0]}: the paper's jobs are {', '.join(report.ALL_JOBS)}")
    if write is not None:
        _check_page(write, [*(f"paper-{mode}" for mode in chosen_modes), *(["paper-figures"] if draws else [])])
    if trains:
        _train(out, chosen_modes, chosen_jobs, seeds, budget_s, updates, changes, draws)
    if ship is not None:
        _ship(out, ship, budget_s, updates)
    results = report.results_of(out, chosen_jobs)
    if not results:
        raise BenchRefused(f"there are no results in {out}: add --train (hours, torch), or use --quick")
    if as_json and write is None:
        click.echo(_json(results))
        return
    texts = report.tables(results, chosen_modes, chosen_jobs)
    for mode in chosen_modes:
        if f"paper-{mode}" not in texts:
            click.echo(f"no tables of mode {mode}: no job in {out} has results of all nine variants yet", err=True)
    drawn: dict[str, str] = {}
    if draws:
        texts["paper-figures"], drawn = report.figures(results, out)
    if write is not None:
        _write(write, texts, drawn)
    click.echo(_json(results) if as_json else "\n\n".join([machine(), *texts.values()]))


def _refuse_idle(quick: bool, trains: bool, ships: bool) -> None:
    """Refuse options that the form asked for would not look at.

    Raises:
        BenchRefused: names the option, and the one that it needs or does not go with.
    """
    context = click.get_current_context()
    given = [name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    beside = [name for name in given if name not in ("quick", "as_json")]
    if quick and beside:
        raise BenchRefused(
            f"--quick judges the shipped models as they are and goes with --json alone; leave {options[beside[0]]} out"
        )
    if "changes" in given and not trains:
        raise BenchRefused("--set changes how policies are trained: add --train, and a folder of its own by --out")
    idle = [name for name in ("seeds", "budget_s", "updates") if name in given and not trains and not (ships and name != "seeds")]
    if idle:
        raise BenchRefused(
            f"{options[idle[0]]} shapes a training: add --train, or leave it out; tables show all results in --out"
        )


def _ship(out: Path, folder: Path, budget_s: float, updates: int | None) -> None:
    need_libraries("onnx", "onnxscript", "onnxruntime")
    import logging

    from model_export.paper.settings import PaperSettings
    from model_export.paper.shipping import ship_sure_paper, ship_variants

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    ship_variants(out, folder / "variants", lambda line: click.echo(line, err=True))
    ship_sure_paper(
        out, folder, PaperSettings("SURE", (), budget_s=budget_s, updates_max=updates), lambda line: click.echo(line, err=True)
    )


def _train(
    out: Path,
    modes: Sequence[str],
    jobs: Sequence[str],
    seeds: int,
    budget_s: float,
    updates: int | None,
    changes: Sequence[str],
    draws: bool,
) -> None:
    need_libraries()
    from model_export.paper import campaign
    from model_export.paper.settings import PaperSettings, changed_settings

    wrong = [change for change in changes if "=" not in change]
    if wrong:
        raise BenchRefused(f"--set {wrong[0]}: write NAME=VALUE, such as gnn=gin")
    settings = PaperSettings("SURE", tuple(jobs), budget_s=budget_s, updates_max=updates)
    settings = changed_settings(settings, dict(change.split("=", 1) for change in changes))

    make_folder(out)
    items = list(campaign.tables(tuple(modes), seeds, tuple(jobs)))  # type: ignore[arg-type]
    if draws:
        items += list(campaign.figure_4(seeds))
    campaign.carry_out(
        items,
        out,
        settings,
        lambda line: click.echo(line, err=True),
    )


def _json(results: Sequence[msgspec.Struct]) -> str:
    return json.dumps([msgspec.to_builtins(result) for result in results], indent=1)


def _check_page(page: Path, names: Sequence[str]) -> None:
    """Refuse before the work a page that is not there, or lacks the lines that the texts stand between.

    Raises:
        BenchRefused: names the page and the lines.
    """
    try:
        content = page.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchRefused(f"--write: {page} cannot be read ({reason_of(error)}); name a page that is there") from None
    for name in names:
        if END.format(name) not in content.partition(BEGIN.format(name))[2]:
            raise BenchRefused(f"--write: {page} needs the lines {BEGIN.format(name)} and {END.format(name)}")


def _write(page: Path, texts: dict[str, str], drawn: dict[str, str]) -> None:
    content = page.read_text(encoding="utf-8")
    for name, text in texts.items():
        before, _, rest = content.partition(BEGIN.format(name))
        after = rest.partition(END.format(name))[2]
        content = f"{before}{BEGIN.format(name)}\n\n{text}\n\n{END.format(name)}{after}"
    write_whole(page, content, option="--write")
    for name, svg in drawn.items():
        write_whole(page.parent / "figures" / name, svg, option="--write")


def machine() -> str:
    """Return what the figures were measured on, load included."""
    model = platform.processor() or platform.machine()
    try:
        found = [line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        model = found[0].split(":", 1)[1].strip() if found else model
    except OSError:
        pass
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} cores, load average {load:.1f}, Python {platform.python_version()}, seed 0"


@click.command("inference")
@click.option("--package", type=click.Path(path_type=Path), help="Package to time (default: the shipped sure-paper).")
@click.option("--tasks", "sizes", type=click.IntRange(2, 1000), multiple=True, help="Repeatable; default: 6 to 1,000.")
@click.option(
    "--states", type=click.IntRange(min=1), default=200, show_default=True, help="Decisions per size; fewer for wide jobs."
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def inference(package: Path | None, sizes: tuple[int, ...], states: int, as_json: bool) -> None:
    """Time one decision's network, batch 1 on one thread: growth with the number of tasks and with k1, and peak memory."""
    from model_export.paper import inference as bench
    from model_export.paper.packages import served
    from model_export.paper.sweeps import ANCHORS

    folder = package or bench.PACKAGE
    wanted = sizes or (6, 16, 25, 32, 40, 46, 100, 300, 1000)
    found = bench.growth(served(folder), wanted, ANCHORS, states)
    memory = {tasks: bench.peak_mib(tasks, folder) for tasks in {max(wanted), min(wanted)}}
    if as_json:
        document = {"machine": machine(), "times": [asdict(one) for one in found], "peak_mib": memory}
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(f"{machine()}; processor time, {folder.name}\n\n{bench.table(found, memory)}")
