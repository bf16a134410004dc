"""One round of learner assignment: moves stateful tasks between hosts without a pause.

`assign` takes the hosts and tasks as observed and returns the next small step: ready learners take over, orphans are
placed, learners start where load is out of its band, standbys are kept. An active never leaves a live host before a learner of
its task is ready. Each round computes everything from what is observed; nothing is remembered between rounds.

Why it ends: let Phi be shortages + excesses of projected load. Every learner started lowers Phi by at least one, and nothing
raises it: a takeover does not change projected load, and learners in flight are already counted.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction

from surescale.rescaler.learners_model import (
    Assignment,
    HostLoad,
    HostState,
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    Move,
    MoveKind,
    Replica,
    Round,
    StatefulTask,
    bands,
    check,
    exact_factor,
)

_NONE = -1
"""No host."""

_ID = operator.attrgetter("id")

_Candidates = list[tuple[int, int]]
"""Replicas of one task on running hosts as (lag, host), best first."""


def assign(
    hosts: Iterable[LearnerHost],
    tasks: Iterable[StatefulTask],
    *,
    version: LearnerVersion = LearnerVersion.V2,
    balancing_factor: Fraction | float | str = 1,
    limits: LearnerLimits | None = None,
    begins: bool = True,
) -> Round:
    """Decide one round: actives, then learners, then standbys. The order of hosts and tasks does not matter.

    ``balancing_factor`` r widens a host's band to ``share / (1 + r) .. share * (1 + r)``. ``begins``: learners may start;
    otherwise existing ones continue. Raises `Refused`.
    """
    ordered_hosts, ordered_tasks = sorted(hosts, key=_ID), sorted(tasks, key=_ID)
    check(ordered_hosts, ordered_tasks)
    board = _Board(ordered_hosts, ordered_tasks, exact_factor(balancing_factor), limits or LearnerLimits())
    board.settle_actives()
    board.keep_learners()
    if begins:
        board.drain(version)
        board.balance(version)
    board.keep_standbys()
    board.add_standbys()
    board.even_standbys()
    return board.result(version)


class _Board:
    """A round in progress. Hosts and tasks are indices into the lists sorted by id, so index order is id order."""

    def __init__(
        self, hosts: Sequence[LearnerHost], tasks: Sequence[StatefulTask], factor: Fraction, limits: LearnerLimits
    ) -> None:
        self.hosts, self.tasks, self.limits = hosts, tasks, limits
        self.index = {host.id: number for number, host in enumerate(hosts)}
        self.is_running = [host.state is HostState.RUNNING for host in hosts]
        self.running = [h for h, running in enumerate(self.is_running) if running]
        self.leaving = [h for h, running in enumerate(self.is_running) if not running]
        self.new = [h for h in self.running if hosts[h].new]
        # Loads per capacity compare exactly as load * unit: the units share one common denominator.
        common = math.lcm(*(host.capacity for host in hosts))
        self.unit = [common // host.capacity for host in hosts]
        by_id = bands({host.id: host for host in hosts}, len(tasks), factor)
        self.low = [by_id[host.id].low for host in hosts]
        self.share = [by_id[host.id].share for host in hosts]
        self.high = [by_id[host.id].high for host in hosts]

        find = self.index.get
        self.before = [_NONE if task.active is None else find(task.active, _NONE) for task in tasks]
        self.owner = list(self.before)
        self.learner = [_NONE] * len(tasks)
        self.learners = {t: self._candidates(task.learners) for t, task in enumerate(tasks) if task.learners}
        self.standbys = {t: self._candidates(task.standbys) for t, task in enumerate(tasks) if task.standbys}
        self.projected = [0] * len(hosts)
        self.in_flight = 0
        self.under_replicated = 0
        self.lagging: list[int] = []
        self.replicas: list[int] = []
        self.with_new_standby: set[int] = set()
        self.new_standbys: set[tuple[int, int]] = set()
        self.replacing: set[int] = set()
        self.is_even = True

    def _candidates(self, replicas: tuple[Replica, ...]) -> _Candidates:
        found = []
        for replica in replicas:
            host = self.index.get(replica.host, _NONE)
            if host != _NONE and self.is_running[host]:
                found.append((replica.lag, host))
        found.sort()
        return found

    # Active

    def settle_actives(self) -> None:
        """Let ready learners take over, and place every orphan."""
        for task in self.learners:
            self._take_over(task)
        homeless = [t for t, owner in enumerate(self.owner) if owner == _NONE and not self._recover(t)]
        self._house(homeless)

    def _take_over(self, task: int) -> None:
        """Make the best learner the owner if it is ready."""
        learners = self.learners[task]
        if learners and learners[0][0] <= self.limits.acceptable_lag:
            self.owner[task] = learners[0][1]
            learners.clear()

    def _recover(self, task: int) -> bool:
        """Give an orphan to a ready standby, else to an unready learner, else to any standby."""
        learners, standbys = self.learners.get(task, []), self.standbys.get(task, [])
        if standbys and (standbys[0][0] <= self.limits.acceptable_lag or not learners):
            lag, self.owner[task] = standbys.pop(0)
        elif learners:
            lag, self.owner[task] = learners[0]
            learners.clear()
        else:
            return False
        if lag > self.limits.acceptable_lag:
            self.lagging.append(task)
        return True

    def _house(self, homeless: list[int]) -> None:
        """Start tasks that have no replica left where the active load per capacity is lowest."""
        loads = self._actives()
        heap = [(loads[h] * self.unit[h], h) for h in self.running]
        heapq.heapify(heap)
        for task in homeless:
            load, host = heap[0]
            self.owner[task] = host
            heapq.heapreplace(heap, (load + self.unit[host], host))
        self.lagging += homeless

    def _actives(self) -> list[int]:
        loads = [0] * len(self.hosts)
        for owner in self.owner:
            if owner != _NONE:
                loads[owner] += 1
        return loads

    # Learners

    def keep_learners(self) -> None:
        """Keep the best unready learner of each task that has one."""
        for task, learners in self.learners.items():
            if learners:
                self.learner[task] = learners[0][1]
                self.in_flight += 1
        for owner, learner in zip(self.owner, self.learner, strict=True):
            self.projected[owner if learner == _NONE else learner] += 1

    def drain(self, version: LearnerVersion) -> None:
        """Start learners for the tasks of leaving hosts: on new hosts up to their share (V1), then within every band."""
        if version is LearnerVersion.V1:
            self._shift(self.leaving, [0] * len(self.hosts), self.new, self.share)
        for fill in (self.low, self.high):
            self._shift(self.leaving, [0] * len(self.hosts), self.running, fill)

    def balance(self, version: LearnerVersion) -> None:
        """Balance: V1 fills new hosts up to their share, V2 brings every host into its band."""
        if version is LearnerVersion.V1:
            self._shift(self.running, self.high, self.new, self.share)
            self._shift(self.running, self.share, self.new, self.share)
        else:
            self._shift(self.running, self.high, self.running, self.low)
            self._shift(self.running, self.low, self.running, self.low)
            self._shift(self.running, self.high, self.running, self.high)

    def _shift(self, donors: list[int], keep: list[int], takers: list[int], fill: list[int]) -> None:
        """Start learners from donors above ``keep`` to takers below ``fill``, while there are both.

        Donors only lose and takers only gain, and no host is both, so one pass over the standbys, least lag first, finds every
        learner that can start from a standby.
        """
        givers = [h for h in donors if self.projected[h] > keep[h]]
        needy = [h for h in takers if self.projected[h] < fill[h]]
        if not givers or not needy or self._is_full():
            return
        self._shift_to_standbys(set(givers), keep, set(needy), fill)
        self._shift_to_lowest(givers, keep, needy, fill)

    def _shift_to_standbys(self, givers: set[int], keep: list[int], needy: set[int], fill: list[int]) -> None:
        offers = [
            (lag, task, host)
            for task, standbys in self.standbys.items()
            if self.learner[task] == _NONE and self.owner[task] in givers
            for lag, host in standbys
            if host in needy
        ]
        for _, task, host in sorted(offers):
            owner = self.owner[task]
            wanted = self.projected[owner] > keep[owner] and self.projected[host] < fill[host]
            if wanted and self.learner[task] == _NONE and not self._is_full():
                self._start(task, host)

    def _shift_to_lowest(self, givers: list[int], keep: list[int], needy: list[int], fill: list[int]) -> None:
        movable: dict[int, list[int]] = {h: [] for h in givers}
        for task in range(len(self.tasks) - 1, -1, -1):
            if self.learner[task] == _NONE and self.owner[task] in movable:
                movable[self.owner[task]].append(task)
        giving = [(-self.projected[h] * self.unit[h], h) for h in givers if self.projected[h] > keep[h] and movable[h]]
        taking = [(self.projected[h] * self.unit[h], h) for h in needy if self.projected[h] < fill[h]]
        heapq.heapify(giving)
        heapq.heapify(taking)
        while giving and taking and not self._is_full():
            giver, taker = giving[0][1], taking[0][1]
            self._start(movable[giver].pop(), taker)
            gives_on = self.projected[giver] > keep[giver] and bool(movable[giver])
            _replace_top(giving, -self.projected[giver] * self.unit[giver], gives_on)
            _replace_top(taking, self.projected[taker] * self.unit[taker], self.projected[taker] < fill[taker])

    def _start(self, task: int, host: int) -> None:
        self.learner[task] = host
        self.projected[self.owner[task]] -= 1
        self.projected[host] += 1
        self.in_flight += 1
        if task in self.standbys:
            self.standbys[task] = [replica for replica in self.standbys[task] if replica[1] != host]

    def _is_full(self) -> bool:
        return self.limits.max_learners is not None and self.in_flight >= self.limits.max_learners

    # Standbys

    def keep_standbys(self) -> None:
        """Keep existing standbys up to the number wanted, least lag first."""
        wanted = self.limits.num_standbys
        self.replicas = self._actives()
        for learner in self.learner:
            if learner != _NONE:
                self.replicas[learner] += 1
        for standbys in self.standbys.values():
            for _, host in standbys:
                self.replicas[host] += 1
        for task, standbys in self.standbys.items():
            ready = sum(lag <= self.limits.acceptable_lag for lag, _ in standbys)
            if wanted and ready <= wanted < len(standbys) and self.learner[task] == _NONE and task not in self.lagging:
                self.replacing.add(task)  # one of them goes once all are ready
            spare = ready if wanted and ready == wanted + 1 == len(standbys) else 0
            if spare:  # what was added is ready: the one where most replicas are goes
                surplus = max(standbys, key=self._surplus)
                standbys.remove(surplus)
                self.replicas[surplus[1]] -= 1
            for _, host in standbys[wanted + (task in self.replacing) :]:
                self.replicas[host] -= 1
            del standbys[wanted + (task in self.replacing) :]

    def add_standbys(self) -> None:
        """Add missing standbys: on the previous owner, else on the host with the fewest replicas per capacity."""
        wanted = self.limits.num_standbys
        if wanted == 0:
            return
        heap = [self._rank(host) for host in self.running]
        heapq.heapify(heap)
        for task in range(len(self.tasks)):
            standbys = self.standbys.setdefault(task, [])
            missing = wanted - len(standbys) - (self.learner[task] != _NONE)
            if missing > 0:
                self.with_new_standby.add(task)
                self._replicate(task, standbys, missing, heap)

    def _replicate(self, task: int, standbys: _Candidates, missing: int, heap: list[int]) -> None:
        used = {self.owner[task], self.learner[task]}
        used.update([host for _, host in standbys])
        left = self.before[task]
        if left not in used and left != _NONE and self.is_running[left]:
            used.add(left)
            standbys.append((0, left))
            self.replicas[left] += 1
            missing -= 1
        if len(self.running) < len(used) + missing:  # Perhaps too few: count exactly.
            free = len(self.running) - sum(host != _NONE and self.is_running[host] for host in used)
            self.under_replicated += free < missing
            missing = min(free, missing)
        skipped: list[int] = []
        while missing > 0:
            rank = heap[0]
            host = rank % len(self.hosts)
            if rank != self._rank(host):  # Ranks may be too low, never too high.
                heapq.heapreplace(heap, self._rank(host))
            elif host in used:
                skipped.append(heapq.heappop(heap))
            else:
                standbys.append((0, host))
                used.add(host)
                self.new_standbys.add((task, host))
                self.replicas[host] += 1
                heapq.heapreplace(heap, self._rank(host))
                missing -= 1
        for rank in skipped:
            heapq.heappush(heap, rank)

    def even_standbys(self) -> None:
        """Move standbys from hosts with too many replicas to hosts with too few, in terms of capacity.

        One that was added in this round is just placed elsewhere. Once actives have settled, others move too: a new one is added,
        and the next round that finds it ready drops the old one.
        """
        if not self.limits.num_standbys or len(self.running) < 2:
            return
        for task in self.replacing:  # count those that will be dropped as gone
            ready = [replica for replica in self.standbys[task] if replica[0] <= self.limits.acceptable_lag]
            self.replicas[max(ready or self.standbys[task], key=self._surplus)[1]] -= 1
        on: dict[int, list[int]] = {host: [] for host in self.running}
        for task, host in sorted(self.new_standbys):
            on[host].append(task)
        self._even(on, new=True)
        undrained = not set(self.leaving).isdisjoint(self.owner)
        settled = not (self.in_flight or self.new_standbys or undrained) and self.owner == self.before
        self._even(self._on_hosts(self.limits.acceptable_lag), new=False, most=self.limits.max_learners if settled else 0)
        self.is_even = self._standby_to_move(self._on_hosts(None)) is None

    def _on_hosts(self, lag_max: int | None) -> dict[int, list[int]]:
        """Return the tasks that could move a standby off each host; ``lag_max``: only those with such a lag at most."""
        on: dict[int, list[int]] = {host: [] for host in self.running}
        for task, standbys in self.standbys.items():
            if task not in self.replacing and len(standbys) == self.limits.num_standbys:
                for lag, host in standbys:
                    if lag_max is None or lag <= lag_max:
                        on[host].append(task)
        return on

    def _even(self, on: dict[int, list[int]], *, new: bool, most: int | None = None) -> None:
        """Move standbys of the tasks ``on`` each host while that brings two hosts nearer to each other."""
        while True:
            found = self._standby_to_move(on)
            if found is None:
                return
            if not new and most is not None and len(self.replacing) >= most:
                return
            task, giver, taker = found
            on[giver].remove(task)
            standbys = self.standbys[task]
            if new:
                standbys.remove((0, giver))
                on[taker].append(task)
            else:
                self.replacing.add(task)
                self.with_new_standby.add(task)
            standbys.append((0, taker))
            self.replicas[giver] -= 1
            self.replicas[taker] += 1

    def _standby_to_move(self, on: dict[int, list[int]]) -> tuple[int, int, int] | None:
        """Return a task with a standby on the fullest host that could be where most room is, with both; None: nothing helps.

        A large host has room for one more before a small one that is as empty.
        """
        takers = sorted(((self.replicas[host] + 1) * self.unit[host], host) for host in self.running)
        for giver in sorted(self.running, key=self._rank, reverse=True):
            if not on[giver]:
                continue
            for after, taker in takers:
                if after >= self.replicas[giver] * self.unit[giver]:
                    break
                for task in on[giver]:
                    used = {self.owner[task], self.learner[task], *(host for _, host in self.standbys[task])}
                    if taker not in used and task not in self.replacing:
                        return task, giver, taker
        return None

    def _surplus(self, standby: tuple[int, int]) -> tuple[int, int, int]:
        """Return a key that is highest for the standby, as (lag, host), which is needed least."""
        lag, host = standby
        return self.replicas[host] * self.unit[host], lag, host

    def _rank(self, host: int) -> int:
        """Return replicas per capacity, then id, as one number: there may be hundreds of thousands of comparisons."""
        return self.replicas[host] * self.unit[host] * len(self.hosts) + host

    # Result

    def result(self, version: LearnerVersion) -> Round:
        """Return the outcome, with its difference from the input as moves."""
        names = [host.id for host in self.hosts]
        actives = self._actives()
        load = {name: HostLoad(actives[h], self.projected[h], self.low[h], self.high[h]) for h, name in enumerate(names)}
        balanced = all(host.is_in_band for host in load.values())
        served = all(self.projected[h] >= self.share[h] for h in self.new)
        undrained = tuple(names[h] for h in self.leaving if actives[h])
        standbys_settled = self.is_even and not self.replacing
        return Round(
            tasks=tuple([self._assignment(t, task.id, names) for t, task in enumerate(self.tasks)]),
            moves=tuple(self._moves(names)),
            converged=self.in_flight == 0
            and not undrained
            and standbys_settled
            and (balanced if version is LearnerVersion.V2 else served),
            balanced=balanced and standbys_settled,
            standbys_settled=standbys_settled,
            under_replicated=self.under_replicated,
            learners_in_flight=self.in_flight,
            lagging_actives=tuple(self.tasks[t].id for t in sorted(self.lagging)),
            undrained=undrained,
            load=load,
        )

    def _assignment(self, task: int, name: str, names: list[str]) -> Assignment:
        learner, standbys = self.learner[task], self.standbys.get(task)
        return Assignment(
            name,
            names[self.owner[task]],
            () if learner == _NONE else (names[learner],),
            tuple([names[host] for _, host in standbys]) if standbys else (),
        )

    def _moves(self, names: list[str]) -> Iterable[Move]:
        for t, task in enumerate(self.tasks):
            owner, learner = names[self.owner[t]], self.learner[t]
            if self.owner[t] != self.before[t]:
                kind = MoveKind.RECOVER if self.before[t] == _NONE else MoveKind.PROMOTE
                yield Move(kind, task.id, task.active, owner)
            standbys = self.standbys.get(t, ())
            if learner == _NONE and not task.learners and len(standbys) == len(task.standbys) and t not in self.with_new_standby:
                continue
            after = [names[host] for _, host in standbys]
            before = {replica.host for replica in task.standbys}
            if learner != _NONE and all(replica.host != names[learner] for replica in task.learners):
                yield Move(MoveKind.LEARN, task.id, owner, names[learner])
            for host in after:
                if host not in before:
                    yield Move(MoveKind.ADD_STANDBY, task.id, host if host == task.active else None, host)
            kept = {owner} if learner == _NONE else {owner, names[learner]}
            if task.learners:
                yield from _dropped(MoveKind.DROP_LEARNER, task, before=task.learners, kept=kept)
            if task.standbys:
                yield from _dropped(MoveKind.DROP_STANDBY, task, before=task.standbys, kept=kept.union(after))


def _dropped(kind: MoveKind, task: StatefulTask, before: tuple[Replica, ...], kept: set[str]) -> Iterable[Move]:
    for host in sorted([replica.host for replica in before if replica.host not in kept]):
        yield Move(kind, task.id, host, None)


def _replace_top(heap: list[tuple[int, int]], key: int, stays: bool) -> None:
    if stays:
        heapq.heapreplace(heap, (key, heap[0][1]))
    else:
        heapq.heappop(heap)
