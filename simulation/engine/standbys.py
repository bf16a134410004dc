"""Standbys: copies of a unit's state on other hosts, in case its own host dies. Pure state.

A copy is restored like a learner's state, after the learners of its host, and follows its owner's writes. It occupies no parallel
unit: it takes over on a free unit of its host. Where copies are kept is not decided here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from simulation.engine.learners import Learner
from simulation.engine.ownership import Held

Sizes = Mapping[str, int]
"""Bytes per virtual node, for each stateful task."""


@dataclass(slots=True)
class Standbys:
    """The copies of one job.

    Attributes:
        hosts: per unit of the job, the hosts that keep a copy of its state.
        copies: one per host and stateful task; ``unit`` is the owner's.
        is_told: the copies were reported as ready since the last change.
    """

    hosts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    copies: list[Learner] = field(default_factory=list)
    is_told: bool = True

    def want(self, hosts: Mapping[int, tuple[str, ...]], held: Mapping[str, Held], sizes: Sizes) -> None:
        """Keep the copies that are still wanted, start the missing ones and drop all others."""
        known = {(copy.task, copy.unit, copy.host): copy for copy in self.copies}
        self.hosts = {unit: tuple(hosts[unit]) for unit in sorted(hosts) if hosts[unit]}
        self.copies = [
            _fitted(known.get((task, unit, host)), task, unit, host, counts[unit], sizes[task])
            for unit, names in self.hosts.items()
            for host in names
            for task, counts in sorted(held.items())
            if counts.get(unit)
        ]
        self.is_told = False

    def follow(self, held: Mapping[str, Held], host_of: Mapping[int, str], sizes: Sizes) -> None:
        """Keep only useful copies: of units that the job still has, on living hosts other than their own."""
        alive = set(host_of.values())
        units = {unit for counts in held.values() for unit in counts}
        kept = {
            unit: tuple(host for host in names if host in alive and host != host_of.get(unit))
            for unit, names in self.hosts.items()
            if unit in units
        }
        told = self.is_told
        self.want(kept, held, sizes)
        self.is_told = told

    def written(self, bytes_per_vnode: Sizes) -> None:
        """Add the bytes that the owners wrote per virtual node since the last call."""
        for copy in self.copies:
            copy.lag_bytes += copy.vnodes * bytes_per_vnode.get(copy.task, 0)

    def ready(self, acceptable_bytes: int) -> dict[int, tuple[str, ...]]:
        """Return the hosts whose copies of a unit are close enough to take over, least lag first."""
        lags: dict[tuple[int, str], int] = {(unit, host): 0 for unit, names in self.hosts.items() for host in names}
        behind = set()
        for copy in self.copies:
            lags[copy.unit, copy.host] += copy.lag_bytes
            if copy.lag_bytes > acceptable_bytes:
                behind.add((copy.unit, copy.host))
        ordered = sorted((lag, host, unit) for (unit, host), lag in lags.items() if (unit, host) not in behind)
        found: dict[int, tuple[str, ...]] = {}
        for _, host, unit in ordered:
            found[unit] = (*found.get(unit, ()), host)
        return found

    def newly_ready(self, acceptable_bytes: int) -> bool:
        """Return True once after each change, when every copy is ready."""
        if self.is_told or not self.hosts or any(copy.lag_bytes > acceptable_bytes for copy in self.copies):
            return False
        self.is_told = True
        return True

    def successors(
        self, lost: Iterable[int], free: Collection[int], host_of: Mapping[int, str], acceptable_bytes: int
    ) -> dict[int, int]:
        """Return, for each lost unit with a ready copy, a free unit of that copy's host."""
        ready, left, found = self.ready(acceptable_bytes), sorted(free), dict[int, int]()
        for unit in sorted(lost):
            offers = (other for host in ready.get(unit, ()) for other in left if host_of.get(other) == host)
            if (chosen := next(offers, None)) is not None:
                found[unit] = chosen
                left.remove(chosen)
        return found


def _fitted(known: Learner | None, task: str, unit: int, host: str, vnodes: int, vnode_bytes: int) -> Learner:
    """Return a copy of ``vnodes`` virtual nodes: a new copy restores everything, a known one only what it gained."""
    if known is None:
        return Learner(task, unit, host, vnodes, vnodes * vnode_bytes)
    gained = max(0, vnodes - known.vnodes) * vnode_bytes
    kept = known.lag_bytes * min(vnodes, known.vnodes) // known.vnodes
    return Learner(task, unit, host, vnodes, kept + gained)
