"""The long form: every method on every job, mode and seed, trained on week 1 and judged on week 2; goes on where it stopped."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from model_export.checkpoints import CHECKPOINT
from model_export.paper import predicting, results
from model_export.paper.export import slug
from model_export.paper.forecasters import network_of, trained
from model_export.paper.hpa import tuned
from model_export.paper.methods import LEARNED
from model_export.paper.results import Result, fields_of
from model_export.paper.settings import PaperSettings, refuse_other
from model_export.paper.statistics import fit_statistics
from model_export.paper.sweeps import ANCHORS, FIGURE_4_JOB, LAMBDAS
from model_export.paper.train import PaperRun, Torch, begin, best_model, resume, train
from model_export.paper.world import DECISIONS, JOBS, LATENCY_WEIGHT, RUNS, PaperMode, follow, offsets, terms_of, week
from model_export.paper.zscores import PEERS
from policies.package import Statistics
from simulation.jobs import SizedJob, load_job
from simulation.loop import Terms
from simulation.workload import Workload, load_workload

TUNING_RUNS, TUNING_DECISIONS = 6, 60


@dataclass(frozen=True, slots=True)
class Item:
    """One policy to be made and judged; ``changed`` names what differs from the tables' settings."""

    method: str
    job: str
    mode: PaperMode
    seed: int
    changed: str = ""
    anchors: int = 10
    latency_weight: float | None = None

    def folder(self, root: Path) -> Path:
        """Return where its run lives."""
        name = slug(self.method) + (f"-{self.changed}" if self.changed else "")
        return root / self.mode / self.job / name / f"seed-{self.seed}"

    def settings(self, common: PaperSettings) -> PaperSettings:
        """Return what all items have in common with what is this one's own."""
        own = {"method": self.method, "jobs": (self.job,), "mode": self.mode, "seed": self.seed, "anchors": self.anchors}
        return replace(common, latency_weight=self.weight, **own)  # type: ignore[arg-type]

    @property
    def weight(self) -> float:
        """Return lambda."""
        return LATENCY_WEIGHT[self.mode] if self.latency_weight is None else self.latency_weight


def tables(modes: tuple[PaperMode, ...], seeds: int, jobs: tuple[str, ...]) -> Iterator[Item]:
    """Yield what tables 1 and 2 need, seed by seed, so that every pass completes them once; HPA and the peers have one seed."""
    for seed in range(seeds):
        for mode in modes:
            for job in jobs:
                if seed == 0:
                    for method in ("HPA", *PEERS):
                        yield Item(method, job, mode, 0)
                for method in LEARNED:
                    yield Item(method, job, mode, seed)


def figure_4(seeds: int) -> Iterator[Item]:
    """Yield what figure 4 needs besides the tables: k1 and lambda of SURE, lambda of CCRNN, on Large-1 in ``clean``."""
    for seed in range(seeds):
        for anchors in ANCHORS:
            if anchors != 10:
                yield Item("SURE", FIGURE_4_JOB, "clean", seed, f"k1-{anchors}", anchors=anchors)
        for weight in LAMBDAS:
            if weight != LATENCY_WEIGHT["clean"]:
                for method in ("SURE", "CCRNN"):
                    yield Item(method, FIGURE_4_JOB, "clean", seed, f"lambda-{weight}", latency_weight=weight)


def carry_out(items: list[Item], root: Path, settings: PaperSettings, tell: Callable[[str], object]) -> None:
    """Make and judge what has no result yet; ``settings`` gives budget, sizes and steps to all.

    Raises:
        SettingRefused: the folder holds runs of other settings, which must not stand in one table with these.
    """
    open_items = [item for item in items if not (item.folder(root) / results.FILE).is_file()]
    _refuse_others([item for item in items if item not in open_items], root, settings)
    tell(
        f"{len(items) - len(open_items)} of {len(items)} results are there; {len(open_items)} to go, "
        f"{estimate(open_items, settings)}"
    )
    fitted: dict[str, Statistics] = {}
    began = time.monotonic()
    for done, item in enumerate(open_items, start=1):
        if item.mode not in fitted:
            fitted[item.mode] = fit_statistics(load_workload(settings.workload), item.mode)
        result = make(item, root, settings, fitted[item.mode])
        results.write(result, item.folder(root))
        reward = sum(result.reward) / len(result.reward)
        left = (time.monotonic() - began) / done * (len(open_items) - done) / 60
        name = f"{item.method} {item.changed}".strip()
        tell(
            f"{done}/{len(open_items)} {item.mode} {JOBS[item.job]} {name} seed {item.seed}: reward {reward:.4f} after "
            f"{result.updates} updates, {result.train_s:.0f} s; about {left:.0f} minutes left"
        )


def _refuse_others(finished: list[Item], root: Path, settings: PaperSettings) -> None:
    """Look at one finished run of each method, mode and change: those of its other jobs and seeds were made along with it."""
    samples = {(item.method, item.mode, item.changed): item for item in finished}
    for item in samples.values():
        folder = item.folder(root)
        if (folder / CHECKPOINT).is_file():
            refuse_other(resume(folder).settings, item.settings(settings), folder)


def estimate(items: list[Item], settings: PaperSettings) -> str:
    """Say how long items take on a free core: for learning by reward the budget and a sixth for judging, for a peer a minute."""
    learned, peers = (sum(item.method in names for item in items) for names in (LEARNED, PEERS))
    return f"about {learned * settings.budget_s * 7 / 6 / 60 + peers:.0f} minutes of one free core"


def make(item: Item, root: Path, settings: PaperSettings, statistics: Statistics) -> Result:
    """Train or tune on week 1 and judge on week 2."""
    workload = load_workload(settings.workload)
    job, terms = load_job(item.job, workload), terms_of(item.mode, item.weight)
    judged = week(workload, 2), offsets(RUNS), terms, DECISIONS
    common: dict[str, object] = {
        "method": item.method, "job": item.job, "tasks": job.size, "mode": item.mode,
        "latency_weight": item.weight, "seed": item.seed, "changed": item.changed,
    }  # fmt: skip
    if item.method == "HPA":
        rule = tuned(job, week(workload, 1), terms, TUNING_RUNS, TUNING_DECISIONS)
        outcome = follow(rule, job, *judged)
        return Result(**common, note=f"target {rule.target}", **fields_of(outcome))  # type: ignore[arg-type]
    if item.method in PEERS:
        sizer, made = _by_forecast(item, job, week(workload, 1), terms, settings.hidden, statistics)
        return Result(**common, **made, **fields_of(follow(sizer, job, *judged)))  # type: ignore[arg-type]
    folder, wanted = item.folder(root), item.settings(settings)
    run = continued(folder, wanted) if (folder / CHECKPOINT).is_file() else begin(wanted, statistics)
    train(run, folder, lambda _: None)
    model = best_model(run)
    outcome = follow(Torch(model), job, *judged)
    if item.mode == "compat":
        common["drawn"] = fields_of(follow(Torch(model, np.random.default_rng(item.seed)), job, *judged))["reward"]
    made = {"updates": run.update, "train_s": round(run.seconds, 1), "validation": round(run.best, 5)}
    return Result(**common, **made, **fields_of(outcome))  # type: ignore[arg-type]


def continued(folder: Path, wanted: PaperSettings) -> PaperRun:
    """Return the run of a folder, to go on with under the wanted budget.

    Raises:
        SettingRefused: it was begun with other settings; names the field.
        CheckpointRejected: its checkpoint is damaged.
    """
    run = resume(folder)
    refuse_other(run.settings, wanted, folder)
    return run if run.settings == wanted else resume(folder, budget_s=wanted.budget_s)


def _by_forecast(
    item: Item, job: SizedJob, week_1: Workload, terms: Terms, hidden: int, statistics: Statistics
) -> tuple[predicting.Predicting, dict[str, object]]:
    """Train a forecaster and tune its target; also return what goes into the result."""
    torch.manual_seed(item.seed)
    found = trained(network_of(item.method, statistics, hidden), job, week_1, terms, item.seed)
    rule, paid = predicting.tuned(found, job, week_1, terms, TUNING_RUNS, TUNING_DECISIONS)
    note = f"target {rule.target}; error {found.error:.4f}, of no change {found.error_unchanged:.4f}"
    return rule, {"updates": found.updates, "train_s": round(found.seconds, 1), "validation": round(paid, 5), "note": note}
