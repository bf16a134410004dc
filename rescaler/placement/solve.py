"""The placement itself: which subtasks stay, which algorithm places the others, and what the answer costs.

`place` is a pure function of the request: no clock, no input, no randomness but the seed.

Subtasks leave a live host only if they exceed its capacity or slots, or if a smaller parallelism stops them. A scale-in empties
whole hosts where it can: stopping evenly everywhere saves no rent.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from surescale.rescaler.placement import greedy
from surescale.rescaler.placement.costs import CostFigures, cost_figures
from surescale.rescaler.placement.loads import HostUse, LoadFigures, host_uses, load_figures
from surescale.rescaler.placement.model import TOLERANCE, Algorithm, PlaceRequest, Sub, Subtask
from surescale.rescaler.placement.order import descending, twelve_digits
from surescale.rescaler.placement.problem import Problem, problem_of
from surescale.rescaler.placement.room import Room


def kept_subtasks(problem: Problem) -> dict[Sub, int]:
    """Return the subtasks that stay, under their new indices, with the host each stays on."""
    by_host: dict[int, list[Sub]] = {}
    for sub, host in sorted(problem.running.items(), key=lambda item: problem.key(item[0])):
        if host is not None:
            by_host.setdefault(host, []).append(sub)
    for host, subs in by_host.items():
        _shed(problem, host, subs)
    living = {sub: host for host, subs in by_host.items() for sub in subs}
    stopping = _Stopping(problem, living)
    stopping.empty_hosts()
    stopping.stop_the_rest()
    return _renumbered(problem, stopping.staying())


def _shed(problem: Problem, host: int, here: list[Sub]) -> None:
    """Drop subtasks of a host above its full capacity, the last of `here` first, until it fits."""
    capacity = problem.hosts[host]
    while here:
        cpu = fsum([capacity.used_cpu, *(problem.tasks[sub.task].cpu for sub in here)])
        memory = fsum([capacity.used_memory, *(problem.tasks[sub.task].memory for sub in here)])
        slots = capacity.used_slots + len(here)
        if slots <= capacity.slots and cpu <= capacity.cpu + TOLERANCE and memory <= capacity.memory + TOLERANCE:
            return
        here.pop()


class _Stopping:
    """Chooses the surplus subtasks to stop, by counts; at the end the highest indices of each host stop."""

    def __init__(self, problem: Problem, living: Mapping[Sub, int]) -> None:
        self.problem = problem
        self.indices: dict[int, dict[int, list[int]]] = {}
        for sub, host in sorted(living.items()):
            self.indices.setdefault(host, {}).setdefault(sub.task, []).append(sub.ordinal)
        count = Counter(sub.task for sub in living)
        self.surplus = {at: count[at] - task.parallelism for at, task in enumerate(problem.tasks) if count[at] > task.parallelism}
        worst_first = tuple(reversed(problem.by_efficiency))
        self.worst_first = [host for host in worst_first if host in self.indices]

    def staying(self) -> list[tuple[Sub, int]]:
        """Return the survivors under their old indices."""
        return [
            (Sub(task, index), host)
            for host, tasks in self.indices.items()
            for task, indices in tasks.items()
            for index in indices
        ]

    def empty_hosts(self) -> None:
        """Empty hosts whose subtasks are all surplus, the highest price per stopped subtask first.

        One walk is enough: the surplus only falls, so a host that cannot be emptied now never can.
        """
        for host in descending(self.worst_first, self._price_per_stop):
            if self._can_be_emptied(host):
                for task, indices in self.indices.pop(host).items():
                    self._lower_surplus(task, len(indices))

    def _can_be_emptied(self, host: int) -> bool:
        return all(len(indices) <= self.surplus.get(task, 0) for task, indices in self.indices[host].items())

    def _price_per_stop(self, host: int) -> float:
        return self.problem.hosts[host].price / sum(map(len, self.indices[host].values()))

    def _lower_surplus(self, task: int, by: int) -> None:
        self.surplus[task] -= by
        if self.surplus[task] == 0:
            del self.surplus[task]

    def stop_the_rest(self) -> None:
        """Stop what is still surplus, task by task: LBA-CE on the most loaded host, the others on the least efficient."""
        holders: dict[int, list[int]] = {task: [] for task in self.surplus}
        for host in self.worst_first:
            for task in self.indices.get(host, {}):
                holders.setdefault(task, []).append(host)
        stop = self._stop_on_most_loaded if self.problem.request.algorithm == "lba-ce" else self._stop_on_worst
        for task in sorted(self.surplus, key=self.problem.ranks.__getitem__):
            stop(task, holders[task], self.surplus[task])

    def _stop_on_worst(self, task: int, hosts: list[int], count: int) -> None:
        for host in hosts:
            stopped = min(count, len(self.indices[host][task]))
            del self.indices[host][task][len(self.indices[host][task]) - stopped :]
            count -= stopped

    def _stop_on_most_loaded(self, task: int, hosts: list[int], count: int) -> None:
        """Stop one at a time. Stopping lowers the load of that host only, so a heap holds one entry per host."""
        heap = [(-self._load_with_one_more(host, task), at) for at, host in enumerate(hosts)]
        heapq.heapify(heap)
        for _ in range(count):
            _, at = heapq.heappop(heap)
            host = hosts[at]
            self.indices[host][task].pop()
            if self.indices[host][task]:
                heapq.heappush(heap, (-self._load_with_one_more(host, task), at))

    def _load_with_one_more(self, host: int, task: int) -> float:
        used, added = self.problem.hosts[host], self.problem.tasks[task]
        own = [(self.problem.tasks[at], len(indices)) for at, indices in sorted(self.indices[host].items())]
        cpu = fsum([used.used_cpu, added.cpu, *(count * each.cpu for each, count in own)])
        memory = fsum([used.used_memory, added.memory, *(count * each.memory for each, count in own)])
        return twelve_digits(self.problem.load(host, cpu, memory))


def _renumbered(problem: Problem, staying: list[tuple[Sub, int]]) -> dict[Sub, int]:
    """Renumber: survivors with an index below the parallelism keep it; the others take the free ones, ascending."""
    kept: dict[Sub, int] = {}
    homeless: list[tuple[Sub, int]] = []
    for sub, host in sorted(staying):
        if sub.ordinal < problem.tasks[sub.task].parallelism:
            kept[sub] = host
        else:
            homeless.append((sub, host))
    free: dict[int, int] = {}
    for sub, host in homeless:
        index = free.get(sub.task, 0)
        while Sub(sub.task, index) in kept:
            index += 1
        kept[Sub(sub.task, index)] = host
        free[sub.task] = index + 1
    return kept


Assign = Callable[[Problem, Room, Sequence[Sub]], dict[Sub, int]]

ASSIGN: Mapping[Algorithm, Assign] = {
    "cetsa": greedy.cetsa,
    "lba-ce": greedy.lba_ce,
    "default": greedy.default,
    "rr": greedy.round_robin,
    "gs-bfd": greedy.gs_bfd,
    "ff": greedy.first_fit,
    "gio": greedy.gio,
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
    """Subtasks without a host, in placing order."""
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
        placed = greedy.repair_last_host(problem, room, kept, placed)
    if request.algorithm == "lba-ce" and request.params.lba_pick == "spread" and len(placed) == len(todo):
        evened = greedy.spread(problem, before.copy(), kept, placed)
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
            return greedy.round_robin
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
