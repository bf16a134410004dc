"""Looks at the hosts: when one is due, what it concludes, and what is remembered of it. Pure.

A look follows a minute after hosts joined, left or died, once the jobs on them are known too. While something moves or has to
wait, another look follows each minute. A job that enters mode `act` later or was paused, or that needs copies and was not there,
triggers a look at once. What moves is decided in `rescaler.control.hosts.balance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.commands import Balance, SlotMove
from contracts.ids import Cluster
from contracts.messages import ClusterTopology
from contracts.rescaler_state import BALANCE, BalanceMemory, BalanceStatus
from contracts.topology import units_of
from rescaler.control.effects import Effects, state_record
from rescaler.control.hosts.balance import LookReason, LookResult, MovableJob, look
from rescaler.control.job.context import JobEffects
from rescaler.control.job.memory import JobMemory
from rescaler.control.settings import ControlSettings
from rescaler.control.world import View, running_jobs

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
            detail=detail,
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
