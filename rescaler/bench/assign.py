"""Learner assignment at scale: seconds a round, moves against the minimum, rounds against the bound.

A case is a cluster that hosts join, played until it has converged: a learner is ready so many rounds after it began. Times are
processor seconds of the whole round (`rescaler.learners.assign`), input objects made beforehand. What it does not do: restore
state.

Beside ours stand the figures of Kafka Streams 4.0.0's high-availability assignor (KIP-441) on one core, as they were given for
the same sizes; they are not measured here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from rescaler.learners import assign
from rescaler.learners_model import Host, Limits, MoveKind, Replica, Round, Task, Version, bands, exact_factor

_BEHIND = 1_000_000
"""Lag of a learner that is not ready."""


@dataclass(frozen=True, slots=True)
class Case:
    """Even load on ``hosts`` hosts, and ``joining`` hosts more."""

    name: str
    tasks: int
    hosts: int
    joining: int
    factor: str = "0"
    version: Version = Version.V2
    standbys: int = 0
    """Per task, before."""
    num_standbys: int = 0
    """Per task, wanted."""
    max_learners: int | None = None
    rounds_until_ready: int = 1
    capacities: tuple[int, ...] = (1,)
    """By hosts in turn."""


@dataclass(frozen=True, slots=True)
class Published:
    """What Kafka Streams 4.0.0's high-availability assignor does with the same sizes; None: it was not told."""

    case: str
    round_s: str
    moves: int | None
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case, played until it had converged."""

    case: Case
    round_s: tuple[float, ...]
    """Processor seconds, by round; the last round confirms that nothing moves any more."""
    moves: int
    """Actives that changed their host."""
    minimum: int
    rounds: int
    """Until it had converged."""
    bound: int

    @property
    def holds(self) -> bool:
        """Whether moves are the minimum and rounds within the bound."""
        return self.moves == self.minimum and self.rounds <= self.bound

    def as_json(self) -> dict[str, Any]:
        """The outcome for a program."""
        return {
            "case": self.case.name,
            "tasks": self.case.tasks,
            "hosts": self.case.hosts,
            "joining": self.case.joining,
            "round_s": [round(seconds, 3) for seconds in self.round_s],
            "round_s_max": round(max(self.round_s), 3),
            "moves": self.moves,
            "moves_minimum": self.minimum,
            "rounds": self.rounds,
            "rounds_bound": self.bound,
        }


SIZES = (
    Case("1,000 tasks, 9 + 1 hosts, 2 learners", 1_000, 9, 1, max_learners=2),
    Case("10,000 tasks, 50 + 5 hosts", 10_000, 50, 5),
    Case("30,000 tasks, 100 + 10 hosts", 30_000, 100, 10),
    Case("100,000 tasks, 100 + 10 hosts", 100_000, 100, 10),
)
PUBLISHED = (
    Published(SIZES[0].name, "-", 892, 447),
    Published(SIZES[1].name, "1.6 to 3.4", 9_050),
    Published(SIZES[2].name, "34", None),
    Published(SIZES[3].name, "not done in 150", None),
)
_LARGE = ("100,000 tasks", 100_000, 100, 10)
VARIANTS = (
    Case("band of factor 1", *_LARGE[1:], factor="1"),
    Case("V1, new hosts only", *_LARGE[1:], version=Version.V1),
    Case("capacities 1, 2, 3", *_LARGE[1:], capacities=(1, 2, 3)),
    Case("1,000 learners at a time, 2 rounds each", *_LARGE[1:], max_learners=1_000, rounds_until_ready=2),
    Case("one standby each", *_LARGE[1:], standbys=1, num_standbys=1),
    Case("two standbys each", *_LARGE[1:], standbys=2, num_standbys=2),
    Case("two standbys each are wanted, none is there", *_LARGE[1:], num_standbys=2),
    Case("two standbys each are there, none is wanted", *_LARGE[1:], standbys=2),
)


def play(case: Case) -> Outcome:
    """Rounds until nothing moves any more."""
    hosts, tasks = _cluster(case)
    minimum = _minimum(case, hosts, tasks)
    limits = Limits(num_standbys=case.num_standbys, max_learners=case.max_learners)
    seconds: list[float] = []
    moves, rounds = 0, 0
    ages: dict[str, int] = {}
    while True:
        started = time.process_time()
        decided = assign(hosts, tasks, version=case.version, balancing_factor=case.factor, limits=limits)
        seconds.append(time.process_time() - started)
        moves += sum(move.kind is MoveKind.PROMOTE for move in decided.moves)
        if decided.converged and not decided.moves:
            break
        rounds += 1
        tasks = list(_observed(decided, ages, case.rounds_until_ready))
    learners = case.max_learners or max(1, minimum)
    return Outcome(case, tuple(seconds), moves, minimum, rounds, ceil(minimum / learners) * (case.rounds_until_ready + 1))


def _cluster(case: Case) -> tuple[list[Host], list[Task]]:
    weights = [case.capacities[at % len(case.capacities)] for at in range(case.hosts + case.joining)]
    hosts = [Host(f"host-{at:04d}", weight, new=at >= case.hosts) for at, weight in enumerate(weights)]
    # Even by capacity: each host stands in the cycle as often as it weighs.
    cycle = [at for at in range(case.hosts) for _ in range(weights[at])]
    tasks = []
    for at in range(case.tasks):
        owner = cycle[at % len(cycle)]
        standbys = [Replica(f"host-{(owner + offset) % case.hosts:04d}", 0) for offset in range(1, case.standbys + 1)]
        tasks.append(Task(f"task-{at:06d}", f"host-{owner:04d}", (), tuple(standbys)))
    return hosts, tasks


def _minimum(case: Case, hosts: list[Host], tasks: list[Task]) -> int:
    """The fewest moves that lead into the bands, or (V1) fill the new hosts."""
    found = bands({host.id: host for host in hosts}, len(tasks), exact_factor(case.factor))
    loads = dict.fromkeys(found, 0)
    for task in tasks:
        loads[str(task.active)] += 1
    if case.version is Version.V1:
        return sum(max(0, found[host.id].share - loads[host.id]) for host in hosts if host.new)
    shortages = sum(max(0, band.low - loads[name]) for name, band in found.items())
    excesses = sum(max(0, loads[name] - band.high) for name, band in found.items())
    return max(shortages, excesses)


def _observed(decided: Round, ages: dict[str, int], rounds_until_ready: int) -> Iterator[Task]:
    """What the next round sees: learners one round older, standbys caught up. ``ages`` is kept by learning task."""
    for task in decided.tasks:
        learners: tuple[Replica, ...] = ()
        if task.learners:
            ages[task.id] = ages.get(task.id, 0) + 1
            learners = (Replica(task.learners[0], 0 if ages[task.id] >= rounds_until_ready else _BEHIND),)
        else:
            ages.pop(task.id, None)
        yield Task(task.id, task.active, learners, tuple([Replica(host, 0) for host in task.standbys]))
