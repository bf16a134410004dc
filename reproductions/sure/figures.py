"""Figures 4 and 5 as data and SVG: sweeps of k1 and lambda, the sampler's attention, embeddings. Works without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.charts import HeatMap, Line, LinePanel, heat_maps, lines, scatter
from reproductions.sure.results import Result
from reproductions.sure.sweeps import ANCHORS, FIGURE_4_JOB, LAMBDAS
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.paper.models import neighbourhood

FIGURE_4_MODE = "clean"


@dataclass(frozen=True, slots=True)
class Attention:
    """The sampler's mean scores for one task over many states.

    Attributes:
        theta: float64 [L], score of each minute as an anchor.
        phi: float64 [L, K], score of each neighbour at each minute.
        hops: int64 [K], distance of each neighbour.
    """

    theta: Float64
    phi: Float64
    hops: Int64

    @property
    def with_time(self) -> float:
        """Return Spearman's rank correlation of theta with the minute; 0 where theta is constant."""
        if np.ptp(self.theta) == 0:
            return 0.0
        from scipy.stats import spearmanr  # importing it takes seconds, as of sklearn below

        return float(spearmanr(self.theta, np.arange(len(self.theta))).statistic)

    @property
    def by_hop(self) -> dict[int, float]:
        """Return the mean phi at every distance."""
        return {int(hop): float(self.phi[:, self.hops == hop].mean()) for hop in np.unique(self.hops)}

    def words(self) -> str:
        """Return both as a sentence."""
        hops = ", ".join(f"{hop}-hop {value:+.2f}" for hop, value in self.by_hop.items())
        return f"Spearman of theta with time {self.with_time:+.2f}; mean phi {hops}"


def attention(mu: Float64, graph: JobGraph, direction: str, task: int = 0) -> Attention:
    """Return a task's attention from logits mu [S, L, N, 2] of many states."""
    table = neighbourhood(graph, direction).neighbours
    near = table.index[task][table.known[task]]
    mean = mu.mean(axis=0)
    return Attention(theta=mean[:, task, 0], phi=mean[:, near, 1], hops=distances(graph, task)[near])


def distances(graph: JobGraph, task: int) -> Int64:
    """Return each task's number of steps from one task along edges; -1 for a task that cannot be reached."""
    found = np.full(len(graph.tasks), -1, dtype=np.int64)
    border, hop = {task}, 0
    while border:
        found[list(border)] = hop
        below = {int(child) for at in border for child in graph.children.index[at][graph.children.known[at]]}
        border, hop = {child for child in below if found[child] < 0}, hop + 1
    return found


def figure_5a(maps: Mapping[str, Attention]) -> str:
    """Return heat maps of Omega for one task: theta in the first column, then neighbours by hop; minutes run downwards."""
    heats = []
    for title, seen in maps.items():
        order = np.argsort(seen.hops, kind="stable")
        table = np.concatenate([seen.theta[:, None], seen.phi[:, order]], axis=1)
        breaks = [(0, "v1")]
        for hop in np.unique(seen.hops):
            breaks.append((1 + int(np.searchsorted(seen.hops[order], hop)), f"{hop}-hop"))
        names = [str(minute + 1) if (minute + 1) % 10 == 0 else "" for minute in range(len(table))]
        heats.append(HeatMap(title, table.tolist(), names, breaks))
    return heat_maps(heats)


def figure_5b(parts: Float64, wholes: Float64, hops: Sequence[int], title: str) -> tuple[str, float, float]:
    """Draw embeddings of subgraphs f(g) [S, N, E] and of the whole graph f(G) [S, E] in the plane, by t-SNE.

    Also return the silhouette by hop of the subgraphs, first in the embeddings' own space, then in the plane. Tasks that the
    first task cannot reach count as a hop of their own.
    """
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    steps, tasks, width = parts.shape
    subgraphs = parts.reshape(steps * tasks, width)
    points = np.concatenate([subgraphs, wholes])
    perplexity = min(30.0, max(5.0, len(points) / 6))
    plane = TSNE(perplexity=perplexity, method="exact", random_state=0).fit_transform(points)
    groups: dict[str, list[tuple[float, float]]] = {}
    for task, hop in enumerate(hops):
        rows = plane[task : steps * tasks : tasks]
        groups.setdefault(f"v1, {hop} hops" if hop else "v1", []).extend((float(a), float(b)) for a, b in rows)
    groups["whole graph"] = [(float(a), float(b)) for a, b in plane[steps * tasks :]]
    labels = list(hops) * steps
    own, flat = (float(silhouette_score(space, labels)) for space in (subgraphs, plane[: steps * tasks]))
    return scatter(title, groups), own, flat


@dataclass(frozen=True, slots=True)
class Sweep:
    """One figure of the results along a swept value: the mean over seeds, and the lowest and highest seed."""

    values: tuple[float | None, ...]
    ends: tuple[tuple[float, float] | None, ...]

    @property
    def line(self) -> Line:
        """Return the line of a chart."""
        return Line(self.values, self.ends)


def sweep(results: Sequence[Result], method: str, names: Sequence[str], figure: str) -> Sweep:
    """Return a figure ("reward", "latency", "utilisation") of a method along settings called ``names``; "" is the tables' own."""
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
    """Return the names of the k1 sweep's results."""
    return tuple("" if anchors == 10 else f"k1-{anchors}" for anchors in ANCHORS)


def names_of_lambdas() -> tuple[str, ...]:
    """Return the names of the lambda sweep's results."""
    return tuple("" if weight == 0.5 else f"lambda-{weight}" for weight in LAMBDAS)


def figure_4(results: Sequence[Result], times_ms: Mapping[str, Sequence[float]]) -> str:
    """Draw the four panels; ``times_ms`` holds each method's median inference times along k1."""
    places, weights = [str(anchors) for anchors in ANCHORS], [str(weight) for weight in LAMBDAS]
    reward = {"SURE": sweep(results, "SURE", names_of_anchors(), "reward").line}
    rival = sweep(results, "CCRNN", ("",), "reward")
    reward["CCRNN"] = Line(rival.values * len(places), rival.ends * len(places))
    panels = [
        LinePanel("(a) Reward", "k1", places, reward),
        LinePanel("(b) Inference time, ms", "k1", places, {name: Line(list(times)) for name, times in times_ms.items()}),
    ]
    for title, figure in (("(c) Latency, minutes", "latency"), ("(d) Utilisation", "utilisation")):
        found = {name: sweep(results, name, names_of_lambdas(), figure).line for name in ("SURE", "CCRNN")}
        panels.append(LinePanel(title, "lambda", weights, found))
    return lines(panels)
