"""Figures 4 and 5 as data and SVG: sweeps of k1 and lambda, the sampler's attention, embeddings. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from model_export.paper.embedding import silhouette, spearman, tsne
from model_export.paper.results import Result
from model_export.paper.svg import Heat, Line, Panel, heat_maps, lines, scatter
from model_export.paper.sweeps import ANCHORS, FIGURE_4_JOB, LAMBDAS
from policies.graph import Int64, JobGraph
from policies.paper.graphs import neighbourhood
from policies.proposal import Float64

FIGURE_4_MODE = "clean"


@dataclass(frozen=True, slots=True)
class Attention:
    """The sampler's mean scores for one task over many states.

    Attributes:
        theta: float64 [L], score of each minute as an anchor. phi: float64 [L, K], of each neighbour at each minute.
        hops: int64 [K], distance of each neighbour. with_time: Spearman's correlation of theta with the minute.
    """

    theta: Float64
    phi: Float64
    hops: Int64

    @property
    def with_time(self) -> float:
        """Return how theta rises with the minute."""
        return spearman(self.theta, np.arange(len(self.theta)))

    @property
    def by_hop(self) -> dict[int, float]:
        """Return the mean phi of every distance."""
        return {int(hop): float(self.phi[:, self.hops == hop].mean()) for hop in np.unique(self.hops)}

    def words(self) -> str:
        """Say both."""
        hops = ", ".join(f"{hop}-hop {value:+.2f}" for hop, value in self.by_hop.items())
        return f"Spearman of theta with time {self.with_time:+.2f}; mean phi {hops}"


def attention(mu: Float64, graph: JobGraph, direction: str, task: int = 0) -> Attention:
    """Return a task's attention from logits mu [S, L, N, 2] of many states."""
    table = neighbourhood(graph, direction).neighbours
    near = table.index[task][table.known[task]]
    mean = mu.mean(axis=0)
    return Attention(theta=mean[:, task, 0], phi=mean[:, near, 1], hops=distances(graph, task)[near])


def distances(graph: JobGraph, task: int) -> Int64:
    """Return each task's steps from one task along edges, -1 where it cannot be reached; 0 for itself."""
    found = np.full(len(graph.tasks), -1, dtype=np.int64)
    border, hop = {task}, 0
    while border:
        found[list(border)] = hop
        below = {int(child) for at in border for child in graph.children.index[at][graph.children.known[at]]}
        border, hop = {child for child in below if found[child] < 0}, hop + 1
    return found


def figure_5a(maps: Mapping[str, Attention]) -> str:
    """Return heat maps of Omega for one task: theta in the first column, neighbours by hop after it, minutes downwards."""
    heats = []
    for title, seen in maps.items():
        order = np.argsort(seen.hops, kind="stable")
        table = np.concatenate([seen.theta[:, None], seen.phi[:, order]], axis=1)
        breaks = [(0, "v1")]
        for hop in np.unique(seen.hops):
            breaks.append((1 + int(np.searchsorted(seen.hops[order], hop)), f"{hop}-hop"))
        names = [str(minute + 1) if (minute + 1) % 10 == 0 else "" for minute in range(len(table))]
        heats.append(Heat(title, table.tolist(), names, breaks))
    return heat_maps(heats)


def figure_5b(parts: Float64, wholes: Float64, hops: Sequence[int], title: str) -> tuple[str, float, float]:
    """Return the picture of subgraph embeddings f(g) [S, N, E] and whole ones f(G) [S, E], and two silhouettes by hop.

    The silhouettes: in the embeddings' own space, and in the plane. Tasks that the first cannot reach are a hop of their own.
    """
    steps, tasks, width = parts.shape
    points = np.concatenate([parts.reshape(steps * tasks, width), wholes])
    plane = tsne(points, perplexity=min(30.0, max(5.0, len(points) / 6)))
    groups: dict[str, list[tuple[float, float]]] = {}
    for task, hop in enumerate(hops):
        rows = plane[task : steps * tasks : tasks]
        groups.setdefault(f"v1, {hop} hops" if hop else "v1", []).extend((float(a), float(b)) for a, b in rows)
    groups["whole graph"] = [(float(a), float(b)) for a, b in plane[steps * tasks :]]
    labels = list(hops) * steps
    first = parts.reshape(steps * tasks, width)
    return scatter(title, groups), silhouette(first, labels), silhouette(plane[: steps * tasks], labels)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Mean and ends (least and largest seed) of one figure of results along a swept value."""

    values: tuple[float | None, ...]
    ends: tuple[tuple[float, float] | None, ...]

    @property
    def line(self) -> Line:
        """Return it as a line of a chart."""
        return Line(self.values, self.ends)


def sweep(results: Sequence[Result], method: str, names: Sequence[str], figure: str) -> Sweep:
    """Return a figure ("reward", "latency", "utilisation") of a method along settings named ``names`` ("" = the tables')."""
    values: list[float | None] = []
    ends: list[tuple[float, float] | None] = []
    for name in names:
        found = [float(np.mean(getattr(result, figure))) for result in chosen(results, method, name)]
        values.append(float(np.mean(found)) if found else None)
        ends.append((min(found), max(found)) if len(found) > 1 else None)
    return Sweep(tuple(values), tuple(ends))


def chosen(results: Sequence[Result], method: str, changed: str) -> list[Result]:
    """Return the results of figure 4's job and mode."""
    return [
        result
        for result in results
        if (result.method, result.changed, result.job, result.mode) == (method, changed, FIGURE_4_JOB, FIGURE_4_MODE)
    ]


def names_of_anchors() -> tuple[str, ...]:
    """Return what results of the k1 sweep are called."""
    return tuple("" if anchors == 10 else f"k1-{anchors}" for anchors in ANCHORS)


def names_of_lambdas() -> tuple[str, ...]:
    """Return what results of the lambda sweep are called."""
    return tuple("" if weight == 0.5 else f"lambda-{weight}" for weight in LAMBDAS)


def figure_4(results: Sequence[Result], times_ms: Mapping[str, Sequence[float]]) -> str:
    """Return the four panels; ``times_ms`` [method] are median inference times along k1."""
    places, weights = [str(anchors) for anchors in ANCHORS], [str(weight) for weight in LAMBDAS]
    reward = {"SURE": sweep(results, "SURE", names_of_anchors(), "reward").line}
    rival = sweep(results, "CCRNN", ("",), "reward")
    reward["CCRNN"] = Line(rival.values * len(places), rival.ends * len(places))
    panels = [
        Panel("(a) Reward", "k1", places, reward),
        Panel("(b) Inference time, ms", "k1", places, {name: Line(list(times)) for name, times in times_ms.items()}),
    ]
    for title, figure in (("(c) Latency, minutes", "latency"), ("(d) Utilisation", "utilisation")):
        found = {name: sweep(results, name, names_of_lambdas(), figure).line for name in ("SURE", "CCRNN")}
        panels.append(Panel(title, "lambda", weights, found))
    return lines(panels)
