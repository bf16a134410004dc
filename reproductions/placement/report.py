"""The paper's comparison as Markdown: every generated table of docs/notebook/placement.md in one text."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.markdown import table
from reproductions.placement.claims import AGREES, CLAIMS, Claim, change
from reproductions.placement.evaluation import AlgorithmResult, compare
from reproductions.placement.paper import (
    COMPARED,
    FIGURE_9_HOSTS,
    JOBS,
    NETWORK,
    RANKING,
    RECORDS_PER_S,
    TIMES_S,
    cluster,
    mean_time_change,
)
from reproductions.placement.sweeps import against_round_robin, gaps, grid, random_clusters, small_instances
from surescale.rescaler.placement.model import ALGORITHMS, PlaceRequest
from surescale.rescaler.placement.problem import problem_of
from surescale.rescaler.placement.solve import place

SEED = 20230601
RANDOM_CLUSTERS = 60
SMALL_INSTANCES = 56
RUN_RECORDS = 10e6
METRIC_WORDS = {
    "cost": "cost",
    "time": "time",
    "std_used": "load deviation",
    "traffic": "traffic",
    "throughput": "throughput",
    "u_cpu": "CPU use",
    "u_memory": "memory use",
}


def percent(share: float) -> str:
    """Return a signed percentage with one digit, without a minus before zero."""
    rounded = round(share * 100, 1) + 0.0
    return f"{rounded:+.1f} %"


def results_by_job() -> dict[str, dict[str, AlgorithmResult]]:
    """Return the results of every algorithm, by job, on the paper's cluster."""
    return {
        job: {each.label: each for each in compare(PlaceRequest("cetsa", cluster(), *JOBS[job], NETWORK), ALGORITHMS)}
        for job in JOBS
    }


def comparison(results: Mapping[str, Mapping[str, AlgorithmResult]] | None = None) -> str:
    """Return the whole report, with links to its plots. Computes ``results`` if they are not given."""
    results = results or results_by_job()
    parts = [ranking_part(), "![Hosts by cost efficiency](figures/placement-ranking.svg)"]
    parts.append("![Figures of five algorithms](figures/placement-figures.svg)")
    for job, by_label in results.items():
        parts += [f"### {job}: {_shape(job)}", figures_part(by_label), times_part(job, by_label)]
    parts += ["### The paper's claims and our figures", "![Claims and our figures](figures/placement-claims.svg)"]
    parts.append(claims_part(results))
    parts += ["### Other sizes and clusters, relative to round robin (median, worst)", sweep_part()]
    parts += [f"### Gap to the true optimum, {SMALL_INSTANCES} random small instances", gap_part()]
    return "\n\n".join(parts) + "\n"


def ranking_part() -> str:
    """Return Table 3's order and Figure 9's hosts, from the shares in docs/notebook/placement.md."""
    request = PlaceRequest("cetsa", cluster(with_history=True), *JOBS["W1"], NETWORK)
    order = [request.hosts[at].id for at in problem_of(request).by_efficiency]
    answer = place(request)
    used = [host.id for host, use in zip(request.hosts, answer.hosts, strict=True) if use.subtasks]
    rows = [
        ["Table 3, hosts by cost efficiency", " ".join(RANKING), " ".join(order), _same(order, RANKING)],
        ["Figure 9, hosts of CETSA", " ".join(FIGURE_9_HOSTS), " ".join(used), _same(used, FIGURE_9_HOSTS)],
    ]
    rent = f"Rent of these hosts: {answer.cost.resource_per_s:.6f} $/s."
    return "### Ranking and hosts\n\n" + table(["", "paper", "ours", ""], rows) + "\n\n" + rent


def _same(ours: Sequence[str], theirs: Sequence[str]) -> str:
    return "equal" if list(ours) == list(theirs) else "differs"


def _shape(job: str) -> str:
    tasks = JOBS[job][0]
    return ", ".join(f"{task.id} x {task.parallelism} ({task.cpu:g} cores, {task.memory:g} GB)" for task in tasks)


def figures_part(results: Mapping[str, AlgorithmResult]) -> str:
    """Return rent, cost, deviation, traffic and utilisation per algorithm."""
    head = ["algorithm", "rent, 1e-3 $/s", "slow-down", "cost, 1e-3 $/s", "weighted cost of 10 M records, $", "S, all hosts",
            "S, used hosts", "traffic, MB/s", "shuffle crossing hosts", "throughput, records/s", "CPU use", "memory use",
            "hosts"]  # fmt: skip
    rows = []
    for label, result in results.items():
        one = result.figures
        error = f" ± {result.rent_error * 1e3:.2f}" if result.rent_error else ""
        run_s = one.time_s(RUN_RECORDS, RECORDS_PER_S)
        weighted = (one.rent + NETWORK.price_per_gb * one.traffic) * run_s / 3
        rows.append(
            [label, f"{one.rent * 1e3:.2f}{error}", f"{one.slow:.3f}", f"{one.cost * 1e3:.2f}", f"{weighted:.3f}",
             f"{one.std:.3f}", f"{one.std_used:.3f}", f"{one.traffic * 1e3:.2f}", f"{one.crossing:.3f}",
             f"{one.throughput * RECORDS_PER_S:.0f}", f"{one.u_cpu:.3f}", f"{one.u_memory:.3f}", f"{one.hosts:.1f}"]
        )  # fmt: skip
    return table(head, rows)


def times_part(job: str, results: Mapping[str, AlgorithmResult]) -> str:
    """Return run times for 1 to 10 million records, ours / the paper's."""
    rows = []
    for million in range(1, 11):
        ours = [results[label].figures.time_s(million * 1e6, RECORDS_PER_S) for label in COMPARED]
        theirs = [TIMES_S[job][label][million - 1] for label in COMPARED]
        rows.append([str(million), *(f"{mine:.0f} / {paper}" for mine, paper in zip(ours, theirs, strict=True))])
    changes = ", ".join(f"{percent(mean_time_change(job, 'lba-ce', other))} against {other}" for other in COMPARED[:-1])
    title = "Seconds by millions of records, ours / the paper's"
    note = f"The paper's LBA-CE, mean of its ten rows: {changes}."
    return f"{title}:\n\n" + table(["million", *COMPARED], rows) + f"\n\n{note}"


def claims_part(results: Mapping[str, Mapping[str, AlgorithmResult]]) -> str:
    """Return every claim with our figure, and a numbered reason where they differ by more than five points."""
    reasons: list[str] = []
    rows = []
    for claim in CLAIMS:
        ours = change(claim, results[claim.job])
        reading = verdict(claim, ours)
        if reading != "met":
            if claim.reason not in reasons:
                reasons.append(claim.reason)
            reading += f" ({reasons.index(claim.reason) + 1})"
        rows.append([claim.job, METRIC_WORDS[claim.metric], f"{claim.algorithm} / {claim.against}", percent(claim.change),
                     percent(ours), reading])  # fmt: skip
    head = ["job", "figure", "compared", "paper", "ours", "reading"]
    return table(head, rows) + "\n\n" + "\n".join(f"{at}. {reason}" for at, reason in enumerate(reasons, 1))


def verdict(claim: Claim, ours: float) -> str:
    """Return whether a claim is met within five points, or at least in its direction."""
    if abs(ours - claim.change) <= AGREES:
        return "met"
    return "same direction" if ours * claim.change > 0 and abs(ours) > AGREES else "not met"


def sweep_part() -> str:
    """Return rent, deviation and slow-down relative to round robin, over two families of instances."""
    families = {
        "paper's cluster, 12-40 subtasks, 0.6-1.05 cores": grid(),
        f"{RANDOM_CLUSTERS} random clusters, three tasks": random_clusters(RANDOM_CLUSTERS, random.Random(SEED)),
    }
    rows = []
    for family, requests in families.items():
        for label, spreads in against_round_robin(requests, ("rent", "std_used", "slow", "crossing")).items():
            rows.append([family, label, *(f"{each.middle:.2f}, {each.worst:.2f}" for each in spreads)])
    return table(["instances", "algorithm", "rent", "S, used hosts", "slow-down", "shuffle crossing hosts"], rows)


def gap_part() -> str:
    """Return the mean and worst gap of every algorithm to the optimum at delta 1, found by enumeration."""
    instances = small_instances(SMALL_INSTANCES, random.Random(SEED))
    rows = [
        [algorithm, percent(gap.mean), percent(gap.worst), f"{gap.placed} of {len(instances)}"]
        for algorithm, gap in gaps(instances).items()
    ]
    hosts = fmean(len(request.hosts) for request, _ in instances)
    note = f"Rent plus communication above the optimum at delta = 1; {hosts:.1f} hosts on average."
    return table(["algorithm", "mean gap", "worst gap", "placed"], rows) + f"\n\n{note}"
