"""Graphs and states for the networks of the paper."""

import numpy as np

from reproductions.sure.statistics import Statistics
from surescale.contracts.messages import TaskSpec
from surescale.policies.features import SURE_WIDTH, WIDTH, Encoded
from surescale.policies.graph import JobGraph, job_graph

STATISTICS = Statistics(mean=(0.0,) * SURE_WIDTH, std=(1.0,) * SURE_WIDTH)
CHAIN = {"a": (), "b": ("a",), "c": ("b", "a"), "d": ("c",)}
"""A level for each task, so that every order of tasks has the same visiting order."""


def graph_of(upstream: dict[str, tuple[str, ...]]) -> JobGraph:
    """Return the graph of tasks with these parents."""
    return job_graph([TaskSpec(task=task, upstream=parents) for task, parents in upstream.items()])


def layered(tasks: int, seed: int = 0) -> JobGraph:
    """Return a random graph in which every task but the first has one or two earlier parents."""
    generator = np.random.default_rng(seed)
    specs = [TaskSpec(task="t0")]
    for at in range(1, tasks):
        parents = generator.choice(at, size=min(at, int(generator.integers(1, 3))), replace=False)
        specs.append(TaskSpec(task=f"t{at}", upstream=tuple(f"t{parent}" for parent in sorted(parents))))
    return job_graph(specs)


def states(rows: int, tasks: int, minutes: int = 60, seed: int = 0) -> Encoded:
    """Return random features, all reported."""
    x = np.random.default_rng(seed).normal(size=(rows, minutes, tasks, WIDTH)).astype(np.float32)
    return Encoded(x=x, mask=np.ones(x.shape[:3], dtype=np.bool_))


def padded(encoded: Encoded, more: int) -> Encoded:
    """Return the states with tasks behind them that never reported."""
    x = np.pad(encoded.x, ((0, 0), (0, 0), (0, more), (0, 0)))
    return Encoded(x=x, mask=np.pad(encoded.mask, ((0, 0), (0, 0), (0, more))))
