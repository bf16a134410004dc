"""The plots of the placement page, drawn from the same figures as its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.charts import COLOURS, GREY, BarPanel, Pair, bars, pairs
from reproductions.placement.claims import CLAIMS, change
from reproductions.placement.evaluation import AlgorithmResult, Figures
from reproductions.placement.paper import COMPARED, JOBS, NETWORK, SHARES, cluster
from reproductions.placement.report import METRIC_WORDS
from surescale.rescaler.placement import PlaceRequest, place
from surescale.rescaler.placement.problem import problem_of

_PANELS: tuple[tuple[str, Callable[[Figures], float]], ...] = (
    ("cost: rent x slow-down, 1e-3 $/s", lambda one: one.cost * 1e3),
    ("load deviation over used hosts", lambda one: one.std_used),
    ("throughput, 1e3 records/s", lambda one: one.throughput * 60),
    ("CPU use of used hosts, %", lambda one: one.u_cpu * 100),
    ("memory use of used hosts, %", lambda one: one.u_memory * 100),
    ("shuffle that crosses hosts, %", lambda one: one.crossing * 100),
)


def plots(results: Mapping[str, Mapping[str, AlgorithmResult]]) -> dict[str, str]:
    """Return SVG text by file name, from results by job and algorithm."""
    return {
        "placement-ranking.svg": ranking(),
        "placement-figures.svg": figures(results),
        "placement-claims.svg": claims(results),
    }


def ranking() -> str:
    """Draw Table 3 and Figure 9: hosts by cost per share of the records, with those CETSA uses for 20 subtasks highlighted."""
    request = PlaceRequest("cetsa", cluster(with_history=True), *JOBS["W1"], NETWORK)
    hosts = [request.hosts[at] for at in problem_of(request).by_efficiency]
    used = {host.id for host, use in zip(request.hosts, place(request).hosts, strict=True) if use.subtasks}
    cost = {host.id: host.price / SHARES[host.id] * 1e3 for host in hosts}
    values = {
        "used by CETSA (Figure 9)": [cost[host.id] if host.id in used else None for host in hosts],
        "not used": [None if host.id in used else cost[host.id] for host in hosts],
    }
    panel = BarPanel("price per share of the records, 1e-3 $/s (Table 3's order)", [host.id for host in hosts], values)
    return bars([panel], columns=1, colours=(COLOURS[2], GREY), width=640, stacked=True)


def figures(results: Mapping[str, Mapping[str, AlgorithmResult]]) -> str:
    """Draw cost, deviation, throughput, utilisation and traffic of the compared algorithms, for both jobs."""
    panels = []
    for title, figure in _PANELS:
        values: dict[str, Sequence[float | None]] = {
            label: [figure(results[job][label].figures) for job in results] for label in COMPARED
        }
        panels.append(BarPanel(title, list(results), values))
    return bars(panels)


def claims(results: Mapping[str, Mapping[str, AlgorithmResult]]) -> str:
    """Draw every claim of the paper next to the model's figure."""
    rows = [
        Pair(
            f"{claim.job} {METRIC_WORDS[claim.metric]}, {claim.algorithm} / {claim.against}",
            claim.change,
            change(claim, results[claim.job]),
        )
        for claim in CLAIMS
    ]
    return pairs("Change against a baseline: the paper's claim (ring), the model's (dot)", rows)
