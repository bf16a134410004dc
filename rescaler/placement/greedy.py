"""Greedy placement: Flink's default, round robin, first fit, CETSA, LBA-CE, GS-BFD and GIO. One pass over the subtasks each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum, inf

import numpy as np

from surescale.rescaler.placement.loads import host_uses, load_figures
from surescale.rescaler.placement.model import TOLERANCE, Sub
from surescale.rescaler.placement.order import ascending, descending, twelve_digits
from surescale.rescaler.placement.problem import Problem
from surescale.rescaler.placement.room import Columns, FirstFit, Floats, Room, first_smallest, place_first_fit

_MASK = 2**64 - 1


def split_mix_64(seed: int) -> Iterator[int]:
    """Yield SplitMix64's 64-bit numbers (Steele, Lea, Flood 2014); seed 0 starts with e220a8397b1dcdaf."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        yield mixed ^ (mixed >> 31)


def default(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place like Flink's default: draw one slot evenly from the free slots of all hosts that fit, once per subtask."""
    draws = split_mix_64(problem.request.seed)
    columns = Columns(room, range(len(problem.hosts)))
    placed: dict[Sub, int] = {}
    for sub in todo:
        upto = np.cumsum(np.where(columns.fitting(sub.task), columns.slots, 0))
        total = int(upto[-1]) if len(upto) else 0
        if total:
            slot = next(draws) % total
            placed[sub] = columns.take(int(np.searchsorted(upto, slot, side="right")), sub.task)
    return placed


def round_robin(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place each subtask on the first fitting host from a pointer on, cyclically; the pointer then moves past it."""
    hosts = len(problem.hosts)
    tree = FirstFit(room, range(hosts))
    placed: dict[Sub, int] = {}
    pointer = 0
    for sub in todo:
        host = tree.first(sub.task, pointer)
        if host is None:
            host = tree.first(sub.task)
        if host is not None:
            room.take(host, sub.task)
            tree.refresh(host)
            placed[sub] = host
            pointer = (host + 1) % hosts
    return placed


def first_fit(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place each subtask on the first fitting host in the request's order."""
    return place_first_fit(room, todo, range(len(problem.hosts)))


def gio(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in placing order) by first fit by price, then improve.

    Empty expensive hosts into the others, or swap one for a cheaper unused host. The paper gives this baseline one sentence, so
    the improvement step is our reading. It is skipped when subtasks stay on hosts, since it would move them. Subtasks that fit
    nowhere are left out of the answer.
    """
    by_price = ascending(range(len(problem.hosts)), lambda host: problem.hosts[host].price)
    placed = place_first_fit(room, todo, by_price)
    return placed if problem.request.incremental else _Improvement(problem, room, placed, by_price).run(todo)


class _Improvement:
    """The state of the improvement step: the assignment, and first-fit search over used and unused hosts.

    It ends: emptying a host lowers the number of used hosts; a swap keeps the number and lowers the rent.
    """

    def __init__(self, problem: Problem, room: Room, placed: dict[Sub, int], by_price: Sequence[int]) -> None:
        self.room = room
        self.by_price = by_price
        self.prices = [twelve_digits(host.price) for host in problem.hosts]
        self.on: dict[int, list[Sub]] = {}
        for sub, host in placed.items():
            self.on.setdefault(host, []).append(sub)
        self.used = FirstFit(room, by_price, [host for host in by_price if host in self.on])
        self.unused = FirstFit(room, by_price, [host for host in by_price if host not in self.on])

    def run(self, todo: Sequence[Sub]) -> dict[Sub, int]:
        """Improve until a full pass changes nothing; return the assignment in the order of `todo`."""
        position = {sub: at for at, sub in enumerate(todo)}
        while any(self._empty(host, position) or self._swap(host) for host in reversed(self.by_price) if host in self.on):
            pass
        final = {sub: host for host, subs in self.on.items() for sub in subs}
        return {sub: final[sub] for sub in todo if sub in final}

    def _empty(self, host: int, position: dict[Sub, int]) -> bool:
        """Move all subtasks of `host` to other used hosts, first fit by price; undo if one finds no room."""
        subs = sorted(self.on[host], key=position.__getitem__)
        self.used.leave_out(host)
        moved: list[tuple[Sub, int]] = []
        for sub in subs:
            target = self.used.first(sub.task)
            if target is None:
                break
            self.room.take(target, sub.task)
            self.used.refresh(target)
            moved.append((sub, target))
        if len(moved) < len(subs):
            for sub, target in reversed(moved):
                self.room.release(target, sub.task)
                self.used.refresh(target)
            self.used.refresh(host)
            return False
        for sub, target in moved:
            self.on[target].append(sub)
        self._vacate(host)
        return True

    def _swap(self, host: int) -> bool:
        """Move all subtasks of `host` to the cheapest unused host that is cheaper and takes them all."""
        subs = self.on[host]
        cpu = sum(self.room.demand[sub.task][0] for sub in subs)
        memory = sum(self.room.demand[sub.task][1] for sub in subs)
        target = self.unused.first_with(len(subs), cpu, memory)
        if target is None or self.prices[target] >= self.prices[host]:
            return False
        self.on[target] = list(subs)
        for sub in subs:
            self.room.take(target, sub.task)
        self.unused.leave_out(target)
        self.used.refresh(target)
        self._vacate(host)
        return True

    def _vacate(self, host: int) -> None:
        for sub in self.on.pop(host):
            self.room.release(host, sub.task)
        self.used.leave_out(host)
        self.unused.refresh(host)


def gs_bfd(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` by best-fit decreasing: largest subtasks first, each on the used host it fills best.

    If no used host fits, the cheapest unused host that fits is opened, and of equally cheap ones the one it fills best. Subtasks
    that fit nowhere are left out of the answer.
    """
    if not problem.hosts:
        return {}
    params = problem.request.params
    cpu_max = max(host.cpu for host in problem.hosts)
    memory_max = max(host.memory for host in problem.hosts)
    sizes = [max(task.cpu / cpu_max, task.memory / memory_max) for task in problem.tasks]
    columns = Columns(room, range(len(problem.hosts)))
    prices = np.array([twelve_digits(host.price) for host in problem.hosts])
    used = np.array([own > 0 for own in room.own])
    placed: dict[Sub, int] = {}
    for at in descending(range(len(todo)), lambda position: sizes[todo[position].task]):
        sub = todo[at]
        cpu, memory = room.demand[sub.task]
        fitting = columns.fitting(sub.task)
        left = params.alpha * (columns.cpu - cpu) / cpu_max + params.beta * (columns.memory - memory) / memory_max
        host = first_smallest(np.where(fitting & used, left, np.inf))
        if host is None:
            host = _host_to_open(np.where(fitting, prices, np.inf), left)
        if host is not None:
            placed[sub] = columns.take(host, sub.task)
            used[host] = True
    return placed


def _host_to_open(prices: Floats, left: Floats) -> int | None:
    """Return the cheapest host (infinite price: not available), of equally cheap ones the one with the least left over."""
    cheapest = prices.min()
    return None if cheapest == np.inf else first_smallest(np.where(prices == cheapest, left, np.inf))


def cetsa(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in placing order) by the paper's Algorithm 1: first fit by cost efficiency, best first, never revised.

    Subtasks that fit nowhere are left out of the answer. Hosts on which subtasks stay are filled first: they are already paid
    for, so one more subtask there is free.
    """
    paid = [host for host in problem.by_efficiency if room.own[host]]
    rest = [host for host in problem.by_efficiency if not room.own[host]]
    return place_first_fit(room, todo, paid + rest)


def repair_last_host(problem: Problem, room: Room, kept: Mapping[Sub, int], placed: Mapping[Sub, int]) -> dict[Sub, int]:
    """Move everything from the host opened last to the cheapest unused host that takes it, if that is cheaper.

    Greedy filling overshoots most on its last host, so this repair costs almost nothing. `room` is the room
    left after `placed`. Hosts that hold kept subtasks are left alone.
    """
    held = set(kept.values())
    opened = [host for host in dict.fromkeys(placed.values()) if host not in held]
    if not opened:
        return dict(placed)
    last = opened[-1]
    tasks = [sub.task for sub, host in placed.items() if host == last]
    cpu = sum(problem.tasks[task].cpu for task in tasks)
    memory = sum(problem.tasks[task].memory for task in tasks)
    price = twelve_digits(problem.hosts[last].price)
    for host in ascending(range(len(problem.hosts)), lambda at: problem.hosts[at].price):
        if twelve_digits(problem.hosts[host].price) >= price:
            break
        free = room.slots[host] >= len(tasks) and room.own[host] == 0
        if free and cpu <= room.cpu[host] + TOLERANCE and memory <= room.memory[host] + TOLERANCE:
            return {sub: host if at == last else at for sub, at in placed.items()}
    return dict(placed)


NEAR = 1e-12
"""Relative slack of a worth against the average, and how much a deviation must fall to count as lower."""


def lba_ce(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in placing order) by Algorithm 2 of the paper: cost efficiency times idleness ranks hosts, a threshold evens.

    A host's worth is 1 / (cost efficiency x busyness) (eq. 24; the paper's factor X is the same for all hosts and changes
    nothing). Hosts of at least average worth are filled first, in order, and hosts without room retire; then the others open. One
    repair of ours: when both lists are used up, the first host that fits takes a subtask, so that one large subtask early on does
    not ban the small ones from a host forever. Worth does not change during one call. Subtasks that fit nowhere are left out.
    """
    worth = worths(problem)
    ranked = descending(range(len(worth)), worth.__getitem__)
    average = inf if inf in worth else fsum(value / len(worth) for value in worth)
    high = [host for host in ranked if worth[host] >= average * (1 - NEAR)]
    low = [host for host in ranked if worth[host] < average * (1 - NEAR)]
    return _fill(room, todo, high, low, ranked)


def worths(problem: Problem) -> list[float]:
    """Return the worth of every host (eq. 24): 0 if the host can take nothing, infinite if it costs nothing."""
    values = []
    for efficiency, busy in zip(problem.efficiency, busyness(problem), strict=True):
        product = efficiency * busy if efficiency < inf else inf
        values.append(1 / product if product > 0 else inf)
    return values


def busyness(problem: Problem) -> list[float]:
    """Return the busyness of every host (eq. 23): mean share of time above the cluster's average CPU, at least the floor.

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

    Each placed subtask, in placing order, goes to the host in use with the lowest load after it. `room` is the room before
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
