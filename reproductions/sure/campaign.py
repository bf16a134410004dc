"""The long form: every method on every job, mode and seed, trained on week 1 and judged on week 2. Resumes where it stopped."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.archive import load_job
from reproductions.sure import forecast_rule, results
from reproductions.sure.checkpoints import CHECKPOINT
from reproductions.sure.environment import (
    DECISIONS,
    JOBS,
    LATENCY_WEIGHT,
    RUNS,
    Decider,
    PaperMode,
    PolicyRuns,
    follow,
    offsets,
    terms_of,
    week,
)
from reproductions.sure.export import slug
from reproductions.sure.forecasters import network_of, trained
from reproductions.sure.hpa import tuned
from reproductions.sure.methods import LEARNED
from reproductions.sure.results import Result, Training, result_of
from reproductions.sure.settings import PaperSettings, refuse_other
from reproductions.sure.statistics import Statistics, fit_statistics
from reproductions.sure.sweeps import ANCHORS, FIGURE_4_JOB, LAMBDAS
from reproductions.sure.train import PaperRun, Torch, begin, best_model, resume, train
from reproductions.sure.zscores import PEERS
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.loops.rows import Terms

TUNING_RUNS, TUNING_DECISIONS = 6, 60


@dataclass(frozen=True, slots=True)
class Item:
    """One policy to train and judge. ``changed`` names its difference from the settings of the tables."""

    method: str
    job: str
    mode: PaperMode
    seed: int
    changed: str = ""
    anchors: int = 10
    latency_weight: float | None = None

    def folder(self, root: Path) -> Path:
        """Return the folder of its run."""
        name = slug(self.method) + (f"-{self.changed}" if self.changed else "")
        return root / self.mode / self.job / name / f"seed-{self.seed}"

    def settings(self, common: PaperSettings) -> PaperSettings:
        """Return the common settings with this item's own values."""
        return replace(
            common,
            method=self.method,
            jobs=(self.job,),
            mode=self.mode,
            latency_weight=self.weight,
            seed=self.seed,
            anchors=self.anchors,
        )

    @property
    def weight(self) -> float:
        """Return lambda."""
        return LATENCY_WEIGHT[self.mode] if self.latency_weight is None else self.latency_weight


def tables(modes: tuple[PaperMode, ...], seeds: int, jobs: tuple[str, ...]) -> Iterator[Item]:
    """Yield the items of tables 1 and 2, seed by seed, so each pass completes the tables. HPA and the peers have one seed."""
    for seed in range(seeds):
        for mode in modes:
            for job in jobs:
                if seed == 0:
                    for method in ("HPA", *PEERS):
                        yield Item(method, job, mode, 0)
                for method in LEARNED:
                    yield Item(method, job, mode, seed)


def figure_4(seeds: int) -> Iterator[Item]:
    """Yield the items of figure 4 that the tables lack: k1 and lambda of SURE, lambda of CCRNN, on Large-1 in ``clean``."""
    for seed in range(seeds):
        for anchors in ANCHORS:
            if anchors != 10:
                yield Item("SURE", FIGURE_4_JOB, "clean", seed, f"k1-{anchors}", anchors=anchors)
        for weight in LAMBDAS:
            if weight != LATENCY_WEIGHT["clean"]:
                for method in ("SURE", "CCRNN"):
                    yield Item(method, FIGURE_4_JOB, "clean", seed, f"lambda-{weight}", latency_weight=weight)


def run_campaign(items: list[Item], root: Path, settings: PaperSettings, tell: Callable[[str], object]) -> None:
    """Train and judge every item without a result; ``settings`` gives budget, sizes and steps for all.

    Raises:
        SettingRefused: the folder holds runs with other settings, which must not share a table with these.
    """
    open_items = [item for item in items if not (item.folder(root) / results.FILE).is_file()]
    _refuse_others([item for item in items if item not in open_items], root, settings)
    tell(
        f"{len(items) - len(open_items)} of {len(items)} results exist; {len(open_items)} to go, {estimate(open_items, settings)}"
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
    """Check one finished run of each method, mode and change. Its other jobs and seeds were run with the same settings."""
    samples = {(item.method, item.mode, item.changed): item for item in finished}
    for item in samples.values():
        folder = item.folder(root)
        if (folder / CHECKPOINT).is_file():
            refuse_other(resume(folder).settings, item.settings(settings), folder)


def estimate(items: list[Item], settings: PaperSettings) -> str:
    """Return in words how long items take on a free core: the budget plus a sixth for judging, or a minute for a peer."""
    learned, peers = (sum(item.method in names for item in items) for names in (LEARNED, PEERS))
    return f"about {learned * settings.budget_s * 7 / 6 / 60 + peers:.0f} minutes of one free core"


def make(item: Item, root: Path, settings: PaperSettings, statistics: Statistics) -> Result:
    """Train or tune on week 1 and judge on week 2."""
    workload = load_workload(settings.workload)
    job, terms = load_job(item.job, workload), terms_of(item.mode, item.weight)

    def judged(decider: Decider) -> PolicyRuns:
        return follow(decider, job, week(workload, 2), offsets(RUNS), terms, DECISIONS)

    drawn: PolicyRuns | None = None
    if item.method == "HPA":
        rule = tuned(job, week(workload, 1), terms, TUNING_RUNS, TUNING_DECISIONS)
        runs, training = judged(rule), Training(note=f"target {rule.target}")
    elif item.method in PEERS:
        sizer, training = _by_forecast(item, job, week(workload, 1), terms, settings.hidden, statistics)
        runs = judged(sizer)
    else:
        folder, wanted = item.folder(root), item.settings(settings)
        run = continued(folder, wanted) if (folder / CHECKPOINT).is_file() else begin(wanted, statistics)
        train(run, folder, lambda _: None)
        model, training = best_model(run), Training(run.update, run.seconds, run.best)
        runs = judged(Torch(model))
        if item.mode == "compat":
            drawn = judged(Torch(model, np.random.default_rng(item.seed)))
    return result_of(
        runs,
        job,
        method=item.method,
        mode=item.mode,
        latency_weight=item.weight,
        seed=item.seed,
        changed=item.changed,
        training=training,
        drawn=drawn,
    )


def continued(folder: Path, wanted: PaperSettings) -> PaperRun:
    """Return the run of a folder, to continue with the given budget.

    Raises:
        SettingRefused: it was started with other settings; names the field.
        CheckpointRejected: its checkpoint is damaged.
    """
    run = resume(folder)
    refuse_other(run.settings, wanted, folder)
    return run if run.settings == wanted else resume(folder, budget_s=wanted.budget_s)


def _by_forecast(
    item: Item, job: SizedJob, week_1: Workload, terms: Terms, hidden: int, statistics: Statistics
) -> tuple[forecast_rule.ForecastRule, Training]:
    """Train a forecaster and tune its target; also return what the training took."""
    torch.manual_seed(item.seed)
    found = trained(network_of(item.method, statistics, hidden), job, week_1, terms, item.seed)
    rule, paid = forecast_rule.tuned(found, job, week_1, terms, TUNING_RUNS, TUNING_DECISIONS)
    note = f"target {rule.target}; error {found.error:.4f}, of no change {found.error_unchanged:.4f}"
    return rule, Training(found.updates, found.seconds, paid, note)
