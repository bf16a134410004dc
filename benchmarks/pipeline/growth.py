"""How the freshness of windows grows with the number of tasks and of jobs, as fitted exponents."""

import math
from collections.abc import Callable, Mapping

from benchmarks.pipeline.fleet import Fleet
from benchmarks.report import BenchFailed, Document

SUBTASKS = 3
SIZES = {  # (jobs, tasks of each)
    "tasks": ((1, 10), (5, 20), (50, 20), (500, 20)),
    "jobs": ((1, 10), (10, 10), (100, 10), (1_000, 10)),
}
FIGURES = ("p50", "p99", "p99_9")


def growth(measure: Callable[[Fleet], Document], seed: int) -> Document:
    """Measure fleets of growing size, and fit freshness = a x size ** exponent along each axis.

    Args:
        measure: returns the freshness of a fleet's windows in seconds, as ``FIGURES`` and ``windows``.
        seed: of the fleets.

    Raises:
        BenchFailed: a fleet got no window.
    """
    wanted = sorted({size for sizes in SIZES.values() for size in sizes}, key=lambda size: size[0] * size[1])
    found: dict[tuple[int, int], Document] = {}
    for jobs, tasks in wanted:
        found[jobs, tasks] = measure(Fleet(jobs, tasks, SUBTASKS, seed, name=f"bench-{jobs}x{tasks}-"))
        if not found[jobs, tasks]["windows"]:
            raise BenchFailed(f"{jobs} jobs of {tasks} tasks got no window: measure for longer")
    report: Document = {f"{jobs:,} jobs of {tasks} tasks": figures for (jobs, tasks), figures in found.items()}
    for axis, sizes in SIZES.items():
        by_size = {jobs * tasks if axis == "tasks" else jobs: found[jobs, tasks] for jobs, tasks in sizes}
        report[f"exponent by {axis}"] = {
            name: round(exponent({size: figures[name] for size, figures in by_size.items()}), 2) for name in FIGURES
        }
    return report


def exponent(values: Mapping[int, float]) -> float:
    """Return the slope of a line fitted to log(value) over log(size): 0 does not grow, 1 grows as the size does."""
    sizes = [math.log(size) for size in values]
    logs = [math.log(value) for value in values.values()]
    mean_size, mean_log = sum(sizes) / len(sizes), sum(logs) / len(logs)
    spread = sum((size - mean_size) ** 2 for size in sizes)
    return sum((size - mean_size) * (log - mean_log) for size, log in zip(sizes, logs, strict=True)) / spread
