"""GIO: first fit by price, then improve: empty expensive hosts into the others, or swap one for a cheaper unused host.

The paper gives this baseline one sentence, so the improvement step is our reading. It is skipped when subtasks stay on hosts,
since it would move them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import Sub
from .order import ascending, twelve_digits
from .problem import Problem
from .room import FirstFit, Room, place_first_fit


def assign(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place `todo` (in STL order); subtasks that fit nowhere are left out of the answer."""
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
