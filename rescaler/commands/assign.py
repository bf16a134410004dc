"""`surescale assign`: one round of learner assignment, from a JSON document to a JSON document; or many, to watch.

With ``--watch N`` it plays up to N rounds against a world in which every replica has caught up by the next round, and prints
each round's moves as a table. What it does not do: move anything.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

from rescaler import learners, learners_model
from rescaler.commands import documents
from rescaler.commands.documents import Document, Fields
from rescaler.learners_model import (
    Assignment,
    AssignRefusal,
    Host,
    HostState,
    Limits,
    Replica,
    Round,
    Task,
    Version,
)
from rescaler.refusals import Refused


@dataclass(frozen=True, slots=True)
class Input:
    """A document, read."""

    version: Version
    factor: Fraction
    limits: Limits
    hosts: tuple[Host, ...]
    tasks: tuple[Task, ...]

    def round(self, tasks: tuple[Task, ...] | None = None) -> Round:
        """One round over these tasks, or over the document's."""
        return learners.assign(
            self.hosts,
            self.tasks if tasks is None else tasks,
            version=self.version,
            balancing_factor=self.factor,
            limits=self.limits,
        )


def run(document: Document) -> Document:
    """The next assignment for ``document`` and the moves that lead to it. Raises `Refused`."""
    decided = read(document).round()
    return {
        "converged": decided.converged,
        "balanced": decided.balanced,
        "under_replicated": decided.under_replicated,
        "tasks": [
            {"id": task.id, "active": task.active, "learners": task.learners, "standbys": task.standbys} for task in decided.tasks
        ],
        "moves": [{"kind": move.kind, "task": move.task, "from": move.source, "to": move.destination} for move in decided.moves],
        "load": {
            host: {"active": load.active, "projected": load.projected, "low": load.low, "high": load.high}
            for host, load in decided.load.items()
        },
    }


def read(document: Document) -> Input:
    """The document, checked. Raises `Refused`."""
    fields = Fields(document, "the document")
    version = fields.any("version")
    if not isinstance(version, str) or version not in {known.value for known in Version}:
        message = f"version must be one of {', '.join(Version)}, not {str(version)[:40]!r}"
        raise Refused(AssignRefusal.INVALID_VERSION, message, {"field": "version"})
    return Input(
        Version(version),
        _factor(document.get("balancing_factor", 1)),
        _limits(dict(fields.members("params", default_empty=True))),
        tuple([_host(f"hosts[{index}]", value) for index, value in enumerate(fields.items("hosts"))]),
        tuple([_task(index, value) for index, value in enumerate(fields.items("tasks"))]),
    )


def _factor(value: object) -> Fraction:
    if isinstance(value, str):  # a setting is text; a document has numbers for that
        message = "balancing_factor must be a number of at least 0, not a string"
        raise Refused(AssignRefusal.INVALID_FACTOR, message, {"field": "balancing_factor"})
    return learners_model.exact_factor(value)


def _limits(params: Document) -> Limits:
    known = {name: params[name] for name in ("acceptable_lag", "num_standbys", "max_learners") if name in params}
    return Limits(**known)


def _host(place: str, value: object) -> Host:
    name = Fields(value, place, field="hosts").text("id")
    fields = Fields(value, place, field="hosts", host=name)
    capacity = fields.any("capacity") if "capacity" in fields else 1
    if not documents.is_integer(capacity):
        raise Refused(AssignRefusal.INVALID_CAPACITY, f"host {name!r} needs an integer capacity", {"host": name})
    state = fields.word("state", HostState, default=HostState.RUNNING)
    return Host(name, capacity, state, fields.boolean("new", default=False))


def _task(index: int, value: object) -> Task:
    name = value.get("id") if isinstance(value, dict) else None
    fields = Fields(value, f"tasks[{index}]", field="tasks", **({"task": name} if isinstance(name, str) else {}))
    active = fields.any("active")
    if active is not None and not isinstance(active, str):
        raise fields.refused("active", "a host or null")
    learning, standing_by = fields.items("learners"), fields.items("standbys")
    return Task(fields.text("id"), active, _replicas(name, learning), _replicas(name, standing_by))


def _replicas(task: object, values: list[Any]) -> tuple[Replica, ...]:
    return tuple([_replica(str(task), value) for value in values]) if values else ()


def _replica(task: str, value: object) -> Replica:
    if isinstance(value, dict):
        host, lag = value.get("host"), value.get("lag")
        # There may be hundreds of thousands: the common case takes no detour.
        if type(host) is str and type(lag) is int and lag >= 0:
            return Replica(host, lag)
    host = Fields(value, f"a replica of task {task!r}", field="tasks", task=task).text("host")
    message = f"the replica of task {task!r} on {host!r} needs a lag, an integer of at least 0"
    raise Refused(AssignRefusal.INVALID_LAG, message, {"task": task, "host": host})


def watch(document: Document, rounds_max: int) -> None:
    """Print the moves of up to ``rounds_max`` rounds as tables; every replica has caught up by the next round."""
    from rich.console import Console

    console = Console()
    given = read(document)
    tasks: tuple[Task, ...] = given.tasks
    for number in range(1, rounds_max + 1):
        decided = given.round(tasks)
        _print_round(console, number, decided)
        if decided.converged and not decided.moves:
            break
        tasks = tuple([_caught_up(task) for task in decided.tasks])


def _caught_up(task: Assignment) -> Task:
    return Task(
        task.id,
        task.active,
        tuple(Replica(host, 0) for host in task.learners),
        tuple(Replica(host, 0) for host in task.standbys),
    )


def _print_round(console: Any, number: int, decided: Round) -> None:
    from rich.table import Table

    state = "converged" if decided.converged else "balanced" if decided.balanced else "not balanced"
    title = f"round {number}: {len(decided.moves)} moves, {decided.learners_in_flight} learners in flight, {state}"
    console.print(title)
    if not decided.moves:
        return
    table = Table("kind", "task", "from", "to")
    for move in decided.moves:
        table.add_row(move.kind, move.task, move.source or "-", move.destination or "-")
    console.print(table)


@click.command("assign")
@click.option("--watch", "rounds_max", type=click.IntRange(min=1), metavar="N", help="Play up to N rounds, as tables.")
def command(rounds_max: int | None) -> None:
    """Decide one round of learner assignment: JSON on standard input, JSON on standard output.

    Answers which host owns each stateful task next, and which hosts begin to learn. Exit code 0, or 2 with an error code.
    """
    if rounds_max is None:
        documents.answering(run)
    try:
        watch(documents.parse(documents.read_input()), rounds_max)
    except Refused as refused:
        documents.write_output({"ok": False, "error": refused.as_error()})
        sys.exit(documents.EXIT_REFUSED)
