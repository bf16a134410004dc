"""The packages that ship: ``sure-paper``, trained on one job and served to any, and the variants that the short form judges."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from model_export.checkpoints import CHECKPOINT
from model_export.paper.campaign import Item
from model_export.paper.export import export_run, slug
from model_export.paper.methods import LEARNED
from model_export.paper.results import cells, read_all
from model_export.paper.settings import PaperSettings
from model_export.paper.statistics import fit_statistics
from model_export.paper.train import PaperRun, Torch, begin, best_model, resume, train
from model_export.paper.world import DECISIONS, JOBS, RUNS, follow, offsets, terms_of, week
from simulation.jobs import load_job
from simulation.workload import load_workload

QUICK_JOBS = ("j_2521346",)  # the eight networks of one job are 1.2 MB, whatever its size; a second job would double that
NAME = "sure-paper"
TRAINED_ON = "j_3380530"  # Large-1: of the six runs the only one that serves all six jobs on week 1


def ship_variants(out: Path, folder: Path, tell: Callable[[str], object]) -> None:
    """Write ``folder/<job>/<method>`` of seed 0 in mode ``clean`` for every quick job whose learned variants are all trained."""
    scored = cells(result for result in read_all(out) if result.mode == "clean" and not result.changed and result.seed == 0)
    for job in QUICK_JOBS:
        missing = [method for method in LEARNED if method not in scored.get(job, {})]
        if missing:
            tell(f"{job} is left out: no result of {', '.join(missing)} in {out}")
            continue
        for method in LEARNED:
            run_folder = Item(method, job, "clean", 0).folder(out)
            reward = round(scored[job][method].reward, 4)
            made = export_run(resume(run_folder), folder / job, slug(method), {"week_2": {job: {"reward": reward}}})
            tell(f"wrote {made}")


def ship_sure_paper(out: Path, folder: Path, settings: PaperSettings, tell: Callable[[str], object]) -> None:
    """Write ``folder/sure-paper``, the tables' run of SURE on one job; train it if it is not there or not at its end."""
    run_folder = Item("SURE", TRAINED_ON, "clean", 0).folder(out)
    if (run_folder / CHECKPOINT).is_file():
        run = resume(run_folder)
    else:
        workload = load_workload(settings.workload)
        run = begin(replace(settings, method="SURE", jobs=(TRAINED_ON,), mode="clean"), fit_statistics(workload, "clean"))
    train(run, run_folder, lambda at: tell(f"{NAME}: {at.done:.0%}, best on week 1 {at.best:.4f}"))
    tell(f"wrote {export_run(run, folder, NAME, {'week_2': scores(run)})}")


def scores(run: PaperRun) -> dict[str, dict[str, float]]:
    """Return reward, latency and utilisation of a run on week 2 of every job."""
    workload, terms = load_workload(run.settings.workload), terms_of("clean")
    found = {}
    for name in JOBS:
        judged = week(workload, 2), offsets(RUNS), terms, DECISIONS
        outcome = follow(Torch(best_model(run)), load_job(name, workload), *judged)
        figures = (("reward", outcome.reward), ("latency_minutes", outcome.latency), ("utilisation", outcome.utilisation))
        found[name] = {figure: round(float(np.mean(values)), 4) for figure, values in figures}
    return found
