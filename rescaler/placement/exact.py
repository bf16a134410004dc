"""The true optimum of small instances: by enumeration, and by a mixed integer program (HiGHS) that checks it.

Enumeration counts: subtasks of a task are interchangeable over `all` edges, so only how many of each task run on each
host matters. Over `forward` edges that form a forest the pairs (i, i) can be matched freely, so the best pairing has
sum_h min(n_s(h), n_t(h)) of them on one host, and likewise per zone. scipy is loaded by the program only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import comb, fsum
from typing import Any

from surescale.rescaler.placement.costs import Meetings, all_meetings, by_zone, cost_figures, gb_per_s_of_pair
from surescale.rescaler.placement.model import TOLERANCE, Sub
from surescale.rescaler.placement.problem import Problem
from surescale.rescaler.placement.room import Room

COUNTS_MAX = 50_000
"""Most count vectors that `countable` accepts."""
COUNT_CELLS_MAX = 400_000
"""Most count vectors times hosts: each vector takes some microseconds per host."""
COUNT_DEPTH_MAX = 200
"""Most hosts and tasks together: enumeration goes one call deeper for each."""
PROGRAM_CELLS_MAX = 3_000
"""Most subtasks and communicating pairs, times hosts, that `programmable` accepts."""
PROGRAM_NODES_MAX = 20_000
"""Nodes after which the program's search gives up; a count, so that it stops at the same point on every machine."""
PROGRAM_WORK_MAX = 200_000_000
"""Limit of nodes times the square of communicating pairs times hosts: with many pairs a node takes long, and Ctrl-C does not work
meanwhile."""
SCALE_MAX = 1e300
"""Largest scale of tiny prices; above it they would become infinite."""

Counts = tuple[Counter[int], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to place the job: how many subtasks of each task on each host, and its cost."""

    counts: Counts
    rent_per_s: float
    total_per_s: float
    """Rent plus communication, the best pairing over forward edges [$/s]."""


def countable(problem: Problem) -> bool:
    """Say whether enumeration can solve this instance: its size and its shape."""
    hosts, size = max(1, len(problem.hosts)), 1
    if hosts + len(problem.tasks) > COUNT_DEPTH_MAX:
        return False
    for task in problem.tasks:
        size *= comb(task.parallelism + hosts - 1, hosts - 1)
        if size > COUNTS_MAX or size * hosts > COUNT_CELLS_MAX:
            return False
    return _forward_edges_are_simple(problem)


def _forward_edges_are_simple(problem: Problem) -> bool:
    """Say whether forward edges form a forest and crossing zones costs most: then matching hosts first, zones next is best."""
    group = list(range(len(problem.tasks)))

    def root(task: int) -> int:
        while group[task] != task:
            task = group[task]
        return task

    network = problem.request.network
    for edge, (source, target) in zip(problem.request.edges, problem.edges, strict=True):
        if edge.pattern == "forward":
            left, right = root(source), root(target)
            if left == right or network.cross_zone < network.same_zone:
                return False
            group[left] = right
    return True


def candidates(problem: Problem) -> Iterator[Candidate]:
    """Yield every placement that fits at this delta, by count vectors."""
    for counts in _counts(problem, Room(problem), 0):
        yield _candidate(problem, counts)


def _counts(problem: Problem, room: Room, task: int) -> Iterator[Counts]:
    if task == len(problem.tasks):
        yield ()
        return
    for spread in _spreads(room, task, problem.tasks[task].parallelism, 0):
        inner = room.copy()
        for host, count in spread.items():
            for _ in range(count):
                inner.take(host, task)
        for rest in _counts(problem, inner, task + 1):
            yield (spread, *rest)


def _spreads(room: Room, task: int, count: int, host: int) -> Iterator[Counter[int]]:
    """Yield the ways to put `count` subtasks of a task on the hosts from `host` on."""
    if count == 0:
        yield Counter()
        return
    if host == len(room.cpu):
        return
    trial = room.copy()
    for here in range(count + 1):
        for rest in _spreads(trial, task, count - here, host + 1):
            yield Counter({host: here}) + rest
        if not trial.fits(host, task):
            return
        trial.take(host, task)


def _candidate(problem: Problem, counts: Counts) -> Candidate:
    used = sorted({host for spread in counts for host in spread})
    rent = fsum(problem.hosts[host].price for host in used)
    return Candidate(counts, rent, rent + _communication(problem, counts))


def _communication(problem: Problem, counts: Counts) -> float:
    network = problem.request.network
    flows = []
    for edge, (source, target) in zip(problem.request.edges, problem.edges, strict=True):
        if edge.pattern == "forward":
            met = _best_pairing(problem, counts[source], counts[target])
        else:
            met = all_meetings(problem, counts[source], counts[target])
        flows.append(gb_per_s_of_pair(problem, edge, source, target) * met.distance(network.same_zone, network.cross_zone))
    return network.price_per_gb * fsum(flows)


def _best_pairing(problem: Problem, sources: Counter[int], targets: Counter[int]) -> Meetings:
    zones = by_zone(problem, sources) & by_zone(problem, targets)
    return Meetings(sources.total(), zones.total(), (sources & targets).total())


def brute_force(problem: Problem) -> Candidate | None:
    """Return the cheapest placement (rent plus communication); None if nothing fits."""
    return min(candidates(problem), key=lambda each: each.total_per_s, default=None)


def programmable(problem: Problem) -> bool:
    """Say whether the mixed integer program can solve this instance: its size and its shape."""
    network, widths = problem.request.network, [task.parallelism for task in problem.tasks]
    pairs = sum(
        widths[source] * (1 if edge.pattern == "forward" else widths[target])
        for edge, (source, target) in zip(problem.request.edges, problem.edges, strict=True)
    )
    return (sum(widths) + pairs) * len(problem.hosts) <= PROGRAM_CELLS_MAX and network.cross_zone >= network.same_zone


def _pairs(problem: Problem) -> dict[tuple[Sub, Sub], float]:
    """Return GB per second sent by every pair of communicating subtasks."""
    flows: dict[tuple[Sub, Sub], float] = {}
    for edge, (source, target) in zip(problem.request.edges, problem.edges, strict=True):
        rate = gb_per_s_of_pair(problem, edge, source, target)
        widths = range(problem.tasks[source].parallelism), range(problem.tasks[target].parallelism)
        for left, right in product(*widths):
            if rate and (edge.pattern == "all" or left == right):
                pair = Sub(source, left), Sub(target, right)
                flows[pair] = flows.get(pair, 0.0) + rate
    return flows


def mixed_integer_optimum(problem: Problem) -> dict[Sub, int] | None:
    """Return the cheapest placement by HiGHS; None if nothing fits or the search stopped early.

    Binary x[j, h] and y[h]; per communicating pair q >= x[a, h] - x[b, h] for every host h (1 where the hosts differ) and
    likewise r per zone. Minimise sum P y + price per GB x sum w (d_same q + (d_cross - d_same) r).
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    program = _Program(problem)
    if not program.subs:
        return {}
    outcome = milp(
        program.objective(),
        integrality=program.integrality(),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(program.matrix(), program.low, program.high),
        options={"node_limit": program.nodes_max, "mip_rel_gap": 0.0},
    )
    return program.assignment(outcome.x) if outcome.status == 0 else None


class _Program:
    """Rows and columns of the program: x by subtask and host, then y by host, then q and r by pair."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.subs = problem.subtask_list()
        self.flows = _pairs(problem)
        self.hosts = len(problem.hosts)
        self.at = {sub: position for position, sub in enumerate(self.subs)}
        self.low: list[float] = []
        self.high: list[float] = []
        self.cells: list[tuple[int, int, float]] = []
        self._rows_of_subtasks()
        self._rows_of_hosts()
        self._rows_of_pairs()

    @property
    def width(self) -> int:
        return self._q(len(self.flows)) + len(self.flows)

    @property
    def nodes_max(self) -> int:
        """How many nodes the search may take."""
        return max(1, min(PROGRAM_NODES_MAX, PROGRAM_WORK_MAX // max(1, len(self.flows) * self.hosts) ** 2))

    def _x(self, sub: Sub, host: int) -> int:
        return self.at[sub] * self.hosts + host

    def _y(self, host: int) -> int:
        return len(self.subs) * self.hosts + host

    def _q(self, pair: int) -> int:
        return self._y(self.hosts) + pair

    def _row(self, cells: Mapping[int, float], low: float, high: float) -> None:
        row = len(self.low)
        self.cells.extend((row, column, value) for column, value in cells.items())
        self.low.append(low)
        self.high.append(high)

    def _rows_of_subtasks(self) -> None:
        for sub in self.subs:
            self._row({self._x(sub, host): 1.0 for host in range(self.hosts)}, 1.0, 1.0)
            for host in range(self.hosts):
                self._row({self._x(sub, host): 1.0, self._y(host): -1.0}, float("-inf"), 0.0)

    def _rows_of_hosts(self) -> None:
        room, tasks = Room(self.problem), self.problem.tasks
        for host in range(self.hosts):
            columns = [(self._x(sub, host), tasks[sub.task]) for sub in self.subs]
            free = (room.cpu[host], room.memory[host])
            slots = max(0, room.slots[host]) if min(free) >= -TOLERANCE else 0  # overloaded by others: takes nothing
            self._row({column: 1.0 for column, _ in columns}, 0.0, slots)
            self._row({column: task.cpu for column, task in columns}, float("-inf"), max(0.0, free[0]))
            self._row({column: task.memory for column, task in columns}, float("-inf"), max(0.0, free[1]))

    def _rows_of_pairs(self) -> None:
        zones = sorted({host.zone for host in self.problem.hosts})
        members = [[at for at, host in enumerate(self.problem.hosts) if host.zone == zone] for zone in zones]
        for pair, (left, right) in enumerate(self.flows):
            for groups, column in (
                ([[host] for host in range(self.hosts)], self._q(pair)),
                (members, self._q(len(self.flows) + pair)),
            ):
                for group in groups:
                    cells = {self._x(left, host): 1.0 for host in group}
                    cells |= {self._x(right, host): -1.0 for host in group}
                    self._row(cells | {column: -1.0}, float("-inf"), 0.0)

    def objective(self) -> list[float]:
        network = self.problem.request.network
        rates = [network.price_per_gb * rate for rate in self.flows.values()]
        costs = [0.0] * (len(self.subs) * self.hosts) + [host.price for host in self.problem.hosts]
        costs += [rate * network.same_zone for rate in rates]
        costs += [rate * (network.cross_zone - network.same_zone) for rate in rates]
        # Prices of a few thousandths of a dollar, or traffic alone, would vanish in the solver's absolute tolerances.
        largest = max(costs)
        scale = min(1000.0 / largest, SCALE_MAX) if largest else 1.0
        return [cost * scale for cost in costs]

    def integrality(self) -> list[int]:
        return [1] * self._q(0) + [0] * (self.width - self._q(0))

    def matrix(self) -> Any:
        from scipy.sparse import csr_array

        rows, columns, values = zip(*self.cells, strict=True)
        return csr_array((values, (rows, columns)), shape=(len(self.low), self.width))

    def assignment(self, solution: Any) -> dict[Sub, int]:
        return {sub: max(range(self.hosts), key=lambda host: float(solution[self._x(sub, host)])) for sub in self.subs}


def total_per_s(problem: Problem, assignment: Mapping[Sub, int]) -> float:
    """Return rent plus communication of an assignment [$/s]."""
    return cost_figures(problem, assignment).total_per_s
