"""The short form: the shipped models, judged on stretches of week 2 through onnxruntime. Seconds to a minute, no torch."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model_export.paper.figures import Attention, attention
from model_export.paper.hpa import tuned
from model_export.paper.packages import SHIPPED, Served, shipped
from model_export.paper.results import Cell, Result, cells, fields_of
from model_export.paper.tables import standing, table_raw, table_z
from model_export.paper.world import LATENCY_WEIGHT, View, follow, offsets, start, terms_of, week
from policies.paper.models import SubgraphModel
from simulation.jobs import SizedJob, load_job
from simulation.loop import LoopRows
from simulation.workload import Workload, load_workload

RUNS, DECISIONS = 10, 48
MODE = "clean"
STATES = 100


@dataclass(frozen=True, slots=True)
class Quick:
    """What the short form found."""

    results: tuple[Result, ...]
    cells: dict[str, dict[str, Cell]]
    jobs: tuple[str, ...]
    attention: dict[str, Attention]
    seconds: float

    def markdown(self) -> str:
        """Return tables and words."""
        head = (
            f"Mode {MODE}, lambda {LATENCY_WEIGHT[MODE]}, week 2, {RUNS} offsets of {DECISIONS} hourly decisions; "
            f"one training seed; {self.seconds:.0f} s."
        )
        looks = [f"{job}, v1: {seen.words()}." for job, seen in self.attention.items()]
        parts = [head, table_z(self.cells, self.jobs), table_raw(self.cells, self.jobs), standing(self.cells, self.jobs), *looks]
        return "\n\n".join(parts)


def run(tell: Callable[[str], object]) -> Quick:
    """Judge every job that has shipped models."""
    began = time.monotonic()
    workload, terms = load_workload("clarknet"), terms_of(MODE)
    jobs = tuple(sorted((folder.name for folder in SHIPPED.iterdir()), key=lambda name: load_job(name, workload).size))
    results, looks = [], {}
    for name in jobs:
        job, packages = load_job(name, workload), shipped(name)
        judged = week(workload, 2), offsets(RUNS), terms, DECISIONS
        rule = tuned(job, week(workload, 1), terms, RUNS, DECISIONS)
        results.append(_result("HPA", job, follow(rule, job, *judged), f"target {rule.target}"))
        for method, package in packages.items():
            tell(f"{name}: {method}")
            results.append(_result(method, job, follow(package, job, *judged), ""))
        looks[name] = look(packages["SURE"], job, workload)
    return Quick(tuple(results), cells(results), jobs, looks, time.monotonic() - began)


def _result(method: str, job: SizedJob, outcome: object, note: str) -> Result:
    common = {"method": method, "job": job.name, "tasks": job.size, "mode": MODE, "seed": 0, "note": note}
    return Result(**common, latency_weight=LATENCY_WEIGHT[MODE], **fields_of(outcome))  # type: ignore[arg-type]


def look(package: Served, job: SizedJob, workload: Workload, states: int = STATES) -> Attention:
    """Return what SURE's sampler scores for the source over states of week 2."""
    assert isinstance(package.model, SubgraphModel)
    views = states_of(package, job, workload, states)
    graph = views[0].graph
    logits = [package.model.act(view.encoded, graph, view.seeds).logits for view in views]
    mu = np.concatenate([found for found in logits if found is not None]).astype(np.float64)
    return attention(mu, graph, package.card.direction)


def states_of(package: Served, job: SizedJob, workload: Workload, states: int) -> list[View]:
    """Return views of ten runs on week 2 under a package, ``states`` rows in all."""
    runs, terms = 10, terms_of(MODE)
    rows = LoopRows(job, week(workload, 2), offsets(runs), start(job, runs), terms)
    views = []
    for _ in range(max(1, states // runs)):
        views.append(View(rows.observe(), rows.graph, job, terms))
        rows.step(package.sizes(views[-1]))
    return views
