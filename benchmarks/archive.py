"""Research graphs and a load that no package ships; ``reproductions/data/README.md`` says what they may be used for.

Commands take them by path, such as ``reproductions/data/alibaba.csv#j_2521346``; here they are known by name.
"""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from surescale.simulation.load import graphs, jobs, workload
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload

DATA = Path(__file__).parents[1] / "reproductions" / "data"
ARCHIVE = DATA / "alibaba.csv"
TWITTER = "twitter"
_TWITTER_START_MS = 809_568_000_000  # 22 days of August 2021, unknown which ones; scores were made from a Monday of 1995 on


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


@cache
def load_workload(name: str) -> Workload:
    """Return the load ``twitter``, or any other as ``surescale.simulation.load.workload.load_workload`` does."""
    if name != TWITTER:
        return workload.load_workload(name)
    return replace(workload.load_workload(str(DATA / "twitter_2021_minute.csv")), name=TWITTER, trace_start_ms=_TWITTER_START_MS)


def load_job(name: str, load: Workload, load_parallelism: float = jobs.LOAD_PARALLELISM, **sizing: Any) -> SizedJob:
    """Return a job of ``load_graph``, sized as ``surescale.simulation.load.jobs.load_job`` does."""
    return jobs.size_job(load_graph(name), load, load_parallelism, **sizing)
