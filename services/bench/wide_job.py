"""Graphs wider than any that ships, joined from those that do.

`python -m services.bench.wide_job 998 > wide.csv` writes one as a file for `surescale engine --job wide.csv`.
"""

import csv
import sys
from typing import TextIO

from simulation.graphs import SINK, SOURCE, JobGraph, job_names, load_graph


def wide_graph(tasks: int) -> JobGraph:
    """Return a job of so many real tasks: shipped graphs side by side between one virtual source and one virtual sink.

    The largest come first, in the order of ``job_names`` from its end; when all are used up they begin anew; of the last one only
    its first tasks in topological order of its listing that fit are taken. Task names are prefixed by the number of the part.
    """
    names: list[str] = []
    upstream: list[tuple[int, ...]] = []
    durations: list[float] = []
    stateful: list[bool] = []
    part = 0
    shipped = job_names()[::-1]
    while len(names) < tasks:
        graph = load_graph(shipped[part % len(shipped)])
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
    """Append a graph's real tasks as far as there is room, parents before their children."""
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
    """Write a graph's real tasks in the form that ``simulation.graphs.load_graph`` reads."""
    writer = csv.writer(file)
    writer.writerow(("job", "task", "upstream", "duration_s"))
    for index in range(1, graph.size - 1):
        upstream = " ".join(graph.tasks[parent] for parent in graph.upstream[index] if parent)
        writer.writerow((graph.name, graph.tasks[index], upstream, graph.duration_s[index]))


if __name__ == "__main__":
    write_csv(wide_graph(int(sys.argv[1])), sys.stdout)
