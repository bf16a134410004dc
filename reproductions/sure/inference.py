"""Time and memory of one decision's network: batch 1, one thread, any number of tasks, any k1. Works without torch."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.archive import load_job
from benchmarks.machine import peak_mebibytes
from reproductions.sure.environment import JOBS
from reproductions.sure.packages import SHIPPED as VARIANTS
from reproductions.sure.packages import Served, served
from reproductions.sure.sweeps import ANCHORS
from surescale.contracts.messages import TaskSpec
from surescale.policies.answer import Float64
from surescale.policies.features import SURE_WIDTH, WIDTH, Encoded
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.paper.models import SubgraphModel
from surescale.policies.registry import SHIPPED
from surescale.simulation.load.workload import load_workload

PACKAGE = SHIPPED / "sure-paper"
RIVAL = VARIANTS / "j_2521346" / "ccrnn"
TARGETS_MS = {6: 3.0, 16: 4.0, 40: 9.0, 46: 12.0}
MEMORY_MAX_MIB = 300.0
LAYER_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Timed:
    """Processor milliseconds of one decision: median and 99th percentile of the whole, medians of sampler and GNN."""

    tasks: int
    anchors: int
    median_ms: float
    p99_ms: float
    sampler_ms: float
    gnn_ms: float


def graph_of(tasks: int) -> JobGraph:
    """Return the graph of the paper's job of this size, or else layers of eight tasks with up to two parents each."""
    for name in JOBS:
        job = load_job(name, load_workload("clarknet"))
        if job.size == tasks:
            return job_graph(job.specs())
    specs = []
    for at in range(tasks):
        first = (at // LAYER_WIDTH - 1) * LAYER_WIDTH
        parents = sorted({first + at % LAYER_WIDTH, first + (3 * at) % LAYER_WIDTH}) if at >= LAYER_WIDTH else []
        specs.append(TaskSpec(task=f"t{at}", upstream=tuple(f"t{parent}" for parent in parents)))
    return job_graph(specs)


def windows(graph: JobGraph, minutes: int, seed: int = 0) -> Encoded:
    """Return one window of random features. The time does not depend on their values."""
    x = np.random.default_rng(seed).normal(size=(1, minutes, len(graph.tasks), WIDTH)).astype(np.float32)
    return Encoded(x=x, mask=np.ones(x.shape[:3], dtype=np.bool_))


def with_anchors(package: Served, anchors: int) -> Served:
    """Return a subgraph package with another number of minutes looked at. The ONNX graphs do not depend on k1."""
    if not isinstance(package.model, SubgraphModel):
        return package
    card = msgspec.structs.replace(package.card, anchors=anchors)
    return Served(card, replace(package.model, card=card))


def timed(package: Served, graph: JobGraph, states: int, anchors: int) -> Timed:
    """Time this many decisions, after three to warm up."""
    minutes = package.card.window_minutes
    model = with_anchors(package, anchors).model
    encoded = [windows(graph, minutes, seed) for seed in range(8)]
    whole = _times(lambda at: model.act(encoded[at % 8], graph, [at]), states)
    middle = 0.0
    if isinstance(model, SubgraphModel):
        sampler = model.sampler
        inputs = [{"x": one.x[..., :SURE_WIDTH], "mask": one.mask.astype(np.float32)} for one in encoded]
        middle = float(np.median(_times(lambda at: sampler.run(None, inputs[at % 8]), states)))
    return Timed(
        tasks=len(graph.tasks),
        anchors=anchors,
        median_ms=float(np.median(whole)),
        p99_ms=float(np.percentile(whole, 99)),
        sampler_ms=middle,
        gnn_ms=float(np.median(whole)) - middle,
    )


def _times(run: Callable[[int], object], states: int) -> Float64:
    found = []
    for at in range(states + 3):
        began = time.process_time()
        run(at)
        found.append((time.process_time() - began) * 1e3)
    return np.array(found[3:])


def peak_mib(tasks: int, folder: Path = PACKAGE) -> float:
    """Return the peak memory of a separate process that opens a package and decides twice for this many tasks."""
    code = f"from reproductions.sure.inference import report_peak; report_peak({tasks}, {str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def report_peak(tasks: int, folder: str) -> None:
    """Print the peak memory of this process in MiB after two decisions."""
    package, graph = served(Path(folder)), graph_of(tasks)
    for seed in range(2):
        package.model.act(windows(graph, package.card.window_minutes, seed), graph, [seed])
    print(json.dumps(peak_mebibytes()))


def growth(package: Served, sizes: Sequence[int], anchors: Sequence[int], states: int) -> list[Timed]:
    """Time every size at k1 = 10, and 40 tasks at every other k1."""
    by_size = [timed(package, graph_of(tasks), max(5, states * 16 // max(16, tasks)), 10) for tasks in sizes]
    by_k1 = [timed(package, graph_of(40), states, k1) for k1 in anchors if k1 != 10]
    return by_size + by_k1


def along_anchors(states: int = 100) -> dict[str, list[float]]:
    """Return median milliseconds of SURE and CCRNN along k1 on Large-1's graph. CCRNN has no k1 and is timed once."""
    graph = graph_of(40)
    sure = [timed(served(PACKAGE), graph, states, anchors).median_ms for anchors in ANCHORS]
    rival = timed(served(RIVAL), graph, max(5, states // 4), 10).median_ms
    return {"SURE": sure, "CCRNN": [rival] * len(ANCHORS)}


def table(found: Sequence[Timed], memory: dict[int, float]) -> str:
    """Return the times as Markdown."""
    lines = [
        "| tasks | k1 | median, ms | p99 | sampler | sampling and GNN | target | peak memory, MiB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        target = f"{TARGETS_MS[one.tasks]:g}" if one.anchors == 10 and one.tasks in TARGETS_MS else ""
        peak = f"{memory[one.tasks]:.0f}" if one.anchors == 10 and one.tasks in memory else ""
        lines.append(
            f"| {one.tasks} | {one.anchors} | {one.median_ms:.1f} | {one.p99_ms:.1f} | {one.sampler_ms:.1f} | "
            f"{one.gnn_ms:.1f} | {target} | {peak} |"
        )
    return "\n".join(lines)
