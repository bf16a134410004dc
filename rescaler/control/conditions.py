"""Conditions that describe a job, in the style of Kubernetes. Pure; the control itself reads none of them.

A job whose units we place has Available, Balanced, Progressing, Draining and Degraded. A job whose engine places it has
Available, Owned, Progressing and Degraded (`rescaler.control.conditions_by_counts`). Once somebody has paused it, a job also has
Paused.

``generation`` is the job's last accepted target, ``observed_generation`` the last one that is over: carried out or given up.
"""

from __future__ import annotations

from collections.abc import Sequence

from contracts.capabilities import Capabilities
from contracts.messages import Host, JobTopology
from contracts.modes import ModeInForce
from contracts.pauses import Pauses
from contracts.rescaler_state import BalanceMemory, Condition
from contracts.topology import has_ended, units_of
from rescaler.control import conditions_by_counts
from rescaler.control.conditions_by_counts import Statement
from rescaler.control.job.memory import JobMemory

MEMORY_UNREADABLE = "MemoryUnreadable"
"""The reason while something that the rescaler remembers cannot be read."""
_RESCALING = {
    "prepare": ("LearnersInFlight", "learners restore the state that will move; the job runs on"),
    "commit": ("Committing", "the job changes to its new parallel units"),
    "abort": ("Aborting", "learners are dropped; the job stays as it is"),
    "standby": ("StandbysChanging", "copies of state are started or dropped"),
}


def observed_generation(memory: JobMemory) -> int:
    """Return the last generation that is over."""
    return memory.desired_generation - (1 if memory.underway else 0)


def conditions_of(
    memory: JobMemory,
    topology: JobTopology | None,
    hosts: Sequence[Host],
    balance: BalanceMemory | str | None,
    *,
    engine: Capabilities,
    mode: ModeInForce,
    standbys: int,
    pauses: Pauses,
    now_ms: int,
) -> tuple[Condition, ...]:
    """Return the job's conditions now. One whose status has not changed keeps the time of its last transition.

    ``balance``: what is known of the hosts; a text says why it cannot be read.
    """
    if topology is None:
        return memory.conditions
    statements: tuple[Statement, ...]
    if engine.acts == "units":
        statements = (
            _available(topology),
            _balanced(memory, balance),
            _progressing(memory),
            _draining(topology, hosts),
            _degraded(memory, topology, balance, standbys),
        )
    else:
        statements = (
            conditions_by_counts.available(topology),
            conditions_by_counts.owned(memory, topology, mode),
            conditions_by_counts.progressing(memory, topology) or _progressing(memory),
            conditions_by_counts.degraded(memory, topology),
        )
    if memory.unreadable:
        statements = (*statements[:-1], ("Degraded", True, MEMORY_UNREADABLE, memory.unreadable))
    before = {condition.type: condition for condition in memory.conditions}
    if pauses.paused or "Paused" in before:
        statements = (*statements, _paused(pauses))
    generation = observed_generation(memory)
    return tuple(_condition(each, before.get(each[0]), generation, now_ms) for each in statements)


def _condition(statement: Statement, before: Condition | None, generation: int, now_ms: int) -> Condition:
    kind, status, reason, message = statement
    since_ms = before.last_transition_ms if before is not None and before.status == status else now_ms
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_ms=since_ms,
        observed_generation=generation,
    )


def _available(topology: JobTopology) -> Statement:
    if has_ended(topology):
        return "Available", False, _words(topology.state), f"the job has {topology.state}"
    if topology.state == "waiting":
        return "Available", False, "WaitingForUnits", "the job has no parallel unit; it starts when there are enough"
    return "Available", True, "Running", f"the job runs on {len(units_of(topology))} parallel units"


def _balanced(memory: JobMemory, balance: BalanceMemory | str | None) -> Statement:
    if isinstance(balance, str):
        return "Balanced", False, MEMORY_UNREADABLE, balance
    if memory.underway is not None:
        last = f"generation {memory.desired_generation} is under way, {observed_generation(memory)} is the last one that is over"
        return "Balanced", False, "NotObserved", last
    if balance is None:
        return "Balanced", True, "NothingChanged", "no host has come or gone"
    settled = balance.status == "settled" and balance.reason not in ("out_of_reach", "gave_up")
    message = balance.detail or ("no unit has to move" if settled else "hosts came or went, and units follow them")
    return "Balanced", settled, _words(balance.reason), f"{message} (hosts of generation {balance.generation})"


def _progressing(memory: JobMemory) -> Statement:
    if memory.underway is not None:
        return "Progressing", True, *_RESCALING[memory.underway.command.action]
    if memory.pending is not None:
        reason = memory.pending.reason or "pending"
        return "Progressing", True, _words(reason), f"{memory.pending.decision_id} waits: {reason}"
    return "Progressing", False, "Settled", "nothing is pending or under way"


def _draining(topology: JobTopology, hosts: Sequence[Host]) -> Statement:
    leaving = {host.host for host in hosts if host.state == "removed_soon" and set(host.units) & units_of(topology)}
    if leaving:
        return "Draining", True, "HostsLeaving", f"still on hosts that will be removed: {', '.join(sorted(leaving))}"
    return "Draining", False, "Drained", "nothing is on a host that will be removed"


def _degraded(memory: JobMemory, topology: JobTopology, balance: BalanceMemory | str | None, standbys: int) -> Statement:
    if topology.state == "waiting":
        return "Degraded", True, "WaitingForUnits", "nothing of the job runs"
    if memory.failures:
        return "Degraded", True, "RescaleFailed", f"{memory.failures} rescales in a row have failed; the next one waits longer"
    short = balance.under_replicated.get(memory.job, 0) if isinstance(balance, BalanceMemory) else 0
    if short:
        return "Degraded", True, "UnderReplicated", f"{short} units lack standbys because no host is free"
    has_state = any(spec.stateful and spec.units for spec in topology.tasks)
    if standbys and has_state and not memory.standby.ready_at_ms:
        return "Degraded", True, "StandbysWarming", "copies of state are not complete yet"
    return "Degraded", False, "Healthy", "no rescale has failed, and no copy of state is missing"


def _paused(pauses: Pauses) -> Statement:
    if not pauses.paused:
        return "Paused", False, "Resumed", "nothing is paused"
    both = "Rescaling" if pauses.stops_all else "ScalingUp" if pauses.stops("up") else "ScalingDown"
    return "Paused", True, both, str(pauses)


def _words(name: str) -> str:
    """Return a name with underscores as one capitalised word: out_of_band, OutOfBand."""
    return "".join(part.capitalize() for part in name.split("_"))
