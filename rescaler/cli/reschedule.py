"""`surescale dev reschedule`: plans one reschedule of a cluster, from a JSON document to a JSON document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from surescale.contracts.vnodes import DEFAULT_VNODES
from surescale.rescaler import reschedule
from surescale.rescaler.cli import documents
from surescale.rescaler.cli.documents import Document
from surescale.rescaler.fields import Complaint, Fields
from surescale.rescaler.reschedule import Change, Cluster, Distribution, Fragment, Plan, Worker, WorkerState
from surescale.rescaler.vnodes import VNODES_MAX

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_DIGITS_MAX = 4_000  # Python's limit of digits in an integer is a little higher


def run(document: Document) -> Document:
    """Return the plan for ``document``: request, mappings, vnodes moved and the generation afterwards. Raises `Refused`."""
    complaints: list[Complaint] = []
    fields = Fields(document, "", complaints)
    cluster = _cluster(fields.child("cluster", required=True))
    expected = fields.integer("expected_generation", minimum=None) if fields.has("expected_generation") else None
    if fields.has("desired") == fields.has("request"):
        fields.complain("desired", "give exactly one of desired and request")
    wanted = {number: _parallelism(each) for number, each in _by_fragment(fields, "desired")}
    changes = {number: _change(each) for number, each in _by_fragment(fields.child("request"), "reschedules")}
    documents.check(complaints)
    if fields.has("desired"):
        return _answer(reschedule.plan_desired(cluster, wanted, expected_generation=expected))
    return _answer(reschedule.plan_request(cluster, changes, expected_generation=expected))


def _answer(plan: Plan) -> Document:
    return {
        "noop": plan.is_noop,
        "generation": plan.generation,
        "request": {
            "reschedules": {
                str(number): {"added_parallel_units": change.added, "removed_parallel_units": change.removed}
                for number, change in plan.changes.items()
            }
        },
        "mappings": {str(number): mapping for number, mapping in plan.mappings.items()},
        "moved": {str(number): moved for number, moved in plan.moved.items()},
    }


def _by_fragment(fields: Fields, key: str) -> Iterator[tuple[int, Fields]]:
    members = fields.child(key)
    for text, value in members.value.items():
        if len(text) > _DIGITS_MAX or not _DECIMAL.fullmatch(text):
            fields.complain(key, f"the key {text[:40]!r} must be a fragment id, written as a decimal number")
        else:
            place = {"field": key, **(members.place or {}), "fragment": int(text)}
            yield int(text), Fields(value, members.at(text[:40]), fields.complaints, place)


def _parallelism(fields: Fields) -> Any:
    """Return the value unchecked: the planner refuses a wrong parallelism with a code of its own."""
    if "parallelism" not in fields.value:
        fields.complain("parallelism", "is missing; give a whole number of at least 1")
    return fields.value.get("parallelism")


def _change(fields: Fields) -> Change:
    return Change(fields.integers("added_parallel_units", ()), fields.integers("removed_parallel_units", ()))


def _cluster(fields: Fields) -> Cluster:
    return Cluster(
        fields.integer("generation", minimum=None),
        tuple(map(_worker, fields.children("workers", required=True))),
        tuple(map(_fragment, fields.children("fragments", required=True))),
        fields.integer("vnodes", DEFAULT_VNODES, minimum=1, maximum=VNODES_MAX),
    )


def _worker(fields: Fields) -> Worker:
    number = fields.integer("id", minimum=None)
    return Worker(number, fields.text("host"), fields.integers("parallel_units"), fields.word("state", WorkerState))


def _fragment(fields: Fields) -> Fragment:
    number = fields.integer("id", minimum=None)
    fields = fields.within(fragment=number)
    mapping = fields.integers("mapping") if fields.has("mapping") else None
    return Fragment(number, fields.word("distribution", Distribution), fields.integers("parallel_units"), mapping)


@click.command("reschedule")
@documents.file_argument
def command(file: BinaryIO) -> None:
    """Plan one reschedule of a cluster.

    Answers which parallel units each fragment gains and loses, and which vnodes move. Reads one JSON document from FILE, or from
    standard input, and prints one. Exit code 0, or 2 with an error code in the answer.
    """
    documents.answering(run, file)
