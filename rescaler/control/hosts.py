"""Decides which units and copies move after hosts came or went: one look, one small step. Pure.

The tasks of a job share its units, so a unit moves as a whole with all its state; to `rescaler.learners` each unit is one task.
If hosts are chosen by cost, destinations come from `rescaler.control.units`; if jobs are spread, from `rescaler.learners`.
Either way a limit holds for units on their way at once. No parallelism changes.

A look follows a minute after hosts joined, left or died, once the jobs on them are known too. While something moves or has to
wait, another look follows each minute. A job that enters mode `act` later or was paused, or that needs copies and was not there,
triggers a look at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.commands import Balance, RescheduleCommand, SlotMove
from surescale.contracts.ids import Cluster
from surescale.contracts.messages import REMARK_LETTERS_MAX, ClusterTopology, Host, JobTopology
from surescale.contracts.rescaler_state import BALANCE, BalanceMemory, BalanceStatus
from surescale.contracts.topology import units_of
from surescale.rescaler import learners
from surescale.rescaler.control.effects import Effects, state_record
from surescale.rescaler.control.job.context import JobEffects
from surescale.rescaler.control.job.memory import JobMemory
from surescale.rescaler.control.settings import Balancing, ControlSettings, PlacingSettings
from surescale.rescaler.control.units import choose_units, usable_units
from surescale.rescaler.control.world import View, running_jobs
from surescale.rescaler.learners_model import (
    HostState,
    LearnerHost,
    LearnerLimits,
    LearnerVersion,
    MoveKind,
    Replica,
    Round,
    StatefulTask,
)
from surescale.rescaler.refusals import Refused

UNREADY_LAG = LearnerLimits().acceptable_lag + 1  # of a unit on its way: only the engine knows how far it is


class LookReason(StrEnum):
    """Why hosts are looked at again, or not."""

    # moving
    OUT_OF_BAND = "out_of_band"
    """Units move to hosts that have too few of them."""
    CHEAPER_HOSTS = "cheaper_hosts"
    """Units move to where the job costs less."""
    STANDBYS = "standbys"
    """Copies are started or dropped."""
    JOB_BUSY = "job_busy"
    """A job that may have to move is resting, waiting or being rescaled."""
    HOSTS_CHANGED = "hosts_changed"
    """Hosts have just changed again, and the jobs on them are not known yet."""
    # settled
    BALANCED = "balanced"
    """Nothing is left to do."""
    OUT_OF_REACH = "out_of_reach"
    """Some host is out of its band, and no free unit could help."""
    GAVE_UP = "gave_up"
    """It took more looks than allowed."""


Moves = dict[int, int]
"""The new unit for each unit that a job leaves."""
StandbyHosts = dict[int, tuple[str, ...]]
"""Hosts that keep copies of each unit's state."""


@dataclass(frozen=True, slots=True)
class MovableJob:
    """A running job whose units may be moved, as a look sees it."""

    topology: JobTopology
    """As it must be now."""
    outstanding: RescheduleCommand | None
    is_pending: bool
    """It has a pending act."""
    is_free: bool
    """Nothing is pending or under way, and its gate is idle."""
    standbys: Mapping[int, tuple[str, ...]]
    """As last commanded."""
    units_of_others: Callable[[], frozenset[int]]
    """Units of all other jobs."""
    has_ready_copies: bool = False
    """The engine has said that all copies last commanded are complete."""

    @property
    def units(self) -> frozenset[int]:
        """Units that the job is on."""
        return _units_of(self.topology, {})

    @property
    def with_state(self) -> frozenset[int]:
        """Units on which the job has state."""
        return frozenset(unit for spec in self.topology.tasks if spec.stateful for unit in spec.units)

    @property
    def leaving(self) -> Moves:
        """The new unit for each unit that the command under way gives up."""
        coming = self.outstanding.changes if self.outstanding and self.outstanding.action != "abort" else ()
        after = {change.task: change.units for change in coming}
        later = _units_of(self.topology, after)
        return dict(zip(sorted(self.units - later), sorted(later - self.units), strict=False))


@dataclass(slots=True)
class LookResult:
    """What a look wants done."""

    moves: dict[str, Moves] = field(default_factory=dict)
    """Of jobs that are free."""
    blocked: set[str] = field(default_factory=set)
    """Jobs that have to move, or may have to, and are not free."""
    standbys: dict[str, StandbyHosts] = field(default_factory=dict)
    """Of jobs whose copies are not where they should be."""
    under_replicated: dict[str, int] = field(default_factory=dict)
    """Units that lack copies because there are too few hosts."""
    out_of_reach: bool = False
    """A host stays out of its band because no unit is free."""


def look(
    jobs: Sequence[MovableJob],
    hosts: Sequence[Host],
    settings: Balancing,
    placing: PlacingSettings,
    *,
    moves: bool = True,
    new: Collection[str] = (),
    avoided: Collection[str] = (),
) -> LookResult:
    """Return the next small step.

    Args:
        jobs: those that run and may be moved, in order of id.
        hosts: every live host.
        settings: how much may move.
        placing: how hosts are chosen.
        moves: whether units may move; otherwise only copies do.
        new: hosts that have just joined.
        avoided: hosts where learners took too long: nothing more goes there.
    """
    found = LookResult()
    host_of = {unit: host.host for host in hosts for unit in host.units}
    open_hosts = [host for host in hosts if host.state == "running" and host.host not in avoided]
    closed = frozenset(unit for host in hosts if host.host in avoided for unit in host.units)
    under_way = sum(host_of.get(unit) != host_of.get(to) for job in jobs for unit, to in job.leaving.items())
    most = settings.units_max - under_way if settings.units_max else None
    if moves and settings.version != "off" and open_hosts:
        if placing.algorithm == "spread":
            _spread(found, jobs, open_hosts, settings, new=new, most=settings.units_max or None)
        else:
            _by_cost(found, jobs, hosts, placing, most=most, closed=closed)
    _copies(found, jobs, hosts, settings)
    return found


# Hosts chosen by cost


def _by_cost(
    found: LookResult,
    jobs: Sequence[MovableJob],
    hosts: Sequence[Host],
    placing: PlacingSettings,
    *,
    most: int | None,
    closed: frozenset[int],
) -> None:
    """Move to cheaper hosts; ``closed``: units that no job gets, though one that has them may keep them."""
    claimed: set[int] = set()
    for job in jobs:
        name = job.topology.job
        if not job.is_free:
            found.blocked.add(name)
            continue
        width = max((spec.parallelism for spec in job.topology.tasks if spec.scalable), default=0)
        taken = job.units_of_others() | claimed | (closed - job.units)
        try:
            placed = choose_units(job.topology, width, hosts, taken=taken, settings=placing)
        except Refused:
            continue  # the job keeps what it has
        after = {unit for units in placed.units.values() for unit in units}
        pairs = list(zip(sorted(job.units - after), sorted(after - job.units), strict=False))
        chosen = dict(pairs if most is None else pairs[: max(0, most)])
        if pairs and not chosen:
            found.blocked.add(name)
        if chosen:
            found.moves[name] = chosen
            claimed |= set(chosen.values())
            most = None if most is None else most - len(chosen)


# Jobs spread evenly


def _spread(
    found: LookResult,
    jobs: Sequence[MovableJob],
    hosts: Sequence[Host],
    settings: Balancing,
    *,
    new: Collection[str],
    most: int | None,
) -> None:
    names = {host.host for host in hosts}
    host_of = {unit: host.host for host in hosts for unit in host.units}
    # State of a task of fixed parallelism follows its job: it is no reason to move a unit that no scalable task uses.
    by_id = {_slot(job.topology.job, unit): (job, unit) for job in jobs for unit in job.with_state & job.units}
    # A unit whose destination has closed meanwhile is still on its way, and is no longer where it was.
    astray = {
        _slot(job.topology.job, unit): job.topology.job
        for job in jobs
        for unit, to in job.leaving.items()
        if unit in job.with_state and to not in host_of
    }
    most = None if most is None else most - len(astray)
    if most is not None and most < 1:
        found.blocked |= set(astray.values())
        return
    tasks = (task for job in jobs for task in _tasks(job, host_of) if task.active in names)
    seen = {task.id: task for task in tasks if task.id in by_id and task.id not in astray}
    version = LearnerVersion(settings.version)
    offers = learner_hosts(hosts, new)
    decided = learners.assign(
        offers, seen.values(), version=version, balancing_factor=settings.factor, limits=LearnerLimits(max_learners=most)
    )
    claimed: set[int] = set()
    for move in decided.moves:
        if move.kind is not MoveKind.LEARN or move.destination is None:
            continue
        job, unit = by_id[move.task]
        if not job.is_free:
            found.blocked.add(job.topology.job)
            continue
        free = usable_units(hosts, job.units_of_others() | job.units | claimed).get(move.destination, ())
        if free:
            found.moves.setdefault(job.topology.job, {})[unit] = free[0]
            claimed.add(free[0])
        else:
            found.out_of_reach = True


# Copies


def _copies(found: LookResult, jobs: Sequence[MovableJob], hosts: Sequence[Host], settings: Balancing) -> None:
    running = [host for host in hosts if host.state == "running"]
    if not running or not (settings.standbys or any(job.standbys for job in jobs)):
        return
    decided = _copies_round(jobs, hosts, settings.standbys, settings.units_max or None)
    standbys = {task.id: task.standbys for task in decided.tasks}
    for job in jobs:
        name = job.topology.job
        slots = {unit: _slot(name, unit) for unit in sorted(job.with_state)}
        after = {unit: tuple(sorted(standbys[slot])) for unit, slot in slots.items() if slot in standbys}
        short = sum(len(names) < settings.standbys for names in after.values())
        if short:
            found.under_replicated[name] = short
        if {unit: names for unit, names in after.items() if names} == dict(job.standbys):
            waits = not decided.standbys_settled and not job.has_ready_copies  # one is dropped, or moves, once all are complete
            found.blocked |= {name} if job.outstanding or (after and waits) else set()  # its units will be others
            continue
        if job.outstanding is None and not job.is_pending:
            found.standbys[name] = after
        else:
            found.blocked.add(name)


def _copies_round(jobs: Sequence[MovableJob], hosts: Sequence[Host], standbys: int, most: int | None) -> Round:
    """Return a round that moves copies only: only a learner that has been started counts as one."""
    host_of = {unit: host.host for host in hosts for unit in host.units}
    tasks = [task for job in jobs for task in _tasks(job, host_of)]
    limits = LearnerLimits(num_standbys=standbys, max_learners=most)
    return learners.assign(learner_hosts(hosts), tasks, limits=limits, begins=False)


# The same, in the words of `rescaler.learners`


def learner_hosts(hosts: Sequence[Host], new: Collection[str] = ()) -> list[LearnerHost]:
    """Return hosts as `rescaler.learners` takes them: their capacity is their units; ``new``: those that have just joined."""
    return [
        LearnerHost(
            host.host,
            max(1, len(host.units)),
            HostState.RUNNING if host.state == "running" else HostState.LEAVING,
            host.host in new,
        )
        for host in hosts
    ]


def _tasks(job: MovableJob, host_of: Mapping[int, str]) -> list[StatefulTask]:
    """Return one task for each unit with state; a unit on its way has an unready learner at its destination."""
    tasks, leaving = [], job.leaving
    for unit in sorted(job.with_state):
        host, to = host_of.get(unit), host_of.get(leaving.get(unit, unit))
        learner = (Replica(to, UNREADY_LAG),) if to is not None and to != host else ()
        used = {host, to}
        lag = 0 if job.has_ready_copies else UNREADY_LAG
        copies = tuple(Replica(name, lag) for name in job.standbys.get(unit, ()) if name not in used)
        tasks.append(StatefulTask(_slot(job.topology.job, unit), host, learner, copies))
    return tasks


def _slot(job: str, unit: int) -> str:
    return f"{job}/{unit:07d}"


def _units_of(topology: JobTopology, after: Mapping[str, tuple[int, ...]]) -> frozenset[int]:
    """Return the units of scalable tasks; ``after``: the new units of tasks that a command changes."""
    return frozenset(unit for spec in topology.tasks if spec.scalable for unit in after.get(spec.task, spec.units))


LOOKS_MAX = 240
"""Looks in a row. After four hours without settling, hosts are left as they are."""


class Looks:
    """The looks at the hosts of one cluster. They begin with the first decision on it."""

    def __init__(self, cluster: Cluster, rules: ControlSettings, memory: BalanceMemory) -> None:
        self.memory = memory
        self._cluster, self._rules = cluster, rules
        self._hosts_due_ms: int | None = None  # when hosts that have just changed will be looked at

    @classmethod
    def begin(cls, cluster: Cluster, rules: ControlSettings, seen: ClusterTopology, now_ms: int) -> Looks:
        """Take the hosts as they are for settled."""
        memory = BalanceMemory(
            generation=1,
            hosts=_named(seen),
            hosts_version=seen.version,
            status="settled",
            reason=LookReason.BALANCED,
            at_ms=now_ms,
            is_balanced=True,
        )
        return cls(cluster, rules, memory)

    # When to look

    def wake_at_ms(self) -> int | None:
        """Return when the next look is due; None: not before hosts change."""
        return min((at_ms for at_ms in (self.memory.until_ms, self._hosts_due_ms) if at_ms is not None), default=None)

    def see(self, hosts: ClusterTopology) -> None:
        """Note when hosts that have changed will be looked at."""
        self._hosts_due_ms = minute_end_ms(hosts.at_ms) + MINUTE_MS if _named(hosts) != self.memory.hosts else None

    def is_due(self, view: View, now_ms: int) -> bool:
        """Say whether to look now."""
        due_ms = self.wake_at_ms()
        return (due_ms is not None and due_ms <= now_ms) or bool(self._newcomers(view, now_ms))

    def _newcomers(self, view: View, now_ms: int) -> frozenset[str]:
        """Return jobs that matter and that no look has included since all was settled."""
        if self.memory.status != "settled":
            return frozenset()  # the next look comes anyway
        there = running_jobs(view, now_ms, acting=True)
        return there - set(self.memory.seen) if self._copies else there & set(self.memory.left_out)

    @property
    def _copies(self) -> int:
        return self._rules.balancing.standbys

    # Before a look

    def take_up(self, hosts: ClusterTopology, view: View, now_ms: int) -> None:
        """Take note of hosts and jobs that have changed, as far as it is time to."""
        memory = self.memory
        if newcomers := self._newcomers(view, now_ms):
            is_balanced = memory.is_balanced and not newcomers & set(memory.left_out)
            memory = msgspec.structs.replace(memory, status="moving", is_balanced=is_balanced)
        if _named(hosts) != memory.hosts and self._hosts_due_ms is not None and self._hosts_due_ms <= now_ms:
            before = {name for name, _ in memory.hosts}
            memory = BalanceMemory(
                generation=memory.generation + 1,
                hosts=_named(hosts),
                hosts_version=hosts.version,
                status="moving",
                reason=LookReason.HOSTS_CHANGED,
                at_ms=now_ms,
                new=tuple(sorted({host.host for host in hosts.hosts} - before)),
            )
            self._hosts_due_ms = None
        if _named(hosts) == memory.hosts:
            memory = msgspec.structs.replace(memory, hosts_version=hosts.version)
        self.memory = memory

    def knows_all(self, hosts: ClusterTopology, view: View) -> bool:
        """Say whether hosts have been taken up, and all jobs are known as they run on them."""
        units = {unit for host in hosts.hosts for unit in host.units}
        return _named(hosts) == self.memory.hosts and all(units_of(topology) <= units for topology in view.jobs.values())

    # The look and its conclusion

    def look(self, jobs: Sequence[MovableJob], view: View, now_ms: int) -> LookResult:
        """Return the next small step, and remember which jobs were included."""
        memory, rules = self.memory, self._rules
        found = look(
            jobs,
            view.hosts,
            rules.balancing,
            rules.placing,
            moves=not memory.is_balanced,
            new=memory.new,
            avoided=memory.avoided,
        )
        acting = running_jobs(view, now_ms, acting=True)
        left_out = memory.left_out if memory.is_balanced else running_jobs(view, now_ms, acting=False)
        self.memory = msgspec.structs.replace(
            memory,
            under_replicated=found.under_replicated,
            seen=tuple(sorted(acting)),
            left_out=tuple(sorted(set(left_out) - acting)),
        )
        return found

    def conclude(self, found: LookResult, jobs: Iterable[JobMemory], view: View, now_ms: int) -> Effects:
        """Look again in a minute, or settle; ``jobs``: all jobs, after what the look wanted has been commanded."""
        memories = list(jobs)
        moves = _slot_moves(found, view)
        if moves or any(memory.is_balancing for memory in memories):
            spread = self._rules.placing.algorithm == "spread"
            return self.go_on(LookReason.OUT_OF_BAND if spread else LookReason.CHEAPER_HOSTS, now_ms, moves)
        commands = [memory.underway.command for memory in memories if memory.underway is not None]
        if found.standbys or any(command.action == "standby" for command in commands):
            return self.go_on(LookReason.STANDBYS, now_ms)
        # Jobs that are about to get other units will want other copies.
        soon = {command.job for command in commands if command.action != "abort"} if self._copies else set()
        if blocked := found.blocked | soon:
            return self.go_on(LookReason.JOB_BUSY, now_ms, detail=f"wait for {', '.join(sorted(blocked))}")
        return self.settle(LookReason.OUT_OF_REACH if found.out_of_reach else LookReason.BALANCED, now_ms)

    def go_on(self, reason: LookReason, at_ms: int, moves: Sequence[SlotMove] = (), detail: str = "") -> Effects:
        """Look again in a minute; after too many looks, give up."""
        if self.memory.sequence - self.memory.settled_sequence >= LOOKS_MAX:
            return self.settle(LookReason.GAVE_UP, at_ms)
        return self._concluded("moving", reason, at_ms, at_ms + MINUTE_MS, moves, detail)

    def settle(self, reason: LookReason, at_ms: int) -> Effects:
        """Move nothing more until the hosts change."""
        return self._concluded("settled", reason, at_ms, None, (), "")

    def after(self, context: JobEffects, now_ms: int) -> Effects:
        """Return what an input for one job means for the looks: hosts to avoid, copies that a rescale leaves incomplete."""
        if context.avoided_hosts:
            avoided = tuple(sorted({*self.memory.avoided, *context.avoided_hosts}))
            self.memory = msgspec.structs.replace(self.memory, avoided=avoided)
        rescales = any(command.action in ("prepare", "commit") and not command.advice for command in context.commands)
        if rescales and self._copies and self.memory.status == "settled":
            return self.go_on(LookReason.STANDBYS, now_ms)
        return self.written(now_ms) if context.avoided_hosts else Effects()

    def written(self, at_ms: int) -> Effects:
        """Return the record of what is remembered."""
        return Effects(records=(state_record(self._cluster, "cluster", BALANCE, self.memory, at_ms),))

    def _concluded(
        self, status: BalanceStatus, reason: LookReason, at_ms: int, until_ms: int | None, moves: Sequence[SlotMove], detail: str
    ) -> Effects:
        sequence = self.memory.sequence + 1
        self.memory = msgspec.structs.replace(
            self.memory,
            status=status,
            reason=reason.value,
            at_ms=at_ms,
            sequence=sequence,
            settled_sequence=sequence if status == "settled" else self.memory.settled_sequence,
            until_ms=until_ms,
            detail=detail,
            is_balanced=self.memory.is_balanced or status == "settled",
        )
        balance = Balance(
            cluster=self._cluster,
            generation=self.memory.generation,
            sequence=sequence,
            status=status,
            reason=reason.value,
            at_ms=at_ms,
            hosts_version=self.memory.hosts_version,
            until_ms=until_ms,
            moves=tuple(moves),
            detail=detail[:REMARK_LETTERS_MAX],
        )
        return Effects(balances=(balance,)) + self.written(at_ms)


def _slot_moves(found: LookResult, view: View) -> list[SlotMove]:
    host_of = {unit: host.host for host in view.hosts for unit in host.units}
    return [
        SlotMove(job=job, unit=unit, host=host_of.get(unit, ""), to_unit=to, to_host=host_of[to])
        for job, moves in sorted(found.moves.items())
        for unit, to in sorted(moves.items())
    ]


def _named(hosts: ClusterTopology) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((host.host, host.state) for host in hosts.hosts))
