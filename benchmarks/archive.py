"""The archive of research graphs, which no package ships; ``reproductions/data/README.md`` says what they may be used for.

Commands take its jobs by path, ``reproductions/data/alibaba.csv#j_2521346``; here they are known by name.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Any

from surescale.simulation.load import graphs, jobs
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload

ARCHIVE = Path(__file__).parents[1] / "reproductions" / "data" / "alibaba.csv"


@cache
def archived() -> tuple[str, ...]:
    """Return the names of the archive's jobs, by size, then name."""
    with ARCHIVE.open(encoding="utf-8") as lines:
        names = [row["job"] for row in csv.DictReader(lines)]
    return tuple(sorted(set(names), key=lambda name: (names.count(name), name)))


def where(name: str) -> str:
    """Return how a command is told a job of the archive; any other name as it is."""
    return f"{ARCHIVE}#{name}" if name in archived() else name


@cache
def load_graph(name: str) -> JobGraph:
    """Return a job of the archive by name, or any other as ``surescale.simulation.load.graphs.load_graph`` does."""
    return graphs.load_graph(where(name))


def load_job(name: str, workload: Workload, load_parallelism: float = jobs.LOAD_PARALLELISM, **sizing: Any) -> SizedJob:
    """Return a job of ``load_graph``, sized as ``surescale.simulation.load.jobs.load_job`` does."""
    return jobs.size_job(load_graph(name), workload, load_parallelism, **sizing)
