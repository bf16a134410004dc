"""Series -> readings: what one figure says of each task and subtask. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from surescale.contracts.figures import known_number
from surescale.engines.prometheus.client import Labels, QueryRefused, Series
from surescale.engines.prometheus.jobs import WatchedJob
from surescale.engines.prometheus.mappings import TIMES, Figure, FigureName
from surescale.runtime.printable import printable

MILLISECONDS = {"s": 1_000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_SHOWN_MAX = 160
Subtask = tuple[str, ...]
"""Values of the labels that tell a subtask apart; empty: the whole task."""


@dataclass(frozen=True, slots=True)
class Key:
    """What one series is about: a task, a subtask, and what is added up, such as a partition."""

    task: str
    subtask: Subtask = ()
    part: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One value. None is unknown: no number, infinite, negative, or too old. Times are milliseconds.

    ``target`` is what was scraped, as Prometheus' own labels ``job`` and ``instance`` name it.
    """

    value: float | None
    at_ms: int
    target: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The readings of one figure, and the names in its series that no task of the job has."""

    readings: dict[Key, Reading]
    unknown: frozenset[str] = frozenset()


def read(job: WatchedJob, name: FigureName, series: Iterable[Series], at_ms: int) -> ReadResult:
    """Return what the series of a figure say.

    Args:
        job: whose figure it is.
        name: of the figure.
        series: the answer to its expression.
        at_ms: the time asked for.

    Raises:
        QueryRefused: a series does not say which task it belongs to, or two series are about the same; says what to do.
    """
    figure = job.figures[name]
    tasks_of = job.tasks_by_name(figure)
    readings: dict[Key, Reading] = {}
    labels_of: dict[Key, Labels] = {}
    unknown = set()
    for each in series:
        named = each.labels.get(figure.task, "")
        if not named:
            raise QueryRefused(f"series {shown(each.labels)} has no label {figure.task!r} that names the task; set task to one")
        tasks = tasks_of.get(named, [])
        if not tasks and figure.names == "task":
            unknown.add(named)
        subtask = tuple(each.labels.get(label, "") for label in figure.subtask or ())
        part = tuple(each.labels.get(label, "") for label in figure.over)
        for task in tasks:
            reads = job.tasks[task].reads if figure.names == "task" and "topic" in figure.over else ()
            if reads and each.labels.get("topic") not in reads:
                continue  # a topic that the group has left: what it committed there stays, and others go on writing
            key = Key(task, subtask if any(subtask) else (), part if figure.names == "task" else (named, *part))
            if key in readings:
                one, other = labels_of[key], each.labels
                raise QueryRefused(
                    f"two series for {series_in_words(key)}: {shown(_apart(one, other))} and {shown(_apart(other, one))}; "
                    "select one, or name in over the labels to add up over"
                )
            target = (each.labels.get("job", ""), each.labels.get("instance", ""))
            is_fresh = at_ms - each.at_ms <= job.fresh_ms
            value = _in_unit(each.value, name, figure)
            readings[key], labels_of[key] = Reading(value if is_fresh else None, each.at_ms, target), each.labels
    return ReadResult(readings, frozenset(unknown))


def series_in_words(key: Key) -> str:
    """Return in words what a series is about."""
    words = f"task {key.task}"
    if key.subtask:
        words += f" subtask {'/'.join(key.subtask)}"
    return printable(words + (f" ({', '.join(key.part)})" if key.part else ""))


def shown(labels: Labels) -> str:
    """Return labels as Prometheus writes them, cut short."""
    inner = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    text = f"{labels.get('__name__', '')}{{{inner}}}"
    text = printable(text)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 4]}...}}"


def _apart(labels: Labels, others: Labels) -> Labels:
    return {name: value for name, value in labels.items() if others.get(name) != value}


def _in_unit(value: float, name: FigureName, figure: Figure) -> float | None:
    if name in TIMES:
        value *= MILLISECONDS[figure.unit]
    return known_number(value)
