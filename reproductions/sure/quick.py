"""The short form: judge the shipped models on stretches of week 2 through onnxruntime. At most a minute; works without torch."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.archive import load_job
from reproductions.sure.environment import LATENCY_WEIGHT, PaperMode, PolicyRuns, View, follow, offsets, start, terms_of, week
from reproductions.sure.figures import Attention, attention
from reproductions.sure.hpa import tuned
from reproductions.sure.packages import SHIPPED, Served, shipped
from reproductions.sure.results import MethodScore, Result, Training, method_scores, result_of
from reproductions.sure.tables import standing, table_raw, table_z
from surescale.policies.paper.models import SubgraphModel
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.loops.rows import LoopRows

RUNS, DECISIONS = 10, 48
MODE: PaperMode = "clean"
STATES = 100


@dataclass(frozen=True, slots=True)
class QuickReport:
    """The results of the short form."""

    results: tuple[Result, ...]
    scores: dict[str, dict[str, MethodScore]]
    jobs: tuple[str, ...]
    attention: dict[str, Attention]
    seconds: float

    def markdown(self) -> str:
        """Return the tables, and sentences on the sampler's attention."""
        head = (
            f"Mode {MODE}, lambda {LATENCY_WEIGHT[MODE]}, week 2, {RUNS} offsets of {DECISIONS} hourly decisions; "
            f"one training seed; {self.seconds:.0f} s."
        )
        looks = [f"{job}, v1: {seen.words()}." for job, seen in self.attention.items()]
        parts = [head, table_z(self.scores, self.jobs), table_raw(self.scores, self.jobs), standing(self.scores, self.jobs)]
        return "\n\n".join([*parts, *looks])


def run(tell: Callable[[str], object]) -> QuickReport:
    """Judge every job that has shipped models."""
    began = time.monotonic()
    workload, terms = load_workload("clarknet"), terms_of(MODE)
    jobs = tuple(sorted((folder.name for folder in SHIPPED.iterdir()), key=lambda name: load_job(name, workload).size))
    results, looks = [], {}
    for name in jobs:
        job, packages = load_job(name, workload), shipped(name)
        judged = week(workload, 2), offsets(RUNS), terms, DECISIONS
        rule = tuned(job, week(workload, 1), terms, RUNS, DECISIONS)
        results.append(_result("HPA", job, follow(rule, job, *judged), Training(note=f"target {rule.target}")))
        for method, package in packages.items():
            tell(f"{name}: {method}")
            results.append(_result(method, job, follow(package, job, *judged), Training()))
        looks[name] = look(packages["SURE"], job, workload)
    return QuickReport(tuple(results), method_scores(results), jobs, looks, time.monotonic() - began)


def _result(method: str, job: SizedJob, runs: PolicyRuns, training: Training) -> Result:
    return result_of(runs, job, method=method, mode=MODE, latency_weight=LATENCY_WEIGHT[MODE], training=training)


def look(package: Served, job: SizedJob, workload: Workload, states: int = STATES) -> Attention:
    """Return the scores that SURE's sampler gives around the source, over states of week 2."""
    assert isinstance(package.model, SubgraphModel)
    views = states_of(package, job, workload, states)
    graph = views[0].graph
    logits = [package.model.act(view.encoded, graph, view.seeds).logits for view in views]
    mu = np.concatenate([found for found in logits if found is not None]).astype(np.float64)
    return attention(mu, graph, package.card.direction)


def states_of(package: Served, job: SizedJob, workload: Workload, states: int) -> list[View]:
    """Return the views of ten runs on week 2 under a package, ``states`` rows in total."""
    runs, terms = 10, terms_of(MODE)
    rows = LoopRows(job, week(workload, 2), offsets(runs), start(job, runs), terms)
    views = []
    for _ in range(max(1, states // runs)):
        views.append(View(rows.observe(), rows.graph, job, terms))
        rows.step(package.sizes(views[-1]))
    return views
