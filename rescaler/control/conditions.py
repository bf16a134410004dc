"""Conditions that describe a job, in the style of Kubernetes. Pure; the control itself reads none of them.

A job whose units we place has Available, Balanced, Progressing, Draining and Degraded. A job whose engine places it has
Available, Owned, Progressing and Degraded. Once somebody has paused it, a job also has Paused.

``generation`` is the job's last accepted target, ``observed_generation`` the last one that is over: carried out or given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.messages import Host, JobTopology
from surescale.contracts.modes import ModeInForce
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.pauses import Pauses
from surescale.contracts.plurals import counted
from surescale.contracts.rescaler_state import BalanceMemory, Condition
from surescale.contracts.topology import RESTING, has_ended, required_of, running_of, units_of
from surescale.rescaler.control.job.memory import AT_REST, JobMemory, OwnedRequirement, Rest
from surescale.rescaler.control.job.owners import is_contested, named

MEMORY_UNREADABLE = "MemoryUnreadable"
"""The reason while something that the rescaler remembers cannot be read."""
CLOCK_APART = "ClockApart"
"""The reason while the rescaler's machine has another time than Kafka."""
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
    held: str = "",
    now_ms: int,
) -> tuple[Condition, ...]:
    """Return the job's conditions now. One whose status has not changed keeps the time of its last transition.

    ``balance``: what is known of the hosts; a text says why it cannot be read. ``held``: why nothing is done about any job.
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
            available(topology, memory),
            owned(memory, topology, mode),
            progressing(memory, topology) or _progressing(memory),
            degraded(memory, topology),
        )
    if memory.unreadable:
        statements = (*statements[:-1], ("Degraded", True, MEMORY_UNREADABLE, memory.unreadable))
    elif held:
        statements = (*statements[:-1], ("Degraded", True, CLOCK_APART, held))
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
        return _failed(memory.failures)
    short = balance.under_replicated.get(memory.job, 0) if isinstance(balance, BalanceMemory) else 0
    if short:
        return "Degraded", True, "UnderReplicated", f"no host is free for the standbys of {counted(short, 'unit')}"
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


Statement = tuple[str, bool, str, str]
"""Type, status, reason, message."""

_STATES = {
    "created": ("WaitingForSlots", "the job has too few slots to start; the engine starts it when there are enough"),
    "waiting": ("WaitingForSlots", "the job has too few slots to start; the engine starts it when there are enough"),
    "restarting": ("Restarting", "the engine restarts the job"),
    "suspended": ("Suspended", "the engine has suspended the job"),
    RESTING: ("Stopped", "somebody has asked for no members at all; who stopped it starts it"),
}


def at_rest(rest: Rest) -> str:
    """Say since when a job has no subtask, and what starts it."""
    since = datetime.fromtimestamp(rest.since_ms / 1000, UTC)
    starts = f"not started: {rest.held}" if rest.held else "starts when records arrive"
    return f"at rest (0 members) since {since:%Y-%m-%d %H:%M} UTC, {starts}"


def available(topology: JobTopology, memory: JobMemory) -> Statement:
    """Say whether the job runs, or would if there was anything to do."""
    if topology.state == RESTING and memory.rescaling is not None and memory.rescaling.own is not OwnAct.REST:
        return "Available", False, "Starting", "it was at rest, and its members are started"
    if topology.state == RESTING and memory.rest is not None:
        return "Available", True, AT_REST, at_rest(memory.rest)
    if has_ended(topology):
        return "Available", False, topology.state.capitalize(), f"the job has {topology.state}"
    if topology.state in ("created", "waiting") and (why := _hindrances(topology)):
        return "Available", False, "Hindered", why
    if topology.state in _STATES:
        return "Available", False, *_STATES[topology.state]
    running = counted(sum(running_of(topology).values()), "subtask")
    return "Available", True, "Running", f"the job runs with {running} that can be scaled"


def owned(memory: JobMemory, topology: JobTopology, mode: ModeInForce) -> Statement:
    """Say whether its parallelism is ours to change."""
    known, job = memory.owned or OwnedRequirement(), topology.job
    if mode.source == "name":
        return (
            "Owned",
            False,
            "AmbiguousName",
            "another job of the cluster has this name; label each with a surescale.job of its own",
        )
    if known.foreign:
        change = f"we asked for {named(known.required, topology)}, somebody else for {named(known.foreign, topology)}"
        if is_contested(known):
            message = f"{change}, {known.returned} times; switch the other one off, then `surescale job adopt {job}`"
            return "Owned", False, "Contested", message
        return "Owned", False, "ForeignRequirement", f"{change}; `surescale job adopt {job}` takes it over"
    if known.abandoned and known.abandoned == required_of(topology):
        left = f"the engine is still asked for {named(known.abandoned, topology)}, by a command that was given up"
        return "Owned", True, "LeftBehind", left
    if known.offer:
        message = f"it was submitted again; `surescale job reapply {job}` asks for {named(known.offer, topology)} again"
        return "Owned", True, "SubmittedAgain", message
    if known.required:
        return "Owned", True, "Ours", f"{named(known.required, topology)}, as we last asked for"
    return "Owned", True, "Author", "as its author wants it; we have not changed it"


def progressing(memory: JobMemory, topology: JobTopology) -> Statement | None:
    """Say how far a command is; None: nothing is under way."""
    command = memory.outstanding
    if command is None:
        return None
    wanted = named(command.targets, topology)
    if memory.partly is None:
        return "Progressing", True, "Requested", f"the engine is asked for {wanted}"
    reached = named(memory.partly.reached, topology)
    waits = f"; it waits for {memory.partly.waiting_for}" if memory.partly.waiting_for else ""
    return "Progressing", True, "Partly", f"the engine is asked for {wanted} and runs {reached}{waits}"


def degraded(memory: JobMemory, topology: JobTopology) -> Statement:
    """Say whether less runs than should."""
    fixed = [f"{spec.label or spec.task}: {spec.fixed}" for spec in topology.tasks if spec.fixed]
    if fixed:
        return "Degraded", True, "Fixed", "; ".join(fixed)
    if why := _hindrances(topology):
        return "Degraded", True, "Hindered", why
    if topology.state in _STATES and not (topology.state == RESTING and (memory.rest or memory.underway)):
        return "Degraded", True, *_STATES[topology.state]
    if memory.failures:
        return _failed(memory.failures)
    running = running_of(topology)
    short = {task: count for task, count in required_of(topology).items() if running[task] < count}
    if short and memory.underway is None:
        fewer = named({task: running[task] for task in short}, topology)
        return "Degraded", True, "SlotsMissing", f"{named(short, topology)} are required, {fewer} run"
    return "Degraded", False, "Healthy", "what is required runs"


def _hindrances(topology: JobTopology) -> str:
    return "; ".join(f"{spec.label or spec.task}: {spec.hindrance}" for spec in topology.tasks if spec.hindrance)


def _failed(rescales: int) -> Statement:
    words = "a rescale has" if rescales == 1 else f"{rescales} rescales in a row have"
    return "Degraded", True, "RescaleFailed", f"{words} failed; the next one waits longer"
