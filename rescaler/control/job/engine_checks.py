"""Checks that hold for real engines only: whether the job is ours to change, and whether a change could do harm.

A job whose state or load is not known is held, never made smaller.
"""

from __future__ import annotations

from contracts.clock import MINUTE_MS
from contracts.decisions import Decision
from contracts.messages import JobTopology
from rescaler.control.job.checks import Objection
from rescaler.control.job.context import JobContext
from rescaler.control.job.memory import OwnedRequirement
from rescaler.control.job.owners import is_contested, loses_state, named
from rescaler.control.outcomes import OutcomeReason

MINUTES_KNOWN_MIN = 5
"""A job is made smaller only on at least this many minutes of figures."""


def objection_of_engine(
    context: JobContext, topology: JobTopology, decision: Decision | None = None, *, approved: bool = False
) -> Objection | None:
    """Return the first objection to an act; None if there is none.

    ``decision``: a new one; None: an act that waits. ``approved``: it is carried out whatever the mode.
    """
    owned, acts = context.memory.owned or OwnedRequirement(), approved or context.world.mode.mode == "act"
    if topology.state != "running":
        return Objection(OutcomeReason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if acts and owned.foreign:
        return _foreign(owned, topology)
    if acts and loses_state(context, topology):
        detail = "the job takes no checkpoints: a rescale would lose its state; set execution.checkpointing.interval"
        return Objection(OutcomeReason.NO_CHECKPOINTS, detail)
    if decision is None:
        return None
    minutes = context.world.allowed.minutes_known_min  # a window does not tell them from those of the submission before
    if owned.epoch_at_ms and decision.span_end_ms < owned.epoch_at_ms + minutes * MINUTE_MS:
        detail = f"the job was submitted again; decisions wait for {minutes} minutes of its own figures"
        return Objection(OutcomeReason.NEW_EPOCH, detail)
    return _blind(decision)


def _foreign(owned: OwnedRequirement, topology: JobTopology) -> Objection:
    change = f"{named(owned.required, topology)} was asked for by us, {named(owned.foreign, topology)} by somebody else"
    if is_contested(owned):
        detail = f"{change}, {owned.returned} times; switch the other one off, then `surescale job adopt {topology.job}`"
        return Objection(OutcomeReason.CONTESTED, detail)
    return Objection(OutcomeReason.FOREIGN_REQUIREMENT, f"{change}; `surescale job adopt {topology.job}` takes it over")


def _blind(decision: Decision) -> Objection | None:
    """Return an objection if the decision makes a task smaller and the load is not known."""
    smaller = [task.task for task in decision.tasks if task.desired < task.current]
    if not smaller or (decision.load_records_per_minute is not None and decision.minutes_known >= MINUTES_KNOWN_MIN):
        return None
    detail = f"{smaller[0]}: the load of the last minutes is not known ({decision.minutes_known} minutes are)"
    return Objection(OutcomeReason.UNKNOWN_LOAD, detail)
