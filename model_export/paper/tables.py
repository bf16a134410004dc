"""Tables 1 and 2 as Markdown: z as the paper has it, the paper's own figures, and the raw means that z hides.

Peers, which the paper does not have, get rows below the nine variants where they have results, and move no other figure.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from model_export.paper.results import Cell, Result
from model_export.paper.world import JOBS
from model_export.paper.zscores import PEERS, PRINTED, SIZES, VARIANTS, bootstrap, scale, standardised

MINUS = "\N{MINUS SIGN}"


def table_z(cells: Mapping[str, Mapping[str, Cell]], jobs: Sequence[str]) -> str:
    """Return z by method and job, "ours (paper's)"; the mean over jobs last, for both over the jobs shown."""
    zs = {job: standardised({name: cell.reward for name, cell in cells[job].items()}) for job in jobs}
    heads = [JOBS[job] for job in jobs]
    lines = [f"| z: ours (paper's) | {' | '.join(heads)} | Average |", "| --- |" + " ---: |" * (len(jobs) + 1)]
    for name in VARIANTS:
        printed = [PRINTED[name][SIZES.index(head)] for head in heads]
        ours = [zs[job][name] for job in jobs]
        pairs = zip([*ours, float(np.mean(ours))], [*printed, float(np.mean(printed))], strict=True)
        cells_text = " | ".join(f"{signed(a)} ({signed(b)})" for a, b in pairs)
        lines.append(f"| {f'**{name}**' if name == 'SURE' else name} | {cells_text} |")
    for name in peers_in(cells, jobs):
        known = [zs[job][name] for job in jobs if name in cells[job]]
        row = [signed(zs[job][name]) if name in cells[job] else "" for job in jobs]
        lines.append(f"| {name} | {' | '.join(row)} | {signed(float(np.mean(known))) if len(known) == len(jobs) else ''} |")
    return "\n".join(lines)


def peers_in(cells: Mapping[str, Mapping[str, Cell]], jobs: Sequence[str]) -> list[str]:
    """Return the peers that have a result on one of the jobs."""
    return [name for name in PEERS if any(name in cells[job] for job in jobs)]


def words_on_peers(cells: Mapping[str, Mapping[str, Cell]], jobs: Sequence[str]) -> str:
    """Say what the rows of peers are; "" where there are none."""
    names = peers_in(cells, jobs)
    if not names:
        return ""
    return f"Not in the paper and not among the nine, whose mean and deviation they do not shape: {', '.join(names)}."


def table_raw(cells: Mapping[str, Mapping[str, Cell]], jobs: Sequence[str]) -> str:
    """Return raw mean rewards with what they are made of: reward (latency / utilisation / rescales a day)."""
    lines = [f"| reward (latency / utilisation / rescales a day) | {' | '.join(JOBS[job] for job in jobs)} |"]
    lines.append("| --- |" + " ---: |" * len(jobs))
    rows = [(name, [_figures(cells[job].get(name)) for job in jobs]) for name in (*VARIANTS, *peers_in(cells, jobs))]
    rows.insert(len(VARIANTS), ("mean, deviation of the nine", [_scale(cells[job]) for job in jobs]))
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in rows]
    return "\n".join(lines)


def _figures(cell: Cell | None) -> str:
    if cell is None:
        return ""
    made_of = f"{number(cell.latency)} / {cell.utilisation:.2f} / {cell.rescales_per_day:.1f}"
    return f"{signed(cell.reward, 4)}{_interval(cell)} ({made_of})"


def _scale(by_method: Mapping[str, Cell]) -> str:
    mean, deviation = scale({name: by_method[name].reward for name in VARIANTS})
    return f"{signed(mean, 4)}, {deviation:.4f}"


def _interval(cell: Cell) -> str:
    if len(cell.by_seed) < 2:
        return ""
    low, high = bootstrap(cell.by_seed)
    return f" [{signed(low, 3)}, {signed(high, 3)}]"


def table_drawn(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Return mean rewards of policies that draw actions and nodes when judged too; "" where none did."""
    rewards: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if result.drawn:
            rewards.setdefault((result.method, result.job), []).append(float(np.mean(result.drawn)))
    if not rewards:
        return ""
    lines = [f"| reward, actions drawn | {' | '.join(JOBS[job] for job in jobs)} |", "| --- |" + " ---: |" * len(jobs)]
    for name in [name for name in VARIANTS if any((name, job) in rewards for job in jobs)]:
        row = [signed(float(np.mean(rewards[name, job])), 4) if (name, job) in rewards else "" for job in jobs]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines)


def standing(cells: Mapping[str, Mapping[str, Cell]], jobs: Sequence[str]) -> str:
    """Say in words where SURE stands: rank by job, and against whom it loses."""
    zs = {job: standardised({name: cells[job][name].reward for name in VARIANTS}) for job in jobs}
    ranks = {job: 1 + sum(z[other] > z["SURE"] for other in VARIANTS) for job, z in zs.items()}
    first = sum(rank == 1 for rank in ranks.values())
    average = float(np.mean([z["SURE"] for z in zs.values()]))
    ordered = sum(z["SURE"] >= z["w/o MI"] >= z["w/o NVSS"] for z in zs.values())
    alike = sum(z["SURE"] == z["w/o MI"] == z["w/o NVSS"] for z in zs.values())
    places = ", ".join(f"{JOBS[job]} {rank}" for job, rank in ranks.items())
    return (
        f"SURE is first on {first} of {len(jobs)} jobs (rank by job: {places}); Average {signed(average)}. "
        f"SURE >= w/o MI >= w/o NVSS holds on {ordered} of {len(jobs)}"
        + (f", on {alike} of them because all three are equal." if alike else ".")
    )


def signed(value: float, digits: int = 2) -> str:
    """Return a number with a real minus sign."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def number(value: float) -> str:
    """Return a latency with three digits that count."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
