"""`surescale reschedule`: plans one reschedule of a cluster, from a JSON document to a JSON document.

What it does not do: carry the plan out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from rescaler import reschedule
from rescaler.commands import documents
from rescaler.commands.documents import Document, Fields
from rescaler.reschedule import Change, Plan
from rescaler.reschedule_cluster import Cluster, Distribution, Fragment, Worker, WorkerState
from rescaler.vnodes import DEFAULT_VNODES, VNODES_MAX

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_DIGITS_MAX = 4_000  # Python reads no longer numbers, in keys as elsewhere in a document


def run(document: Document) -> Document:
    """The plan for ``document``: request, mappings, vnodes moved and the generation afterwards. Raises `Refused`."""
    fields = Fields(document, "the document")
    cluster = _cluster(Fields(fields.any("cluster"), "cluster", field="cluster"))
    expected = fields.integer("expected_generation") if "expected_generation" in fields else None
    if ("desired" in fields) == ("request" in fields):
        documents.invalid("give exactly one of desired and request", field="desired")
    if "desired" in fields:
        wanted = {
            number: Fields(value, f"desired of fragment {number}", field="desired", fragment=number).any("parallelism")
            for number, value in _by_fragment(fields, "desired")
        }
        return _answer(reschedule.plan_desired(cluster, wanted, expected_generation=expected))
    request = Fields(fields.any("request"), "request", field="request")
    changes = {number: _change(number, value) for number, value in _by_fragment(request, "reschedules")}
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


def _by_fragment(fields: Fields, key: str) -> Iterator[tuple[int, Any]]:
    for text, value in fields.members(key):
        if len(text) > _DIGITS_MAX or not _DECIMAL.fullmatch(text):
            documents.invalid(f"{key}: the key {text[:40]!r} must be a fragment id, written as a decimal number", field=key)
        yield int(text), value


def _change(number: int, value: object) -> Change:
    fields = Fields(value, f"the reschedule of fragment {number}", field="request", fragment=number)
    return Change(fields.integers("added_parallel_units", default=()), fields.integers("removed_parallel_units", default=()))


def _cluster(fields: Fields) -> Cluster:
    return Cluster(
        fields.integer("generation"),
        tuple(_worker(f"workers[{index}]", value) for index, value in enumerate(fields.items("workers"))),
        tuple(_fragment(f"fragments[{index}]", value) for index, value in enumerate(fields.items("fragments"))),
        fields.integer("vnodes", minimum=1, maximum=VNODES_MAX, default=DEFAULT_VNODES),
    )


def _worker(place: str, value: object) -> Worker:
    fields = Fields(value, place, field="cluster")
    return Worker(fields.integer("id"), fields.text("host"), fields.integers("parallel_units"), fields.word("state", WorkerState))


def _fragment(place: str, value: object) -> Fragment:
    number = Fields(value, place, field="cluster").integer("id")
    fields = Fields(value, place, field="cluster", fragment=number)
    mapping = fields.integers("mapping") if "mapping" in fields else None
    return Fragment(number, fields.word("distribution", Distribution), fields.integers("parallel_units"), mapping)


@click.command("reschedule")
def command() -> None:
    """Plan one reschedule: JSON on standard input, JSON on standard output.

    Answers which parallel units each fragment gains and loses, and which vnodes move. Exit code 0, or 2 with an error code.
    """
    documents.answering(run)
