"""When hosts are looked at, and what is remembered of it: a generation of the set of hosts, looks within it, a promise. Pure.

A look follows one minute after hosts joined, leave or died, when the jobs on them are known too; while something moves or has to
wait another one follows each minute. A job that comes into mode `act` later, or needs copies and was not there, is looked at as
soon as it is. What it does not do: decide what moves (`rescaler.control.balance` does).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.commands import Balance, SlotMove
from contracts.ids import Cluster
from contracts.topology import units_of
from rescaler.control.balance import LookReason
from rescaler.control.memory import BalanceMemory
from rescaler.control.view import View

LOOKS_MAX = 240
"""Looks in a row: what has not settled within four hours is left as it is."""


class Looks:
    """The looks at the hosts of one cluster; without memory until the first decision on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.memory: BalanceMemory | None = None
        self._cluster = cluster
        self._hosts_due_ms: int | None = None  # when hosts that have just changed are looked at

    def wake_at_ms(self) -> int | None:
        """When the next look is due; None: when hosts change."""
        promised_ms = self.memory.until_ms if self.memory else None
        return min((at_ms for at_ms in (promised_ms, self._hosts_due_ms) if at_ms is not None), default=None)

    def begin(self, view: View, now_ms: int, *, soon: bool) -> Balance | None:
        """Take the hosts as they are for settled; ``soon``: there are copies to be made, look again in a minute."""
        assert view.cluster is not None
        self.memory = BalanceMemory(
            generation=1,
            hosts=_named(view),
            hosts_version=view.cluster.version,
            status="settled",
            reason=LookReason.BALANCED,
            at_ms=now_ms,
            is_balanced=True,
        )
        return self.go_on(LookReason.STANDBYS, now_ms) if soon else None

    def is_due(self, view: View, now_ms: int, *, copies: bool) -> bool:
        """Say whether to look now; notes when the next look will be due. ``copies``: jobs are to have some."""
        if self.memory is None or view.cluster is None:
            return False
        has_changed = _named(view) != self.memory.hosts
        self._hosts_due_ms = minute_end_ms(view.cluster.at_ms) + MINUTE_MS if has_changed else None
        due_ms = self.wake_at_ms()
        return (due_ms is not None and due_ms <= now_ms) or bool(self._newcomers(view, copies))

    def _newcomers(self, view: View, copies: bool) -> frozenset[str]:
        """Jobs that no look counted in since all was settled, though it would matter."""
        if self.memory is None or self.memory.status != "settled":
            return frozenset()  # the next look comes anyway
        there = running_jobs(view, acting=True)
        return there - set(self.memory.seen) if copies else there & set(self.memory.left_out)

    def sees_jobs(self, view: View, now_ms: int, *, copies: bool) -> bool:
        """Take note of hosts and jobs that changed; say whether all jobs are known as they run on them."""
        assert self.memory is not None
        assert view.cluster is not None
        if newcomers := self._newcomers(view, copies):
            is_balanced = self.memory.is_balanced and not newcomers & set(self.memory.left_out)
            self.memory = msgspec.structs.replace(self.memory, status="moving", is_balanced=is_balanced)
        if _named(view) != self.memory.hosts:
            if self._hosts_due_ms is None or now_ms < self._hosts_due_ms:
                return False
            before = {name for name, _ in self.memory.hosts}
            self.memory = BalanceMemory(
                generation=self.memory.generation + 1,
                hosts=_named(view),
                hosts_version=view.cluster.version,
                status="moving",
                reason=LookReason.HOSTS_CHANGED,
                at_ms=now_ms,
                new=tuple(sorted({host.host for host in view.hosts} - before)),
            )
            self._hosts_due_ms = None
        self.memory = msgspec.structs.replace(self.memory, hosts_version=view.cluster.version)
        known = {unit for host in view.hosts for unit in host.units}
        return all(units_of(topology) <= known for topology in view.jobs.values())

    def count_in(self, view: View, under_replicated: dict[str, int]) -> None:
        """Remember which jobs a look counted in, and which it left alone."""
        assert self.memory is not None
        acting = running_jobs(view, acting=True)
        left_out = self.memory.left_out if self.memory.is_balanced else running_jobs(view, acting=False)
        self.memory = msgspec.structs.replace(
            self.memory,
            under_replicated=under_replicated,
            seen=tuple(sorted(acting)),
            left_out=tuple(sorted(set(left_out) - acting)),
        )

    def avoid(self, hosts: Collection[str]) -> None:
        """Let nothing more go to these hosts until the hosts change again."""
        if self.memory is not None and hosts:
            self.memory = msgspec.structs.replace(self.memory, avoided=tuple(sorted({*self.memory.avoided, *hosts})))

    def go_on(self, reason: LookReason, at_ms: int, moves: Sequence[SlotMove] = (), detail: str = "") -> Balance:
        """Look again in a minute, or not any more after too many looks."""
        assert self.memory is not None
        if self.memory.sequence - self.memory.settled_sequence >= LOOKS_MAX:
            return self.settle(LookReason.GAVE_UP, at_ms)
        return self._noted("moving", reason, at_ms, at_ms + MINUTE_MS, moves, detail)

    def settle(self, reason: LookReason, at_ms: int, detail: str = "") -> Balance:
        """Nothing moves any more until the hosts change."""
        return self._noted("settled", reason, at_ms, None, (), detail)

    def _noted(
        self, status: str, reason: LookReason, at_ms: int, until_ms: int | None, moves: Sequence[SlotMove], detail: str
    ) -> Balance:
        assert self.memory is not None
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
        return Balance(
            cluster=self._cluster,
            generation=self.memory.generation,
            sequence=self.memory.sequence,
            status=status,  # type: ignore[arg-type]  # one of the two, by the callers above
            reason=reason.value,
            at_ms=at_ms,
            hosts_version=self.memory.hosts_version,
            until_ms=until_ms,
            moves=tuple(moves),
            detail=detail,
        )


def running_jobs(view: View, *, acting: bool) -> frozenset[str]:
    """Jobs that have units; ``acting``: only those in mode act."""
    running = (job for job, topology in view.jobs.items() if topology.state in ("running", "restarting"))
    return frozenset(job for job in running if not acting or view.settings_of(job).mode == "act")


def _named(view: View) -> tuple[tuple[str, str], ...]:
    return tuple((host.host, host.state) for host in view.hosts)
