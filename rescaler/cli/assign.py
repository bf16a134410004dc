"""`surescale dev assign`: decides one round of learner assignment, from a JSON document to a JSON document.

With ``--watch N`` it plays up to N rounds in a world where every replica catches up by the next round, and prints each round's
moves as a table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from surescale.rescaler import learners, learners_model
from surescale.rescaler.cli import documents
from surescale.rescaler.cli.documents import Document
from surescale.rescaler.fields import Complaint, Fields, is_integer
from surescale.rescaler.learners_model import (
    Assignment,
    AssignRefusal,
    HostState,
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    Replica,
    Round,
    StatefulTask,
)
from surescale.rescaler.refusals import Refused

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Input:
    """A document that was read and checked."""

    version: LearnerVersion
    factor: Fraction
    limits: LearnerLimits
    hosts: tuple[LearnerHost, ...]
    tasks: tuple[StatefulTask, ...]

    def round(self, tasks: tuple[StatefulTask, ...] | None = None) -> Round:
        """Decide one round over these tasks, or over the document's."""
        return learners.assign(
            self.hosts,
            self.tasks if tasks is None else tasks,
            version=self.version,
            balancing_factor=self.factor,
            limits=self.limits,
        )


def run(document: Document) -> Document:
    """Return the next assignment for ``document`` and the moves that lead to it. Raises `Refused`."""
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
    """Return the document, checked. Raises `Refused`."""
    complaints: list[Complaint] = []
    fields = Fields(document, "", complaints)
    version, factor = _version(fields), _factor(document.get("balancing_factor", 1))
    params = fields.child("params").value
    hosts = tuple(map(_host, fields.children("hosts", required=True)))
    tasks = tuple(map(_task, fields.children("tasks", required=True)))
    documents.check(complaints)
    return Input(version, factor, _limits(params), hosts, tasks)


def _version(fields: Fields) -> LearnerVersion:
    given = fields.value.get("version")
    if "version" in fields.value and not (isinstance(given, str) and given in {known.value for known in LearnerVersion}):
        message = f"version must be one of {', '.join(LearnerVersion)}, not {str(given)[:40]!r}"
        raise Refused(AssignRefusal.INVALID_VERSION, message, {"field": "version"})
    return fields.word("version", LearnerVersion)


def _factor(value: object) -> Fraction:
    if isinstance(value, str):  # exact_factor also reads text, for settings; in a document it must be a number
        message = "balancing_factor must be a number of at least 0, not a string"
        raise Refused(AssignRefusal.INVALID_FACTOR, message, {"field": "balancing_factor"})
    return learners_model.exact_factor(value)


def _limits(params: Mapping[str, Any]) -> LearnerLimits:
    known = {name: params[name] for name in ("acceptable_lag", "num_standbys", "max_learners") if name in params}
    return LearnerLimits(**known)


def _host(fields: Fields) -> LearnerHost:
    name = fields.text("id")
    fields = fields.within(host=name) if name else fields
    capacity = fields.value.get("capacity", 1)
    if not is_integer(capacity):
        raise Refused(AssignRefusal.INVALID_CAPACITY, f"host {name!r} needs an integer capacity", {"host": name})
    return LearnerHost(name, capacity, fields.word("state", HostState, HostState.RUNNING), fields.boolean("new", default=False))


def _task(fields: Fields) -> StatefulTask:
    name = fields.text("id")
    fields = fields.within(task=name) if name else fields
    active = fields.value.get("active", fields)
    if active is not None and not isinstance(active, str):
        fields.complain("active", "must be a host or null" if "active" in fields.value else "is missing; give a host or null")
        active = None
    return StatefulTask(name, active, _replicas(fields, name, "learners"), _replicas(fields, name, "standbys"))


def _replicas(fields: Fields, task: str, key: str) -> tuple[Replica, ...]:
    values = fields.items(key, required=True)
    return tuple([_replica(fields, task, key, at, value) for at, value in enumerate(values)]) if values else ()


def _replica(fields: Fields, task: str, key: str, at: int, value: object) -> Replica:
    if isinstance(value, dict):
        host, lag = value.get("host"), value.get("lag")
        # There may be hundreds of thousands: keep the common case fast.
        if type(host) is str and type(lag) is int and lag >= 0:
            return Replica(host, lag)
        if isinstance(host, str):
            message = f"the replica of task {task!r} on {host!r} needs a lag, an integer of at least 0"
            raise Refused(AssignRefusal.INVALID_LAG, message, {"task": task, "host": host})
    fields.complain(f"{key}[{at}]", "must be an object with a host and a lag")
    return Replica("", 0)


def watch(document: Document, rounds_max: int) -> None:
    """Print the moves of up to ``rounds_max`` rounds as tables; every replica catches up by the next round."""
    from surescale.runtime.terminal import console

    screen = console()
    given = read(document)
    tasks: tuple[StatefulTask, ...] = given.tasks
    for number in range(1, rounds_max + 1):
        decided = given.round(tasks)
        _print_round(screen, number, decided)
        if decided.converged and not decided.moves:
            break
        tasks = tuple([_caught_up(task) for task in decided.tasks])


def _caught_up(task: Assignment) -> StatefulTask:
    return StatefulTask(
        task.id,
        task.active,
        tuple(Replica(host, 0) for host in task.learners),
        tuple(Replica(host, 0) for host in task.standbys),
    )


def _print_round(screen: Console, number: int, decided: Round) -> None:
    from surescale.runtime.terminal import Column, fitting

    state = "converged" if decided.converged else "balanced" if decided.balanced else "not balanced"
    title = f"round {number}: {len(decided.moves)} moves, {decided.learners_in_flight} learners in flight, {state}"
    screen.print(title)
    if not decided.moves:
        return
    columns = (
        Column("kind", [move.kind for move in decided.moves]),
        Column("task", [move.task for move in decided.moves]),
        Column("from", [move.source or "-" for move in decided.moves]),
        Column("to", [move.destination or "-" for move in decided.moves]),
    )
    screen.print(fitting(columns, screen.width))


@click.command("assign")
@documents.file_argument
@click.option("--watch", "rounds_max", type=click.IntRange(min=1), metavar="N", help="Play up to N rounds, as tables.")
def command(file: BinaryIO, rounds_max: int | None) -> None:
    """Decide one round of learner assignment.

    Answers which host owns each stateful task next, and which hosts start to learn. Reads one JSON document from FILE, or from
    standard input, and prints one. Exit code 0, or 2 with an error code in the answer.
    """
    if rounds_max is None:
        documents.answering(run, file)
    try:
        watch(documents.parse(documents.read_input(file)), rounds_max)
    except Refused as refused:
        documents.write_output({"ok": False, "error": refused.as_error()})
        sys.exit(documents.EXIT_REFUSED)
