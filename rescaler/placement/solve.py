"""The placement itself: which subtasks stay, which algorithm places the others, and what the answer costs.

`place` is a pure function of the request: no clock, no input, no randomness but the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from . import baselines, cetsa, gio, gs_bfd, lba_ce
from .costs import CostFigures, cost_figures
from .incremental import kept_subtasks
from .loads import HostUse, LoadFigures, host_uses, load_figures
from .model import TOLERANCE, Algorithm, PlaceRequest, Sub, Subtask
from .problem import Problem, problem_of
from .room import Room

Assign = Callable[[Problem, Room, Sequence[Sub]], dict[Sub, int]]

ASSIGN: Mapping[Algorithm, Assign] = {
    "cetsa": cetsa.assign,
    "lba-ce": lba_ce.assign,
    "default": baselines.default,
    "rr": baselines.round_robin,
    "gs-bfd": gs_bfd.assign,
    "ff": baselines.first_fit,
    "gio": gio.assign,
}


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """What the new placement changes, for each task that changes. Subtasks of a task are interchangeable."""

    started: dict[str, int]
    stopped: dict[str, int]
    moves: int
    """Sum over tasks of min(started, stopped): 0 for a pure scale-out or scale-in."""


@dataclass(frozen=True, slots=True)
class PlaceResponse:
    """One placement with everything recomputed from it. `infeasible`: some subtasks found no host."""

    request: PlaceRequest
    assignment: dict[Subtask, str]
    """Host id per subtask, by task in the request's order, then by index."""
    unplaced: tuple[Subtask, ...]
    """Subtasks without a host, in STL order."""
    cost: CostFigures
    load: LoadFigures
    hosts: tuple[HostUse, ...]
    """Use per host, in the request's order."""
    rescale: PlacementChange
    infeasible_proof: str | None
    """Why no placement can exist: slots, cpu, memory, instance. None: only this greedy search found none."""
    notes: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether every subtask has a host."""
        return not self.unplaced

    @property
    def hosts_used(self) -> int:
        """How many hosts the job pays for."""
        return sum(1 for use in self.hosts if use.subtasks)


def place(request: PlaceRequest, *, repair: bool = False) -> PlaceResponse:
    """Place every subtask of the job. `repair`: let CETSA swap the host it opened last for a cheaper one.

    Raises CycleError if the edges form a cycle; the rest of the request is taken as valid (`parse_request` checks it).
    """
    problem = problem_of(request)
    notes: list[str] = []
    kept = kept_subtasks(problem) if request.incremental else {}
    _note_departures(problem, kept, notes)
    todo = [sub for sub in problem.subtask_list() if sub not in kept]
    room = Room(problem, kept.items())
    before = room.copy()
    placed = _algorithm(problem, notes)(problem, room, todo)
    if repair and request.algorithm == "cetsa":
        placed = cetsa.repair(problem, room, kept, placed)
    if request.algorithm == "lba-ce" and request.params.lba_pick == "spread" and len(placed) == len(todo):
        evened = lba_ce.spread(problem, before.copy(), kept, placed)
        notes.append("lba_pick spread: " + ("loads evened over the hosts in use" if evened else "kept the first pass"))
        placed = evened or placed
    unplaced = [sub for sub in todo if sub not in placed]
    proof = infeasibility(problem, before, todo, unplaced) if unplaced else None
    return _response(problem, dict(sorted({**kept, **placed}.items())), unplaced, proof, notes)


def _algorithm(problem: Problem, notes: list[str]) -> Assign:
    """Return the requested algorithm, or round robin if it lacks history and may not estimate."""
    request = problem.request
    if request.algorithm in ("cetsa", "lba-ce"):
        known = sum(host.history.efficiency is not None for host in problem.hosts)
        if known == 0 and request.params.cold_start == "rr":
            notes.append("no host has a cost history: placed by round robin (cold_start rr)")
            return baselines.round_robin
        if known < len(problem.hosts):
            notes.append(f"hosts whose cost efficiency is estimated from price and room: {len(problem.hosts) - known}")
    return ASSIGN[request.algorithm]


def _note_departures(problem: Problem, kept: Mapping[Sub, int], notes: list[str]) -> None:
    if not problem.request.incremental:
        return
    gone = sum(host is None for host in problem.running.values())
    if gone:
        notes.append(f"subtasks whose host is gone: {gone}")
    now = Counter(sub.task for sub, host in problem.running.items() if host is not None)
    stay = Counter(sub.task for sub in kept)
    shed = sum(max(0, min(now[at], task.parallelism) - stay[at]) for at, task in enumerate(problem.tasks))
    if shed:
        notes.append(f"subtasks that leave a host above its capacity or slots: {shed}")


def infeasibility(problem: Problem, room: Room, todo: Sequence[Sub], unplaced: Sequence[Sub]) -> str | None:
    """Return the first reason that proves that not all of `todo` fits into `room`; None if there is no such proof.

    Only hosts with a free slot count: the others can take nothing.
    """
    open_hosts = [host for host, slots in enumerate(room.slots) if slots > 0]
    if len(todo) > sum(room.slots[host] for host in open_hosts):
        return "slots"
    slack = TOLERANCE * len(open_hosts)
    tasks = problem.tasks
    if fsum(tasks[sub.task].cpu for sub in todo) > fsum(max(0.0, room.cpu[host]) for host in open_hosts) + slack:
        return "cpu"
    if fsum(tasks[sub.task].memory for sub in todo) > fsum(max(0.0, room.memory[host]) for host in open_hosts) + slack:
        return "memory"
    empty = Room(problem)
    for task in sorted({sub.task for sub in unplaced}):
        if not any(empty.fits(host, task) for host in range(len(problem.hosts))):
            return "instance"
    return None


def _response(
    problem: Problem, assignment: dict[Sub, int], unplaced: Sequence[Sub], proof: str | None, notes: list[str]
) -> PlaceResponse:
    uses = host_uses(problem, assignment)
    ids = [task.id for task in problem.tasks]
    return PlaceResponse(
        request=problem.request,
        assignment={Subtask(ids[sub.task], sub.ordinal): problem.hosts[host].id for sub, host in assignment.items()},
        unplaced=tuple(Subtask(ids[sub.task], sub.ordinal) for sub in unplaced),
        cost=cost_figures(problem, assignment),
        load=load_figures(uses),
        hosts=tuple(uses),
        rescale=_rescale(problem.request, assignment, ids),
        infeasible_proof=proof,
        notes=tuple(notes),
    )


def _rescale(request: PlaceRequest, assignment: Mapping[Sub, int], ids: Sequence[str]) -> PlacementChange:
    before = Counter((subtask.task, host) for subtask, host in request.placement.items())
    after = Counter((ids[sub.task], request.hosts[host].id) for sub, host in assignment.items())
    started: Counter[str] = Counter()
    stopped: Counter[str] = Counter()
    for task, host in before.keys() | after.keys():
        change = after[task, host] - before[task, host]
        (started if change > 0 else stopped)[task] += abs(change)
    return PlacementChange(
        {task: started[task] for task in ids if started[task]},
        {task: stopped[task] for task in ids if stopped[task]},
        sum(min(started[task], stopped[task]) for task in ids),
    )
