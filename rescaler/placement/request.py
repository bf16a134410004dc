"""The request of the contract `place/1`: JSON in, a checked `PlaceRequest` out.

Unknown keys are ignored, except in `params`: a misspelt option must not pass silently. Null for an optional field means "not
given". One error names every wrong field by its path.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields as dataclass_fields
from graphlib import CycleError
from typing import Any

from surescale.rescaler.fields import Complaint, Fields, listed
from surescale.rescaler.placement.model import (
    ALGORITHMS,
    Edge,
    History,
    Host,
    Mode,
    Network,
    Params,
    Pattern,
    PlaceRequest,
    Subtask,
    Task,
)
from surescale.rescaler.placement.order import topological_ranks

SCHEMA = "place/1"
HOSTS_MAX = 100_000
TASKS_MAX = 100_000
EDGES_MAX = 1_000_000
SUBTASKS_MAX = 1_000_000
"""Most subtasks of one job, and most entries of `placement`."""
SLOTS_MAX = 1_000_000
BUSY_MAX = 100_000
CAPACITY_MIN = 1e-9
"""Smallest capacity of a host: below it a utilisation could overflow."""
SUM_TOLERANCE = 1e-6

_SUBTASK = re.compile(r"(?s)([^/]+)/(0|[1-9][0-9]{0,9})")


class RequestError(ValueError):
    """The request is wrong; ``complaints`` holds one `path: what and how to fix it` per wrong field."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        super().__init__(listed(complaints))
        self.complaints = tuple(map(str, complaints))


def parse_json(text: bytes | str) -> PlaceRequest:
    """Return the request in a JSON document. Raises RequestError."""
    try:
        document = json.loads(text, object_pairs_hook=_object_without_repeats)
    except RequestError:
        raise
    except RecursionError:
        raise _not_a_request("is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, or an integer with thousands of digits
        raise _not_a_request(f"is not valid JSON ({str(error).splitlines()[0]})") from None
    return parse_request(document)


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _not_a_request(f"the key {repeated!r} is given twice in one object; give it once")
    return found


def _not_a_request(what: str) -> RequestError:
    return RequestError([Complaint("request", what, {})])


def parse_request(document: object) -> PlaceRequest:
    """Return the request in a decoded JSON document. Raises RequestError naming every wrong field."""
    complaints: list[Complaint] = []
    top = Fields(document, "", complaints)
    if complaints:
        raise RequestError(complaints)
    top.choice("schema", [SCHEMA])
    algorithm = top.choice("algorithm", ALGORITHMS)
    seed = top.integer("seed", 0, maximum=2**64 - 1)
    params = _params(top.child("params"))
    hosts, network = _cluster(top.child("cluster", required=True))
    tasks, edges = _job(top.child("job", required=True))
    placement = _placement(top, {task.id for task in tasks})
    if complaints:
        raise RequestError(complaints)
    return PlaceRequest(algorithm, hosts, tasks, edges, network, seed, params, placement)


def _cluster(cluster: Fields) -> tuple[tuple[Host, ...], Network]:
    hosts = [(each, _host(each)) for each in cluster.children("hosts", required=True, count_max=HOSTS_MAX)]
    _complain_of_repeats((each, host.id) for each, host in hosts)
    network = cluster.child("network")
    distance = network.child("distance")
    return tuple(host for _, host in hosts), Network(
        network.number("price_per_gb", 0.0),
        distance.number("same_zone", 1.0),
        distance.number("cross_zone", 2.0),
    )


def _complain_of_repeats(named: Iterable[tuple[Fields, str]]) -> None:
    first: dict[str, str] = {}
    for each, name in named:
        if name and name in first:
            each.complain("id", f"{name!r} is already the id of {first[name]}; ids must be unique")
        first.setdefault(name, each.path)


def _host(host: Fields) -> Host:
    used, history = host.child("used"), host.child("history")
    return Host(
        id=host.text("id"),
        cpu=_capacity(host, "cpu"),
        memory=_capacity(host, "memory"),
        slots=host.integer("slots", maximum=SLOTS_MAX),
        price=host.number("price"),
        type=host.text("type", ""),
        zone=host.text("zone", ""),
        used_cpu=used.number("cpu", 0.0),
        used_memory=used.number("memory", 0.0),
        used_slots=used.integer("slots", 0, maximum=SLOTS_MAX),
        history=History(
            cost=history.number("cost") if history.has("cost") else None,
            tuples=history.number("tuples") if history.has("tuples") else None,
            busy=tuple(
                history.checked_number(share, f"busy[{at}]", 0.0, 1.0)
                for at, share in enumerate(history.items("busy", count_max=BUSY_MAX))
            ),
        ),
    )


def _capacity(host: Fields, key: str) -> float:
    value = host.number(key, above=True)
    if 0 < value < CAPACITY_MIN:
        host.complain(key, f"must be at least {CAPACITY_MIN:g}, not {value:g}")
    return value


def _job(job: Fields) -> tuple[tuple[Task, ...], tuple[Edge, ...]]:
    asked = job.children("tasks", required=True, count_max=TASKS_MAX)
    ids = [_task_id(task) for task in asked]
    _complain_of_repeats(zip(asked, ids, strict=True))
    parallelism = [task.integer("parallelism", maximum=SUBTASKS_MAX) for task in asked]
    if sum(parallelism) > SUBTASKS_MAX:
        job.complain("tasks", f"ask for {sum(parallelism)} subtasks; at most {SUBTASKS_MAX} can be placed at once")
    count_of = dict(zip(ids, parallelism, strict=True))
    edges = _edges(job, count_of)
    incoming: dict[str, float] = {}
    for edge in edges:
        incoming[edge.target] = incoming.get(edge.target, 0.0) + edge.records_per_s
    tasks = tuple(
        Task(name, count, _demand(task, "cpu", count, incoming.get(name)), _demand(task, "memory", count, incoming.get(name)))
        for task, name, count in zip(asked, ids, parallelism, strict=True)
    )
    return tasks, edges


def _task_id(task: Fields) -> str:
    name = task.text("id")
    if "/" in name:
        task.complain("id", f"must not contain '/', which separates task and index: {name!r}")
    return name


def _demand(task: Fields, resource: str, parallelism: int, incoming: float | None) -> float:
    """Return cores or GB per subtask: as given, or records per second of one subtask times rho (eqs. 20-21)."""
    rho = f"rho_{resource}"
    if not task.has(rho):
        if not task.has(resource):
            task.complain(resource, f"is missing; give {resource} per subtask, or {rho} per record and second")
            return 0.0
        return task.number(resource)
    if task.has(resource):
        task.complain(rho, f"is given as well as {resource}; give only one")
    if incoming is None and not task.has("source_rate"):
        task.complain("source_rate", f"is missing; a task without incoming edges needs it for {rho}")
    rate = task.number("source_rate", 0.0) if incoming is None else incoming
    return task.number(rho) * rate / parallelism if parallelism else 0.0


def _edges(job: Fields, count_of: dict[str, int]) -> tuple[Edge, ...]:
    asked = job.children("edges", count_max=EDGES_MAX)
    sound = len(job.complaints)
    edges = tuple(_edge(each, count_of) for each in asked)
    if len(job.complaints) == sound:
        position = {name: at for at, name in enumerate(count_of)}
        try:
            topological_ranks(len(position), [(position[edge.source], position[edge.target]) for edge in edges])
        except CycleError as error:
            names = list(count_of)
            job.complain("edges", "form a cycle: " + " -> ".join(repr(names[task]) for task in error.args[1][:10]))
    return edges


def _edge(edge: Fields, count_of: dict[str, int]) -> Edge:
    ends = {key: edge.text(key) for key in ("from", "to")}
    for key, name in ends.items():
        if name and name not in count_of:
            edge.complain(key, f"{name!r} is not the id of a task of this job")
    pattern: Pattern = edge.choice("pattern", ("all", "forward"), "all")
    counts = [count_of.get(name) for name in ends.values()]
    if pattern == "forward" and None not in counts and counts[0] != counts[1]:
        edge.complain("pattern", f"forward needs equal parallelism at both ends, not {counts[0]} and {counts[1]}")
    rate, size = edge.number("records_per_s", 0.0), edge.number("bytes_per_record", 100.0)
    return Edge(ends["from"], ends["to"], rate, size, pattern)


def _params(params: Fields) -> Params:
    modes: tuple[Mode, ...] = ("fresh", "incremental")
    known = {each.name for each in dataclass_fields(Params)}
    for key in params.value:
        if key not in known:
            params.complain(key, f"is not a known parameter; known are {', '.join(sorted(known))}")
    default = Params()
    found = Params(
        threshold=params.number("threshold", default.threshold, maximum=1.0, above=True),
        threshold_scope=params.choice("threshold_scope", ("lba-ce", "all"), default.threshold_scope),
        alpha=params.number("alpha", default.alpha, maximum=1.0),
        beta=params.number("beta", default.beta, maximum=1.0),
        wec_weights=_weights(params),
        order=params.choice("order", ("interleaved", "topological"), default.order),
        lba_pick=params.choice("lba_pick", ("first", "spread"), default.lba_pick),
        cold_start=params.choice("cold_start", ("estimate", "rr"), default.cold_start),
        busy_floor=params.number("busy_floor", default.busy_floor, maximum=1.0),
        mode=params.choice("mode", modes) if params.has("mode") else None,
        exec_time_s=params.number("exec_time_s") if params.has("exec_time_s") else None,
        sched_time_s=params.number("sched_time_s", default.sched_time_s),
    )
    if abs(found.alpha + found.beta - 1.0) > SUM_TOLERANCE:
        params.complain("alpha", f"and beta must sum to 1, not {found.alpha + found.beta:g}")
    return found


def _weights(params: Fields) -> tuple[float, float, float]:
    if not params.has("wec_weights"):
        return Params().wec_weights
    given = params.items("wec_weights", count_max=3)
    weights = [params.checked_number(each, f"wec_weights[{at}]", 0.0, 1.0) for at, each in enumerate(given)]
    if len(weights) != 3 or abs(sum(weights) - 1.0) > SUM_TOLERANCE:
        params.complain("wec_weights", "must be three numbers that sum to 1: rent, communication, scheduling")
        return Params().wec_weights
    return weights[0], weights[1], weights[2]


def _placement(top: Fields, task_ids: set[str]) -> dict[Subtask, str]:
    given = top.child("placement")
    found: dict[Subtask, str] = {}
    if len(given.value) > SUBTASKS_MAX:
        top.complain("placement", f"must hold at most {SUBTASKS_MAX} entries")
        return found
    for name, host in given.value.items():
        here = f'placement["{name[:80]}"]'
        match = _SUBTASK.fullmatch(name)
        if match is None:
            top.complain(here, 'must be named "task/index", the index a whole number')
        elif match[1] not in task_ids:
            top.complain(here, f"{match[1]!r} is not the id of a task of this job")
        elif not isinstance(host, str):
            top.complain(here, "must be the id of a host")
        else:
            found[Subtask(match[1], int(match[2]))] = host
    return found
