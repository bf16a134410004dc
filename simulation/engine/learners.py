"""Learners and standbys: units that restore state they will own, and hosts that keep copies of it. Pure state.

A host restores at a finite rate, first come, first served. Meanwhile the owners keep writing, and those bytes must be restored
too: a learner's lag shrinks by what its host reads and grows by what its task writes.

What a change has to restore follows from how many virtual nodes of a stateful task each parallel unit holds. Counts are enough: a
rescale moves as few virtual nodes as an even mapping allows, and state that stays on a host is not copied.

A standby's copy is restored like a learner's state, after the learners of its host, and follows its owner's writes. It occupies
no parallel unit: it takes over on a free unit of its host. Where copies are kept is not decided here.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from surescale.simulation.engine.checked_changes import Tasks, units_of

Held = dict[int, int]
"""Virtual nodes per unit."""


def spread(held: Mapping[int, int], units: Iterable[int], vnodes: int) -> Held:
    """Return an even split over other units. The larger quotas go to the units that hold most, so that the fewest move."""
    ordered = sorted(set(units), key=lambda unit: (-held.get(unit, 0), unit))
    quota, extra = divmod(vnodes, len(ordered)) if ordered else (0, 0)
    return {unit: quota + (rank < extra) for rank, unit in enumerate(ordered)}


def to_restore(
    before: Mapping[int, int],
    after: Mapping[int, int],
    host_of: Mapping[int, str],
    copies: Mapping[int, Collection[str]] | None = None,
) -> Held:
    """Return the virtual nodes that each unit must restore from elsewhere.

    State that a unit gives up is already on its host, and on every host with a copy of it (``copies``: per unit, its hosts).
    There it goes to the lowest unit ids first. A unit without a host is gone: its state comes from a copy or must be restored.
    """
    given = {unit: left for unit, count in before.items() if (left := count - after.get(unit, 0)) > 0}
    found: Held = {}
    for unit in sorted(after):
        gained = after[unit] - before.get(unit, 0)
        host = host_of.get(unit)
        if gained > 0 and host is not None:
            gained -= _drawn([giver for giver in sorted(given) if host_of.get(giver) == host], given, gained)
            gained -= _drawn([giver for giver in sorted(copies or ()) if host in (copies or {})[giver]], given, gained)
        if gained > 0:
            found[unit] = gained
    return found


def _drawn(givers: Iterable[int], given: Held, wanted: int) -> int:
    """Take up to the wanted number of virtual nodes from what the givers have left; return how many were taken."""
    drawn = 0
    for giver in givers:
        taken = min(wanted - drawn, given.get(giver, 0))
        if taken:
            given[giver] -= taken
            drawn += taken
    return drawn


READY_KEPT_MS = 600_000  # a ready preparation waits this long after its deadline for its commit


@dataclass(slots=True)
class Learner:
    """A future subtask.

    Attributes:
        task: the task whose state it restores.
        unit: where it will run.
        host: the unit's host.
        vnodes: virtual nodes to restore from other hosts.
        lag_bytes: state still missing.
    """

    task: str
    unit: int
    host: str
    vnodes: int
    lag_bytes: int


@dataclass(slots=True)
class Preparation:
    """What a ``prepare`` command started.

    Attributes:
        command_id: of the command.
        tasks: the job as it will be.
        learners: in order of task and unit; none where no state moves between hosts.
        begins_at_ms: when the hosts start to restore.
        deadline_ms: when learners that are not ready are given up; None: never.
    """

    command_id: str
    tasks: Tasks
    learners: tuple[Learner, ...]
    begins_at_ms: int
    deadline_ms: int | None

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job will run on."""
        return units_of(self.tasks)

    @property
    def lag_bytes(self) -> int:
        """Return the bytes that all learners together still have to restore."""
        return sum(learner.lag_bytes for learner in self.learners)

    def unready_units(self, acceptable_bytes: int) -> tuple[int, ...]:
        """Return the units whose learners are too far behind."""
        return tuple(sorted({learner.unit for learner in self.learners if learner.lag_bytes > acceptable_bytes}))

    def ready_after_minutes(self, per_minute: int | None) -> int:
        """Return an estimate of the minutes its hosts need if they restore nothing else."""
        by_host = lag_by_host(self.learners)
        return 0 if per_minute is None else max((-(-lag // per_minute) for lag in by_host.values()), default=0)


def are_ready(learners: Iterable[Learner], acceptable_bytes: int) -> bool:
    """Return whether every learner is close enough to take over."""
    return all(learner.lag_bytes <= acceptable_bytes for learner in learners)


def write(learners: Iterable[Learner], bytes_per_vnode: Mapping[str, int]) -> None:
    """Let learners miss the bytes that each task wrote per virtual node since the last call."""
    for learner in learners:
        learner.lag_bytes += learner.vnodes * bytes_per_vnode.get(learner.task, 0)


def lag_by_host(learners: Iterable[Learner]) -> dict[str, int]:
    """Return the bytes that each host still has to restore."""
    found: dict[str, int] = {}
    for learner in learners:
        found[learner.host] = found.get(learner.host, 0) + learner.lag_bytes
    return found


def restore(asking: Iterable[Iterable[Learner]], per_minute: int | None) -> None:
    """Let every host restore for one minute, first come, first served."""
    left: dict[str, int] = {}
    for learners in asking:
        for learner in learners:
            budget = left.setdefault(learner.host, learner.lag_bytes if per_minute is None else per_minute)
            done = learner.lag_bytes if per_minute is None else min(budget, learner.lag_bytes)
            left[learner.host] = budget - done
            learner.lag_bytes -= done


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
        if self.is_told or not self.hosts or not are_ready(self.copies, acceptable_bytes):
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
