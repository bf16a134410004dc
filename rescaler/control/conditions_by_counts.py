"""Conditions of a job whose engine is asked for a parallelism and places the subtasks itself. Pure."""

from __future__ import annotations

from contracts.messages import JobTopology
from contracts.modes import ModeInForce
from contracts.topology import has_ended, required_of, running_of
from rescaler.control.job.memory import JobMemory, OwnedRequirement
from rescaler.control.job.owners import is_contested, named

Statement = tuple[str, bool, str, str]
"""Type, status, reason, message."""

_STATES = {
    "created": ("WaitingForSlots", "the job has too few slots to start; the engine starts it when there are enough"),
    "waiting": ("WaitingForSlots", "the job has too few slots to start; the engine starts it when there are enough"),
    "restarting": ("Restarting", "the engine restarts the job"),
    "suspended": ("Suspended", "the engine has suspended the job"),
}


def available(topology: JobTopology) -> Statement:
    """Say whether the job runs."""
    if has_ended(topology):
        return "Available", False, topology.state.capitalize(), f"the job has {topology.state}"
    if topology.state in _STATES:
        return "Available", False, *_STATES[topology.state]
    return "Available", True, "Running", f"the job runs with {sum(running_of(topology).values())} subtasks that can be scaled"


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
    hindered = [f"{spec.label or spec.task}: {spec.hindrance}" for spec in topology.tasks if spec.hindrance]
    if hindered:
        return "Degraded", True, "Hindered", "; ".join(hindered)
    if topology.state in _STATES:
        return "Degraded", True, *_STATES[topology.state]
    if memory.failures:
        return "Degraded", True, "RescaleFailed", f"{memory.failures} rescales in a row have failed; the next one waits longer"
    running = running_of(topology)
    short = {task: count for task, count in required_of(topology).items() if running[task] < count}
    if short and memory.underway is None:
        fewer = named({task: running[task] for task in short}, topology)
        return "Degraded", True, "SlotsMissing", f"{named(short, topology)} are required, {fewer} run"
    return "Degraded", False, "Healthy", "what is required runs"
