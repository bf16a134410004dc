"""Reads the file that says which jobs Prometheus knows, which tasks they have, and which expression gives which figure.

[orders]                                    # a job
mapping = "flink"                           # expressions that are ready; without it, all figures are given below
select = 'job_name="orders"'                # more matchers, for every expression of the mapping
mode = "advise"                             # act, advise or observe; settings of the job win
limits = {max = 12, utilisation = 0.6}      # labels of the job: any option of `surescale job set`, without the dashes
fresh_s = 120                               # older figures count as unknown

[orders.tasks.parse]
series = "Source: parse"                    # how its series call it; the task's name, if left out
[orders.tasks.count]
upstream = ["parse"]                        # or reads and writes, topics: whoever reads what another one writes comes after it
max_parallelism = 64

[orders.figures]
queued = 'parser_waiting{task_name=~"$tasks"}'
busy = { query = 'parser_busy_seconds_total', task = "stage", subtask = ["pod"], over = ["thread"], unit = "s" }
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.job_labels import written
from surescale.contracts.job_settings import Mode
from surescale.contracts.messages import Parallelism, PlainName, TaskSpec, Text
from surescale.contracts.topology import topological_order
from surescale.engines.prometheus.mappings import MAPPINGS, TIMES, Figure, FigureName, JoinedBy, Label, Mapping, MappingName
from surescale.engines.settings_file import SettingsFile

SETTING = "SURESCALE_PROMETHEUS_FILE"
_FILE = SettingsFile(SETTING, "docs/prometheus.md")
MAX_PARALLELISM = 10_000
_OWN = Mapping("task", (), "buffers")
_WORD = re.compile(r"\$([a-z]+)")
Topics = tuple[Annotated[str, Meta(min_length=1, max_length=249)], ...]


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task of a job. ``reads`` and ``writes`` are topics."""

    series: str = ""
    upstream: tuple[Text, ...] = ()
    reads: Topics = ()
    writes: Topics = ()
    max_parallelism: Parallelism = MAX_PARALLELISM
    useful_max: Parallelism | None = None
    stateful: bool = False
    scalable: bool = True
    sharing_group: Text | None = None


class _Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[dict[Text, Task], Meta(min_length=1, max_length=1_000)]
    figures: dict[FigureName, str | Figure] = {}
    mapping: MappingName | None = None
    select: str = ""
    task: Label | None = None
    subtask: tuple[Label, ...] | None = None
    joined_by: JoinedBy | None = None
    fresh_s: Annotated[float, Meta(gt=0, le=3_600)] = 120.0
    mode: Mode | None = None
    limits: dict[str, str | int | float | bool] = {}


@dataclass(frozen=True, slots=True)
class WatchedJob:
    """One job. ``figures`` are as they are asked for: filled in, with all labels; ``labels`` of the job: its mode and limits."""

    name: str
    tasks: dict[str, Task]
    figures: dict[FigureName, Figure]
    joined_by: JoinedBy = "buffers"
    fresh_ms: int = 120_000
    labels: dict[str, str] = field(default_factory=dict)
    _upstream: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _followed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work out once, for all tasks together, which come before which: jobs may have a thousand."""
        writers: dict[str, set[str]] = {}
        for task, spec in self.tasks.items():
            for topic in spec.writes:
                writers.setdefault(topic, set()).add(task)
        places = {task: place for place, task in enumerate(self.tasks)}
        found: dict[str, tuple[str, ...]] = {}
        for task, spec in self.tasks.items():
            before = {*spec.upstream}.union(*(writers.get(topic, ()) for topic in spec.reads)) - {task}
            found[task] = tuple(sorted(before & places.keys(), key=places.__getitem__))
        object.__setattr__(self, "_upstream", found)
        object.__setattr__(self, "_followed", frozenset(chain.from_iterable(found.values())))

    def series_of(self, task: str) -> str:
        """Return how the series call a task."""
        return self.tasks[task].series or task

    def upstream(self, task: str) -> tuple[str, ...]:
        """Return the tasks right before a task, in the order of the file. Topics it writes itself do not count."""
        return self._upstream[task]

    def is_last(self, task: str) -> bool:
        """Return whether no task comes after a task."""
        return task not in self._followed

    def tasks_by_name(self, figure: Figure) -> dict[str, list[str]]:
        """Return which tasks a figure's label names: the one of that name, or those that read or write that topic."""
        found: dict[str, list[str]] = {}
        for task, spec in self.tasks.items():
            names = (self.series_of(task),) if figure.names == "task" else getattr(spec, figure.names)
            for name in dict.fromkeys(names):
                found.setdefault(name, []).append(task)
        return found


def read_jobs(path: Path) -> dict[str, WatchedJob]:
    """Return the jobs of a file by name.

    Raises:
        SettingsError: it cannot be read or is invalid; names the field and the fix in one line.
    """
    jobs = _FILE.read(path, dict[PlainName, _Job])
    return {name: _watched(name, job, f"{_FILE.at(path)}: {name}") for name, job in jobs.items()}


def _watched(name: str, job: _Job, where: str) -> WatchedJob:
    mapping = MAPPINGS[job.mapping] if job.mapping is not None else _OWN
    given = {figure: Figure(each) if isinstance(each, str) else each for figure, each in job.figures.items()}
    bare = WatchedJob(name, job.tasks, {}, job.joined_by or mapping.joined_by, round(job.fresh_s * 1000))
    _check_tasks(bare, where)
    labels = written(job.mode, job.limits, f"{where}.limits")
    figures: dict[FigureName, Figure] = {}
    for figure, asked in {**mapping.figures, **given}.items():
        at = f"{where}.figures.{figure}"
        if figure not in TIMES and asked.unit != "s":
            raise SettingsError(f"{at}.unit: only {', '.join(TIMES)} have one; leave it out")
        query = _filled_in(bare, asked.query, job.select, at)
        if query is None:
            if figure in given:
                raise SettingsError(f"{at}: no task has the topics that it asks for; give tasks reads and writes")
            continue
        task = asked.task or job.task or mapping.task
        subtask = asked.subtask if asked.subtask is not None else job.subtask if job.subtask is not None else mapping.subtask
        if figure == "parallelism":
            subtask = ()
        figures[figure] = replace(asked, query=query, task=task, subtask=subtask)
    watched = WatchedJob(name, job.tasks, figures, bare.joined_by, bare.fresh_ms, labels)
    _check_figures(watched, where)
    return watched


def _filled_in(job: WatchedJob, query: str, select: str, where: str) -> str | None:
    """Return an expression with names in place of words; None if it asks for topics and the tasks have none."""
    topics = {name: {topic for task in job.tasks.values() for topic in getattr(task, name)} for name in ("reads", "writes")}
    words = {
        "tasks": _any_of(job.series_of(task) for task in job.tasks),
        "reads": _any_of(sorted(topics["reads"])),
        "writes": _any_of(sorted(topics["writes"])),
        "select": f",{select.strip().strip(',')}" if select.strip() else "",
    }
    used = _WORD.findall(query)
    for word in used:
        if word not in words:
            raise SettingsError(f"{where}: ${word} is unknown; only ${', $'.join(words)} can be filled in")
    if any(word in topics and not topics[word] for word in used):
        return None
    return _WORD.sub(lambda found: words[found[1]], query)


def _any_of(names: Iterable[str]) -> str:
    """Return a regular expression of names, for the inside of a quoted string of PromQL."""
    alternatives = "|".join(re.escape(name) for name in names)
    return alternatives.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _check_tasks(job: WatchedJob, where: str) -> None:
    called: dict[str, str] = {}
    writer: dict[str, str] = {}
    for task, spec in job.tasks.items():
        at = f"{where}.tasks.{task}"
        before = called.setdefault(job.series_of(task), task)
        if before != task:
            raise SettingsError(f"{at}.series: {job.series_of(task)} is also {before}; each task needs its own")
        for other in spec.upstream:
            if other not in job.tasks or other == task:
                raise SettingsError(
                    f"{at}.upstream: {other!r} is not another task of the job; name one of {', '.join(job.tasks)}"
                )
        for topic in spec.writes:
            if writer.setdefault(topic, task) != task:
                raise SettingsError(
                    f"{at}.writes: {topic} is also written by {writer[topic]}, and nobody can tell their records apart; "
                    "give each its own topic"
                )
    try:
        topological_order([TaskSpec(task=task, upstream=job.upstream(task)) for task in job.tasks])
    except RecordRejected as rejected:
        raise SettingsError(f"{where}: {rejected.message}; correct upstream, reads and writes") from None


def _check_figures(job: WatchedJob, where: str) -> None:
    at = f"{where}.figures"
    if "records_in" not in job.figures:
        raise SettingsError(f"{at}.records_in: missing, and every job needs it; give it, or a mapping")
    if not job.figures["records_in"].subtask and "parallelism" not in job.figures:
        raise SettingsError(
            f"{at}.parallelism: not given, and no label tells subtasks apart; give it, or {job.name}.subtask = [LABEL]"
        )
    if job.figures["records_in"].names != "task":
        raise SettingsError(f"{at}.records_in.names: a topic may have several readers; its series must name the task")
    middle = [task for task in job.tasks if not job.is_last(task)]
    if middle and "records_out" not in job.figures:
        raise SettingsError(f"{at}.records_out: not given, and tasks come after {middle[0]}; give it, or topics in writes")
