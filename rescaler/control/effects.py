"""What follows from an input: messages to send, and records of the memory to write. Values only."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from surescale.contracts.commands import Balance, Drift, Outcome, Progress, RescheduleCommand
from surescale.contracts.ids import Cluster
from surescale.contracts.rescaler_state import JobSummary, Kind, RescalerRecord
from surescale.contracts.wire import encode


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One change of the memory: the record to keep under a key, or None to forget it."""

    key: str
    record: RescalerRecord | None


def state_record(
    cluster: Cluster,
    kind: Kind,
    of: str,
    memory: msgspec.Struct | None,
    at_ms: int,
    summary: JobSummary | None = None,
) -> StateRecord:
    """Return the record that keeps (or, with None, forgets) a piece of memory. Its key is ``cluster/kind/id``."""
    key = f"{cluster}/{kind}/{of}"
    if memory is None:
        return StateRecord(key, None)
    body = msgspec.Raw(encode(memory))
    return StateRecord(key, RescalerRecord(cluster=cluster, kind=kind, id=of, at_ms=at_ms, body=body, summary=summary))


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything that follows from one input; it belongs into one transaction."""

    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[RescheduleCommand, ...] = ()
    records: tuple[StateRecord, ...] = ()
    duplicates: int = 0
    balances: tuple[Balance, ...] = ()
    drifts: tuple[Drift, ...] = ()
    progress: tuple[Progress, ...] = ()
    """Reports that count, and ends of commands on which nobody reported in time."""

    @property
    def is_empty(self) -> bool:
        """There is nothing to write."""
        return not (self.outcomes or self.commands or self.records or self.balances or self.drifts or self.progress)

    def __add__(self, other: Effects) -> Effects:
        """Return both, in order."""
        return Effects(
            self.outcomes + other.outcomes,
            self.commands + other.commands,
            self.records + other.records,
            self.duplicates + other.duplicates,
            self.balances + other.balances,
            self.drifts + other.drifts,
            self.progress + other.progress,
        )
