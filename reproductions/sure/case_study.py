"""Data of figure 5, from the run of SURE on Small-1: the source's attention before and after training, and embeddings."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.archive import load_job
from reproductions.sure.checkpoints import CHECKPOINT
from reproductions.sure.environment import View, offsets, start, terms_of, week
from reproductions.sure.figures import Attention, attention, distances
from reproductions.sure.layers import State
from reproductions.sure.sure import PaperSure, subgraph_inputs
from reproductions.sure.train import Torch, begin, best_model, resume
from surescale.policies.answer import Float64
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows

CASE_JOB = "j_2521346"  # Small-1
RUNS, STEPS = 10, 10  # a hundred states


@dataclass(frozen=True, slots=True)
class Case:
    """Figure 5: the source's attention by title, embeddings f(g) [S, N, E] and f(G) [S, E] of ten decisions, hops of tasks."""

    maps: dict[str, Attention]
    parts: Float64
    wholes: Float64
    hops: list[int]


@torch.no_grad()
def case_study(out: Path) -> Case | None:
    """Return figure 5's data; None if the run (mode clean, seed 0) is missing."""
    folder = out / "clean" / CASE_JOB / "sure" / "seed-0"
    if not (folder / CHECKPOINT).is_file():
        return None
    run = resume(folder)
    trained, untrained = best_model(run), begin(run.settings, run.statistics).model
    assert isinstance(trained, PaperSure)
    assert isinstance(untrained, PaperSure)
    workload = load_workload("clarknet")
    job = load_job(CASE_JOB, workload)
    rows = LoopRows(job, week(workload, 2), offsets(RUNS), start(job, RUNS), terms_of("clean"))
    views = []
    for _ in range(STEPS):
        views.append(View(rows.observe(), rows.graph, job, rows.terms))
        rows.step(Torch(trained).sizes(views[-1]))
    networks = {"trained": trained, "untrained": untrained}
    maps = {title: attention(_logits(network, views), rows.graph, "down") for title, network in networks.items()}
    return Case(maps, *_embeddings(trained, views), hops=distances(rows.graph, 0).tolist())


def _logits(model: PaperSure, views: list[View]) -> Float64:
    found = []
    for view in views:
        state = State.of(view.encoded, view.graph)
        found.append(model.sampler(state.x, state.mask)[1].double().numpy())
    return np.concatenate(found)


def _embeddings(model: PaperSure, views: list[View]) -> tuple[Float64, Float64]:
    """Return f(g) and f(G) of the first run's decisions."""
    parts, wholes = [], []
    for view in views:
        state = State.of(view.encoded, view.graph)
        z, mu, _ = model.sampler(state.x, state.mask)
        _, chosen, graph = model.look(mu, state, None)
        embedded = model.policy.embed(*subgraph_inputs(z, chosen))
        whole = model.policy.embed_whole(z, state.mask, torch.from_numpy(graph.linked.astype(np.float32)))
        parts.append(embedded.reshape(len(z), z.shape[2], -1)[0].double().numpy())
        wholes.append(whole[0].double().numpy())
    return np.array(parts), np.array(wholes)
