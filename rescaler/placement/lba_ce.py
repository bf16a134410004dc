"""LBA-CE (Algorithm 2 of the paper): cost efficiency times idleness ranks the hosts, a threshold keeps them even.

F = 1 / (CE B) (eq. 24; the paper's factor X is the same for all hosts and changes nothing). Hosts with F of at least
the average AF form HFL, the others LFL; HFL is filled in order, hosts without room retire, then LFL opens. One repair of
ours: when both lists are used up, the first host that fits takes a subtask, so that one large subtask early on does not ban the
small ones from a host forever. F does not change during one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, inf

import numpy as np

from .columns import Columns, first_smallest
from .loads import host_uses, load_figures
from .model import Sub
from .order import descending
from .problem import Problem
from .room import FirstFit, Room

NEAR = 1e-12
"""Relative slack of F >= AF, and how much a deviation must fall to count as lower."""


def assign(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in STL order); subtasks that fit nowhere are left out of the answer."""
    worth = worths(problem)
    ranked = descending(range(len(worth)), worth.__getitem__)
    average = inf if inf in worth else fsum(value / len(worth) for value in worth)
    high = [host for host in ranked if worth[host] >= average * (1 - NEAR)]
    low = [host for host in ranked if worth[host] < average * (1 - NEAR)]
    return _fill(room, todo, high, low, ranked)


def worths(problem: Problem) -> list[float]:
    """Return F of every host (eq. 24): 0 if the host can take nothing, infinite if it costs nothing."""
    values = []
    for efficiency, busy in zip(problem.efficiency, busyness(problem), strict=True):
        product = efficiency * busy if efficiency < inf else inf
        values.append(1 / product if product > 0 else inf)
    return values


def busyness(problem: Problem) -> list[float]:
    """Return B of every host (eq. 23): mean share of time above the cluster's average CPU, at least the floor.

    Without history: the current CPU utilisation, by others and by the job's own running subtasks.
    """
    own = problem.running_cpu()
    values = []
    for host, cpu in zip(problem.hosts, own, strict=True):
        shares = host.history.busy
        busy = fsum(shares) / len(shares) if shares else (host.used_cpu + cpu) / host.cpu
        values.append(max(problem.request.params.busy_floor, busy))
    return values


def _fill(room: Room, todo: Sequence[Sub], high: Sequence[int], low: Sequence[int], ranked: Sequence[int]) -> dict[Sub, int]:
    queue, reserve, at = list(high), list(low), 0
    last_resort: FirstFit | None = None
    placed: dict[Sub, int] = {}
    for sub in todo:
        host: int | None = None
        while True:
            while at < len(queue) and not room.fits(queue[at], sub.task):
                at += 1
            if at < len(queue):
                host = queue[at]
            elif reserve:
                queue, reserve, at = reserve, [], 0
                continue
            else:
                last_resort = last_resort or FirstFit(room, ranked)
                host = last_resort.first(sub.task)
            break
        if host is not None:
            room.take(host, sub.task)
            placed[sub] = host
            if last_resort is not None:
                last_resort.refresh(host)
    return placed


def spread(problem: Problem, room: Room, kept: Mapping[Sub, int], placed: Mapping[Sub, int]) -> dict[Sub, int] | None:
    """Even out the load over the hosts that `placed` chose: same rent, lower deviation.

    Each placed subtask, in STL order, goes to the host in use with the lowest load after it. `room` is the room before
    `placed`. None if not all fit or the deviation over used hosts does not fall.
    """
    chosen = {*kept.values(), *placed.values()}
    worth = worths(problem)
    columns = Columns(room, [host for host in descending(range(len(worth)), worth.__getitem__) if host in chosen])
    again = _fill_evenly(problem, columns, list(placed))
    if len(again) < len(placed):
        return None
    before, after = (load_figures(host_uses(problem, {**kept, **each})).std_used for each in (placed, again))
    return again if before - after > NEAR else None


def _fill_evenly(problem: Problem, columns: Columns, todo: Sequence[Sub]) -> dict[Sub, int]:
    params, hosts = problem.request.params, [problem.hosts[host] for host in columns.order]
    per_cpu = np.array([params.alpha / host.cpu for host in hosts])
    per_memory = np.array([params.beta / host.memory for host in hosts])
    cpu_limit = np.array([problem.delta * host.cpu for host in hosts])
    memory_limit = np.array([problem.delta * host.memory for host in hosts])
    placed: dict[Sub, int] = {}
    for sub in todo:
        cpu, memory = columns.room.demand[sub.task]
        load = (cpu_limit - columns.cpu + cpu) * per_cpu + (memory_limit - columns.memory + memory) * per_memory
        at = first_smallest(np.where(columns.fitting(sub.task), load, np.inf))
        if at is not None:
            placed[sub] = columns.take(at, sub.task)
    return placed
