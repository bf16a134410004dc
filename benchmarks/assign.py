"""`surescale dev bench assign`: learner assignment at scale. Measures seconds a round, moves and rounds against their bounds.

In each case hosts join a cluster, and rounds run until the cluster has converged. A learner is ready a fixed number of rounds
after it starts. Times are processor seconds of a whole round (`rescaler.learners.assign`); the input objects are made
beforehand. No state is restored.

The tables also show figures of Kafka Streams 4.0.0's high-availability assignor (KIP-441) on one core. They are given figures
for the same sizes, not measured here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil

import click
from rich.console import Console
from rich.table import Table

from benchmarks.machine import Conditions, conditions, conditions_line
from surescale.rescaler.learners import assign
from surescale.rescaler.learners_model import (
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    MoveKind,
    Replica,
    Round,
    StatefulTask,
    bands,
    exact_factor,
)
from surescale.runtime import options

TARGET_S = 1.0
"""The longest round allowed."""
_BEHIND = 1_000_000
"""Lag of a learner that is not ready."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster with even load on ``hosts`` hosts, which ``joining`` more hosts join."""

    name: str
    tasks: int
    hosts: int
    joining: int
    factor: str = "0"
    version: LearnerVersion = LearnerVersion.V2
    standbys: int = 0
    """Per task at the start."""
    num_standbys: int = 0
    """Per task, as configured."""
    max_learners: int | None = None
    rounds_until_ready: int = 1
    capacities: tuple[int, ...] = (1,)
    """Given to the hosts in turn."""


@dataclass(frozen=True, slots=True)
class Published:
    """Given figures of Kafka Streams 4.0.0's high-availability assignor for the same sizes; None: not given."""

    case: str
    round_s: str
    moves: int | None
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case, run until it converged."""

    case: Case
    round_s: tuple[float, ...]
    """Processor seconds by round. The last round confirms that nothing moves any more."""
    moves: int
    """Active replicas that changed hosts."""
    minimum: int
    rounds: int
    """Rounds until it converged."""
    bound: int

    @property
    def holds(self) -> bool:
        """Return whether it moved the minimum and stayed within the bound on rounds."""
        return self.moves == self.minimum and self.rounds <= self.bound

    def as_json(self) -> dict[str, object]:
        """Return the figures for the JSON report."""
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
    Case("V1, new hosts only", *_LARGE[1:], version=LearnerVersion.V1),
    Case("capacities 1, 2, 3", *_LARGE[1:], capacities=(1, 2, 3)),
    Case("1,000 learners at a time, 2 rounds each", *_LARGE[1:], max_learners=1_000, rounds_until_ready=2),
    Case("one standby each", *_LARGE[1:], standbys=1, num_standbys=1),
    Case("two standbys each", *_LARGE[1:], standbys=2, num_standbys=2),
    Case("two standbys each configured, none there yet", *_LARGE[1:], num_standbys=2),
    Case("two standbys each there, none configured", *_LARGE[1:], standbys=2),
)


def run_case(case: Case) -> CaseResult:
    """Run rounds until nothing moves any more."""
    hosts, tasks = _cluster(case)
    minimum = _minimum(case, hosts, tasks)
    limits = LearnerLimits(num_standbys=case.num_standbys, max_learners=case.max_learners)
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
    return CaseResult(case, tuple(seconds), moves, minimum, rounds, ceil(minimum / learners) * (case.rounds_until_ready + 1))


def _cluster(case: Case) -> tuple[list[LearnerHost], list[StatefulTask]]:
    weights = [case.capacities[at % len(case.capacities)] for at in range(case.hosts + case.joining)]
    hosts = [LearnerHost(f"host-{at:04d}", weight, new=at >= case.hosts) for at, weight in enumerate(weights)]
    # Load is even by capacity: each host appears in the cycle once per unit of its weight.
    cycle = [at for at in range(case.hosts) for _ in range(weights[at])]
    tasks = []
    for at in range(case.tasks):
        owner = cycle[at % len(cycle)]
        standbys = [Replica(f"host-{(owner + offset) % case.hosts:04d}", 0) for offset in range(1, case.standbys + 1)]
        tasks.append(StatefulTask(f"task-{at:06d}", f"host-{owner:04d}", (), tuple(standbys)))
    return hosts, tasks


def _minimum(case: Case, hosts: list[LearnerHost], tasks: list[StatefulTask]) -> int:
    """Return the fewest moves that bring every host into its band, or (V1) fill the new hosts."""
    found = bands({host.id: host for host in hosts}, len(tasks), exact_factor(case.factor))
    loads = dict.fromkeys(found, 0)
    for task in tasks:
        loads[str(task.active)] += 1
    if case.version is LearnerVersion.V1:
        return sum(max(0, found[host.id].share - loads[host.id]) for host in hosts if host.new)
    shortages = sum(max(0, band.low - loads[name]) for name, band in found.items())
    excesses = sum(max(0, loads[name] - band.high) for name, band in found.items())
    return max(shortages, excesses)


def _observed(decided: Round, ages: dict[str, int], rounds_until_ready: int) -> Iterator[StatefulTask]:
    """Yield the tasks as the next round sees them: learners one round older, standbys caught up.

    ``ages`` holds the age of each task's learner, in rounds.
    """
    for task in decided.tasks:
        learners: tuple[Replica, ...] = ()
        if task.learners:
            ages[task.id] = ages.get(task.id, 0) + 1
            learners = (Replica(task.learners[0], 0 if ages[task.id] >= rounds_until_ready else _BEHIND),)
        else:
            ages.pop(task.id, None)
        yield StatefulTask(task.id, task.active, learners, tuple([Replica(host, 0) for host in task.standbys]))


@click.command("assign")
@options.as_json
def command(as_json: bool) -> None:
    """Learner assignment of 100,000 tasks on 110 hosts.

    Measures seconds a round, moves, and rounds until converged, for several sizes up to that.

    Exits with 1 if a case moves more than the minimum or takes more rounds than its bound. Times are processor seconds and are
    only printed. Takes about a minute.
    """
    taken_under = conditions()
    if not as_json:
        click.echo(conditions_line(taken_under))
    sizes, variants = [run_case(case) for case in SIZES], [run_case(case) for case in VARIANTS]
    if as_json:
        click.echo(json.dumps(_document(taken_under, sizes, variants), indent=2))
    else:
        _show(sizes, variants)
    sys.exit(0 if all(result.holds for result in sizes + variants) else 1)


def _document(taken_under: Conditions, sizes: list[CaseResult], variants: list[CaseResult]) -> dict[str, object]:
    return {
        "conditions": taken_under,
        "target_round_s": TARGET_S,
        "sizes": [result.as_json() for result in sizes],
        "kafka_streams_4_0_given": [asdict(given) for given in PUBLISHED],
        "variants_of_100000_tasks": [result.as_json() for result in variants],
    }


def _show(sizes: list[CaseResult], variants: list[CaseResult]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table("case", "s a round", "given, s", "moves", "minimum", "given", "rounds", "bound", "given", title="Sizes")
    for result, given in zip(sizes, PUBLISHED, strict=True):
        moves, rounds = (f"{value:,}" if value else "-" for value in (given.moves, given.rounds))
        cells = [f"{result.moves:,}", f"{result.minimum:,}", moves, str(result.rounds), str(result.bound), rounds]
        table.add_row(result.case.name, _seconds(result), given.round_s, *cells)
    console.print(table)
    console.print("given: Kafka Streams 4.0.0, high-availability assignor, one core; not measured here.")
    table = Table("case", "s a round", "moves", "minimum", "rounds", "bound", title="100,000 tasks, 100 + 10 hosts")
    for result in variants:
        cells = [f"{result.moves:,}", f"{result.minimum:,}", str(result.rounds), str(result.bound)]
        table.add_row(result.case.name, _seconds(result), *cells)
    console.print(table)
    worst = max(max(result.round_s) for result in sizes + variants)
    console.print(f"longest round: {worst:.2f} s of processor time (target: {TARGET_S:g} s)")


def _seconds(result: CaseResult) -> str:
    low, high = min(result.round_s), max(result.round_s)
    return f"{low:.3f} to {high:.3f}" if high < 0.1 else f"{low:.2f} to {high:.2f}"
