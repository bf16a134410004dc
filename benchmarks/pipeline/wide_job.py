"""Graphs wider than those of the archive, joined from them.

`python -m benchmarks.pipeline.wide_job 998 > wide.csv` writes one as a file for `surescale run engine --job wide.csv`.
"""

import csv
import sys
from typing import TextIO

from benchmarks.archive import archived, load_graph
from surescale.simulation.load.graphs import SINK, SOURCE, JobGraph


def wide_graph(tasks: int) -> JobGraph:
    """Return a job with this many real tasks: graphs of the archive side by side between one virtual source and one virtual sink.

    The largest graphs come first: they are taken from the end of ``archived``, over again when all are used. The last one is cut
    to its first tasks in topological order. Task names start with the number of their part.
    """
    names: list[str] = []
    upstream: list[tuple[int, ...]] = []
    durations: list[float] = []
    stateful: list[bool] = []
    part = 0
    parts = archived()[::-1]
    while len(names) < tasks:
        graph = load_graph(parts[part % len(parts)])
        _append(graph, part, tasks - len(names), names, upstream, durations, stateful)
        part += 1
    read = {parent for parents in upstream for parent in parents}
    ends = tuple(index for index in range(1, len(names) + 1) if index not in read)
    return JobGraph(
        name=f"wide_{tasks}",
        tasks=(SOURCE, *names, SINK),
        upstream=((), *upstream, ends),
        duration_s=(0.0, *durations, 0.0),
        stateful=(False, *stateful, False),
    )


def _append(
    graph: JobGraph,
    part: int,
    room: int,
    names: list[str],
    upstream: list[tuple[int, ...]],
    durations: list[float],
    stateful: list[bool],
) -> None:
    """Append a graph's real tasks, parents before children, until there is no room left."""
    offset, number = len(names), {0: 0}
    left = list(range(1, graph.size - 1))
    while left and room:
        index = next(index for index in left if all(parent in number for parent in graph.upstream[index]))
        left.remove(index)
        number[index] = offset + len(number)
        names.append(f"{part}.{graph.tasks[index]}")
        upstream.append(tuple(sorted(number[parent] for parent in graph.upstream[index])))
        durations.append(graph.duration_s[index])
        stateful.append(graph.stateful[index])
        room -= 1


def write_csv(graph: JobGraph, file: TextIO) -> None:
    """Write a graph's real tasks in the format that ``simulation.load.graphs.load_graph`` reads."""
    writer = csv.writer(file)
    writer.writerow(("job", "task", "upstream", "duration_s", "stateful"))
    for index in range(1, graph.size - 1):
        upstream = " ".join(graph.tasks[parent] for parent in graph.upstream[index] if parent)
        writer.writerow(
            (graph.name, graph.tasks[index], upstream, graph.duration_s[index], "yes" if graph.stateful[index] else "no")
        )


if __name__ == "__main__":
    write_csv(wide_graph(int(sys.argv[1])), sys.stdout)
