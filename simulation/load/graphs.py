"""Job graphs: shipped, drawn or from a CSV file, with a virtual source and sink.

A graph has no load: ``simulation.load.jobs`` sizes it for a workload.
"""

import csv
import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path

import numpy as np

from surescale.contracts.errors import PATH_SHOWN_MAX, SurescaleError, reason_of
from surescale.contracts.messages import TaskSpec

SOURCE = "source"
SINK = "sink"
TASKS_MAX = 2_000  # of one job
DURATION_S_MIN, DURATION_S_MAX = 1e-9, 1e9  # of a task that takes any time: keeps sums and quotients finite
CYCLE_TOLD = 6  # tasks of a cycle that a message names

DRAWN = "random-"  # and a seed: the name of a graph to draw
SEED_MAX = 2**32 - 1

_COLUMNS = ("job", "task", "upstream", "duration_s")
_STATEFUL = {"yes": True, "no": False}
_SHIPPED = "jobs.csv"


class JobError(SurescaleError):
    """A job cannot be built; the message names file and job, row and column, and the fix."""


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job's tasks in index order: the virtual source first, the listed tasks in their order, the virtual sink last.

    Attributes:
        name: the job's name in its cluster.
        tasks: [N] task names.
        upstream: per task, indices of the tasks it takes records from.
        duration_s: [N] relative service durations; 0 for source and sink.
        stateful: [N] whether the task keeps state.
    """

    name: str
    tasks: tuple[str, ...]
    upstream: tuple[tuple[int, ...], ...]
    duration_s: tuple[float, ...]
    stateful: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Return N, source and sink included."""
        return len(self.tasks)

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return the graph as task specifications with parallelism 1 and no units."""
        last = self.size - 1
        return tuple(
            TaskSpec(
                task=name,
                upstream=tuple(self.tasks[parent] for parent in self.upstream[index]),
                scalable=0 < index < last,
                stateful=self.stateful[index],
            )
            for index, name in enumerate(self.tasks)
        )


@dataclass(frozen=True, slots=True)
class _Row:
    number: int  # in its file
    task: str
    upstream: tuple[str, ...]
    duration_s: float
    stateful: bool


def load_graph(name_or_path: str) -> JobGraph:
    """Return a job by name (``clicks``, or ``random-7`` to draw one), or of a CSV file (``FILE``, or ``FILE#JOB`` of several).

    A file has the columns job, task, upstream (names separated by spaces) and duration_s, and perhaps stateful (yes or no;
    without it a task with several inputs keeps state); other columns are ignored.

    Raises:
        JobError: no such job or file, an unknown upstream, a cycle, or a cell that does not parse.
    """
    if name_or_path in _shipped():
        return build_graph(name_or_path, _shipped()[name_or_path])
    seed = name_or_path.removeprefix(DRAWN)
    if seed != name_or_path and seed.isascii() and seed.isdigit():
        return _drawn(name_or_path, seed)
    path_text, _, wanted = name_or_path.partition("#")
    if _is_file(Path(path_text)):
        return _graph_of_file(Path(path_text), wanted)
    near = difflib.get_close_matches(name_or_path, job_names(), n=3, cutoff=0.6)
    hint = (
        f"; did you mean {' or '.join(near)}?"
        if near
        else f"; {len(job_names())} jobs are shipped, for example clicks; {DRAWN}7 draws one"
    )
    raise JobError(f"job {name_or_path!r} is neither a shipped job nor a CSV file{hint}")


def job_names() -> tuple[str, ...]:
    """Return the names of the shipped jobs, by size, then name."""
    return tuple(sorted(_shipped(), key=lambda name: (len(_shipped()[name]), name)))


def _drawn(name: str, seed: str) -> JobGraph:
    """Return a graph of 4 to 40 tasks, most of them small.

    Each task reads one of the three before it, one in five another task too; service times are lognormal.
    """
    if len(seed) > 10 or int(seed) > SEED_MAX:
        raise JobError(f"job {name[:40]!r}: the seed is too large; give one of 0 to {SEED_MAX}")
    random = np.random.default_rng(int(seed))
    size = round(float(np.exp(random.uniform(np.log(4), np.log(40)))))
    sources = int(random.integers(1, 2 + size // 8))
    tasks = []
    for at in range(size):
        upstream: set[int] = set()
        if at >= sources:
            upstream.add(max(0, at - int(random.integers(1, 4))))
            if random.random() < 0.2:
                upstream.add(int(random.integers(at)))
        seconds = float(f"{1e-4 * np.exp(random.normal(0.0, 0.8)):.2g}")
        keeps_state = len(upstream) > 1 or (bool(upstream) and random.random() < 0.3)
        tasks.append((f"task-{at + 1}", tuple(f"task-{of + 1}" for of in sorted(upstream)), seconds, keeps_state))
    return graph_of_tasks(name, tasks)


@cache
def _shipped() -> dict[str, list[_Row]]:
    with (files("surescale.simulation") / "data" / _SHIPPED).open(encoding="utf-8") as lines:
        return _rows_by_job(lines, _SHIPPED)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as problem:
        raise JobError(f"job {str(path)[:PATH_SHOWN_MAX]!r}: cannot be read ({reason_of(problem)}); name another file") from None


def _graph_of_file(path: Path, wanted: str) -> JobGraph:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            jobs = _rows_by_job(lines, path.name)
    except UnicodeDecodeError:
        raise JobError(f"{path.name}: not a UTF-8 text file; save it as one") from None
    except OSError as problem:
        raise JobError(f"{path}: cannot be read ({reason_of(problem)}); name another file") from None
    except csv.Error as problem:
        raise JobError(f"{path.name}: not a CSV file ({problem}); give one with the columns {', '.join(_COLUMNS)}") from None
    if not jobs:
        raise JobError(f"{path.name}: the file has no tasks; give one row per task")
    if not wanted and len(jobs) > 1:
        raise JobError(f"{path.name} holds {len(jobs)} jobs; name one as {path}#{next(iter(jobs))}")
    name = wanted or next(iter(jobs))
    if name not in jobs:
        raise JobError(f"{path.name} holds no job {name!r}; it has {', '.join(list(jobs)[:5])}")
    try:
        return build_graph(name, jobs[name])
    except JobError as refusal:
        raise JobError(f"{path.name}: {refusal}") from None


def _rows_by_job(lines: Iterable[str], file: str) -> dict[str, list[_Row]]:
    reader = csv.DictReader(lines)
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or [])]
    if missing:
        raise JobError(f"{file}: column {missing[0]} is missing from the first row; it must name {', '.join(_COLUMNS)}")
    jobs: dict[str, list[_Row]] = {}
    for cells in reader:
        at = f"{file}: row {reader.line_num}"
        absent = [column for column in _COLUMNS if cells[column] is None]
        if absent:
            raise JobError(f"{at}, column {absent[0]}: the row ends before it; give all cells, an empty one for no upstream")
        name = cells["job"]
        if not name or "/" in name:
            raise JobError(f"{at}, column job: {name!r} is empty or contains a slash; give another name")
        jobs.setdefault(name, []).append(_row(cells, reader.line_num, at))
    return jobs


def _row(cells: dict[str, str], number: int, at: str) -> _Row:
    task, duration = cells["task"].strip(), cells["duration_s"].strip()
    if not task or task in (SOURCE, SINK):
        raise JobError(f"{at}, column task: {task!r} is empty or a reserved name; give another")
    try:
        duration_s = float(duration)
    except ValueError:
        raise JobError(f"{at}, column duration_s: {duration!r} is not a number; give seconds, 0 or more") from None
    if not (math.isfinite(duration_s) and duration_s >= 0):
        raise JobError(f"{at}, column duration_s: {duration} is not a duration; give seconds, 0 or more")
    if duration_s and not DURATION_S_MIN <= duration_s <= DURATION_S_MAX:
        limits = f"{DURATION_S_MIN:g} to {DURATION_S_MAX:g}"
        raise JobError(f"{at}, column duration_s: {duration} is out of range; give {limits} seconds, or 0 if it takes no time")
    upstream, said = tuple(cells["upstream"].split()), (cells.get("stateful") or "").strip()
    if said and said not in _STATEFUL:
        raise JobError(f"{at}, column stateful: {said[:40]!r} is neither yes nor no; give one of them, or leave the cell empty")
    return _Row(number, task, upstream, duration_s, _STATEFUL.get(said, len(upstream) > 1))


def graph_of_tasks(name: str, tasks: Iterable[tuple[str, tuple[str, ...], float, bool]]) -> JobGraph:
    """Return the graph of tasks with their names, upstream tasks, durations in seconds and whether they keep state.

    Raises:
        JobError: as ``build_graph``; "row" is then the task's place in the list.
    """
    return build_graph(name, [_Row(number, *cells) for number, cells in enumerate(tasks, start=1)])


def build_graph(name: str, rows: list[_Row]) -> JobGraph:
    """Add a virtual source before the tasks without upstream and a virtual sink after the tasks that no task reads.

    Raises:
        JobError: a task is listed twice, an upstream is unknown, the graph has a cycle, or no task takes any time.
    """
    if len(rows) > TASKS_MAX:
        raise JobError(
            f"job {name}: row {rows[TASKS_MAX].number}, column task: task {TASKS_MAX + 1} of {len(rows)}, "
            f"{TASKS_MAX} are allowed; split the job"
        )
    index = {row.task: position for position, row in enumerate(rows, start=1)}
    if len(index) != len(rows):
        twice = next(row for at, row in enumerate(rows) if row.task in {earlier.task for earlier in rows[:at]})
        raise JobError(f"job {name}: row {twice.number}, column task: task {twice.task!r} is listed twice; remove one row")
    for row in rows:
        unknown = [parent for parent in row.upstream if parent not in index]
        if unknown:
            raise JobError(
                f"job {name}: row {row.number}, column upstream: task {row.task!r} waits for {unknown[0]!r}, "
                "which is not a task of the job; add that task or remove it"
            )
    if not any(row.duration_s for row in rows):
        raise JobError(
            f"job {name}: column duration_s: all durations are 0 from row {rows[0].number} on; give some task a duration"
        )
    read = {parent for row in rows for parent in row.upstream}
    inner = [tuple(sorted({index[parent] for parent in row.upstream})) or (0,) for row in rows]
    ends = tuple(index[row.task] for row in rows if row.task not in read)
    _refuse_cycles(name, rows)
    return JobGraph(
        name=name,
        tasks=(SOURCE, *(row.task for row in rows), SINK),
        upstream=((), *inner, ends),
        duration_s=(0.0, *(row.duration_s for row in rows), 0.0),
        stateful=(False, *(row.stateful for row in rows), False),
    )


def _refuse_cycles(job: str, rows: list[_Row]) -> None:
    by_task = {row.task: row for row in rows}
    try:
        TopologicalSorter({row.task: row.upstream for row in rows}).prepare()
    except CycleError as error:
        cycle = [by_task[name] for name in reversed(error.args[1][1:])]
        first = min(range(len(cycle)), key=lambda at: cycle[at].number)
        names = [repr(row.task) for row in cycle[first:] + cycle[:first]]
        more = [f"{len(names) - CYCLE_TOLD} more"] if len(names) > CYCLE_TOLD else []
        told = ", which waits for ".join([*names[1:CYCLE_TOLD], *more, names[0]])
        raise JobError(
            f"job {job}: row {cycle[first].number}, column upstream: the graph has a cycle: {names[0]} waits for {told}; "
            f"remove {names[1 % len(names)]} from the cell, or break the cycle elsewhere"
        ) from None
