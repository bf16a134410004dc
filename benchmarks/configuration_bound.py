"""A lower bound on rent from every way to fill a host with whole subtasks: the configuration linear program.

A subtask of shape s pays pi_s. Let V(host, pi) be the most a host can earn with any set of whole subtasks that fits. For any
pi >= 0, sum_s n_s pi_s - sum_hosts max(0, V(host, pi) - price) is at most the least rent (a Lagrangian bound: the demand is
priced out). Cutting planes find the best pi. Unlike covering each resource by itself, this bound knows which subtasks do not fit
together. It does not know that a host is rented whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surescale.rescaler.placement.model import TOLERANCE
from surescale.rescaler.placement.problem import Problem
from surescale.rescaler.placement.room import Room

_ROUNDS_MAX = 200
_CLOSE = 1e-9
"""The search ends when the relaxation is this close to the bound, as a share of it."""

Shape = tuple[float, float]
"""Cores and GB of one subtask."""
Kind = tuple[float, float, int]
"""Free cores, GB and slots of a host."""


@dataclass(slots=True)
class _Program:
    """The cutting-plane program: shapes with their counts, the fillings found so far and the prices, by kind of host."""

    shapes: list[Shape]
    counts: list[int]
    prices: dict[Kind, list[float]]
    fillings: dict[Kind, list[Sequence[float]]] = field(default_factory=dict)


def configuration_bound(problem: Problem) -> float:
    """Return the bound [$/s]; 0 for a job without subtasks.

    Hosts with equal room are solved once, so it is fast when there are few kinds of hosts.
    """
    counts: dict[Shape, int] = {}
    for task in problem.tasks:
        if task.parallelism:
            counts[task.cpu, task.memory] = counts.get((task.cpu, task.memory), 0) + task.parallelism
    if not counts:
        return 0.0
    room = Room(problem)
    prices: dict[Kind, list[float]] = {}
    for at, host in enumerate(problem.hosts):
        kind = (round(room.cpu[at], 9), round(room.memory[at], 9), room.slots[at])
        if kind[2] > 0 and min(kind[0], kind[1]) >= 0:
            prices.setdefault(kind, []).append(host.price)
    program = _Program(sorted(counts), [counts[shape] for shape in sorted(counts)], prices)
    for kind in prices:
        unit = np.eye(len(program.shapes))
        program.fillings[kind] = [_fullest(kind, program.shapes, one)[1] for one in unit]
    return _cut(program)


def _cut(program: _Program) -> float:
    best = 0.0
    for _ in range(_ROUNDS_MAX):
        upper, pays, worth = _relaxed(program)
        value, is_new = float(np.dot(program.counts, pays)), False
        for kind, prices in program.prices.items():
            earned, filling = _fullest(kind, program.shapes, pays)
            value -= sum(max(0.0, earned - price) for price in prices)
            if earned > worth[kind] * (1 + _CLOSE):
                program.fillings[kind].append(filling)
                is_new = True
        best = max(best, value)
        if not is_new or upper - best <= _CLOSE * upper:
            break
    return best


def _relaxed(program: _Program) -> tuple[float, Any, dict[Kind, float]]:
    """Return the best pi if hosts can only be filled in the ways found so far. Variables: pi, V by kind, surplus by host."""
    from scipy.optimize import linprog
    from scipy.sparse import lil_matrix

    shapes, kinds = len(program.shapes), list(program.prices)
    hosts = [(at, price) for at, kind in enumerate(kinds) for price in program.prices[kind]]
    cuts = [(at, filling) for at, kind in enumerate(kinds) for filling in program.fillings[kind]]
    matrix = lil_matrix((len(cuts) + len(hosts), shapes + len(kinds) + len(hosts)))
    limits = np.zeros(len(cuts) + len(hosts))
    for row, (at, filling) in enumerate(cuts):
        matrix[row, :shapes] = filling
        matrix[row, shapes + at] = -1
    for number, (at, price) in enumerate(hosts):
        row = len(cuts) + number
        matrix[row, shapes + at], matrix[row, shapes + len(kinds) + number] = 1, -1
        limits[row] = price
    gains = np.concatenate((-np.array(program.counts, dtype=float), np.zeros(len(kinds)), np.ones(len(hosts))))
    found = linprog(gains, A_ub=matrix.tocsr(), b_ub=limits, bounds=(0, None), method="highs")
    if found.status != 0:  # unbounded: no way found so far fits everything on the hosts
        raise ValueError("no placement: the hosts cannot take all subtasks")
    worth = {kind: float(found.x[shapes + at]) for at, kind in enumerate(kinds)}
    return -float(found.fun), found.x[:shapes], worth


def _fullest(kind: Kind, shapes: Sequence[Shape], pays: Any) -> tuple[float, Sequence[float]]:
    """Return the most a host can earn, and with how many subtasks of each shape."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    needs = np.array([[cpu for cpu, _ in shapes], [memory for _, memory in shapes], [1.0] * len(shapes)])
    most = np.array([kind[0] + TOLERANCE, kind[1] + TOLERANCE, kind[2]])
    found = milp(
        -np.asarray(pays),
        constraints=LinearConstraint(needs, -np.inf, most),
        integrality=np.ones(len(shapes)),
        bounds=Bounds(0, kind[2]),
        options={"mip_rel_gap": 0.0},  # the default may stop a ten-thousandth early, which would not be a bound
    )
    return -float(found.fun), np.round(found.x)
