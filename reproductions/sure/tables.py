"""Tables 1 and 2 as Markdown: z as in the paper, the paper's own figures, and the raw means that z hides.

Peers are methods the paper does not have. They get rows below the nine variants and change no other figure.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from reproductions.sure.environment import JOBS
from reproductions.sure.results import MethodScore, Result
from reproductions.sure.zscores import PEERS, PRINTED, SIZES, VARIANTS, bootstrap, scale, standardised

MINUS = "\N{MINUS SIGN}"


def table_z(cells: Mapping[str, Mapping[str, MethodScore]], jobs: Sequence[str]) -> str:
    """Return z by method and job as "ours (paper's)", with the mean over the shown jobs last."""
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


def peers_in(cells: Mapping[str, Mapping[str, MethodScore]], jobs: Sequence[str]) -> list[str]:
    """Return the peers with a result on at least one of the jobs."""
    return [name for name in PEERS if any(name in cells[job] for job in jobs)]


def words_on_peers(cells: Mapping[str, Mapping[str, MethodScore]], jobs: Sequence[str]) -> str:
    """Explain the rows of peers; "" if there are none."""
    names = peers_in(cells, jobs)
    if not names:
        return ""
    return f"Not in the paper, and not counted in the mean and deviation of the nine: {', '.join(names)}."


def table_raw(cells: Mapping[str, Mapping[str, MethodScore]], jobs: Sequence[str]) -> str:
    """Return raw mean rewards with their parts: reward (latency / utilisation / rescales a day)."""
    lines = [f"| reward (latency / utilisation / rescales a day) | {' | '.join(JOBS[job] for job in jobs)} |"]
    lines.append("| --- |" + " ---: |" * len(jobs))
    rows = [(name, [_figures(cells[job].get(name)) for job in jobs]) for name in (*VARIANTS, *peers_in(cells, jobs))]
    rows.insert(len(VARIANTS), ("mean, deviation of the nine", [_scale(cells[job]) for job in jobs]))
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in rows]
    return "\n".join(lines)


def _figures(cell: MethodScore | None) -> str:
    if cell is None:
        return ""
    made_of = f"{number(cell.latency)} / {cell.utilisation:.2f} / {cell.rescales_per_day:.1f}"
    return f"{signed(cell.reward, 4)}{_interval(cell)} ({made_of})"


def _scale(by_method: Mapping[str, MethodScore]) -> str:
    mean, deviation = scale({name: by_method[name].reward for name in VARIANTS})
    return f"{signed(mean, 4)}, {deviation:.4f}"


def _interval(cell: MethodScore) -> str:
    if len(cell.by_seed) < 2:
        return ""
    low, high = bootstrap(cell.by_seed)
    return f" [{signed(low, 3)}, {signed(high, 3)}]"


def table_drawn(results: Sequence[Result], jobs: Sequence[str]) -> str:
    """Return mean rewards of policies judged with drawn actions and nodes; "" if there are none."""
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


def standing(cells: Mapping[str, Mapping[str, MethodScore]], jobs: Sequence[str]) -> str:
    """Return in words where SURE stands: its rank by job, and the order of the ablations."""
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
    """Return a latency with about three significant digits."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
