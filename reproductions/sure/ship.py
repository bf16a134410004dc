"""Write the packages that ship: ``sure-paper``, trained on one job and served to any, and variants for the short form."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.archive import load_graph, load_job
from reproductions.sure.campaign import Item
from reproductions.sure.checkpoints import CHECKPOINT
from reproductions.sure.environment import DECISIONS, RUNS, follow, offsets, terms_of, week
from reproductions.sure.export import export_run, slug
from reproductions.sure.methods import LEARNED
from reproductions.sure.results import method_scores, read_all
from reproductions.sure.settings import PaperSettings
from reproductions.sure.statistics import fit_statistics
from reproductions.sure.train import PaperRun, Torch, begin, best_model, resume, train
from surescale.policies.scores import JobScores, PolicyScore, Scores
from surescale.simulation.load.workload import load_workload

QUICK_JOBS = ("j_2521346",)  # the eight networks of one job take 1.2 MB; a second job would double that
NAME = "sure-paper"
SHIPPED_JOBS = ("clicks", "orders", "delivery", "shop")  # of which statistics and scores are made
TRAINED_ON = "delivery"  # a job of our own: what ships owes nothing to research data


def ship_variants(out: Path, folder: Path, tell: Callable[[str], object]) -> None:
    """Write ``folder/<job>/<method>`` of seed 0, mode ``clean``, for every quick job with all learned variants trained."""
    scored = method_scores(
        result for result in read_all(out) if result.mode == "clean" and not result.changed and result.seed == 0
    )
    for job in QUICK_JOBS:
        missing = [method for method in LEARNED if method not in scored.get(job, {})]
        if missing:
            tell(f"{job} is left out: no result for {', '.join(missing)} in {out}")
            continue
        for method in LEARNED:
            run_folder = Item(method, job, "clean", 0).folder(out)
            reward = round(scored[job][method].reward, 4)
            own = scores_of(slug(method), {job: PolicyScore(reward=reward)})
            tell(f"wrote {export_run(resume(run_folder), folder / job, own.policy, own)}")


def ship_sure_paper(out: Path, folder: Path, settings: PaperSettings, tell: Callable[[str], object]) -> None:
    """Write ``folder/sure-paper``, SURE as in the tables, on a job of our own. Train it first if it is missing or unfinished."""
    run_folder = Item("SURE", TRAINED_ON, "clean", 0).folder(out)
    if (run_folder / CHECKPOINT).is_file():
        run = resume(run_folder)
    else:
        workload = load_workload(settings.workload)
        run = begin(
            replace(settings, method="SURE", jobs=(TRAINED_ON,), mode="clean"),
            fit_statistics(workload, "clean", jobs=SHIPPED_JOBS),
        )
    train(run, run_folder, lambda at: tell(f"{NAME}: {at.done:.0%}, best on week 1 {at.best:.4f}"))
    tell(f"wrote {export_run(run, folder, NAME, scores_of(NAME, judged(run)))}")


def scores_of(name: str, found: Mapping[str, PolicyScore]) -> Scores:
    """Return a package's scores from its own on each job."""
    jobs = {job: JobScores(tasks=load_graph(job).size, policies={name: score}) for job, score in found.items()}
    return Scores(policy=name, terms={"workload": "clarknet", "week": 2}, jobs=jobs)


def judged(run: PaperRun) -> dict[str, PolicyScore]:
    """Return reward, latency and utilisation of a run on week 2 of some shipped jobs."""
    workload, terms = load_workload(run.settings.workload), terms_of("clean")
    found = {}
    for name in SHIPPED_JOBS:
        outcome = follow(Torch(best_model(run)), load_job(name, workload), week(workload, 2), offsets(RUNS), terms, DECISIONS)
        figures = (outcome.reward, outcome.latency, outcome.utilisation)
        reward, latency, utilisation = (round(float(np.mean(values)), 4) for values in figures)
        found[name] = PolicyScore(reward=reward, latency_minutes=latency, utilisation=utilisation)
    return found
