"""Checks whether a decision may be carried out at all, against the latest topology and settings.

The guardrails of the policies have already amended it. Here nothing is amended, only accepted or refused.

On real engines also whether the job is ours to change, and whether a change could do harm: a job whose state or load is not known
is held, never made smaller.

A task that would change in a paused direction stays as it is, and so do the tasks that must keep one parallelism with it. In a
period that the job's owner excluded all do; unless it is strict, overloaded tasks may grow, with those tied to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, TaskDecision
from surescale.contracts.job_limits import (
    at_time,
    bounds_of,
    freeze_at,
    in_periods,
    minimum_within,
    minutes_known_min,
    total_limit,
)
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings
from surescale.contracts.limits_in_words import in_periods_in_words
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.modes import ModeInForce
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.pauses import Pauses
from surescale.contracts.plurals import counted
from surescale.contracts.topology import has_ended, required_of
from surescale.policies.stateful_limits import SizeRequest
from surescale.rescaler.control.counts import tied_tasks
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import OwnedRequirement, PendingAct
from surescale.rescaler.control.job.owners import is_contested, loses_state, named
from surescale.rescaler.control.outcomes import OutcomeReason
from surescale.rescaler.control.world import parallelism_of


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to refuse, and a sentence that names the field."""

    reason: OutcomeReason
    detail: str


def objection_to(decision: SizeRequest, topology: JobTopology, settings: JobSettings, mode: ModeInForce) -> Objection | None:
    """Return the first objection; None if the decision can be accepted.

    ``topology`` is the job as it runs now. A task that is outside its bounds already may stay as it is, and may go towards them
    in steps.
    """
    if has_ended(topology):
        return Objection(OutcomeReason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if mode.mode == "observe":
        return _observed(mode)
    specs = {spec.task: spec for spec in topology.tasks}
    wanted: dict[str, int] = {}
    within = minimum_within(settings, decision.span_end_ms)
    periods = in_periods_in_words(in_periods(settings, decision.span_end_ms)._replace(objective=None), decision.span_end_ms)
    settings = at_time(settings, topology.engine, decision.span_end_ms)
    for index, task in enumerate(decision.tasks):
        field = f"tasks[{index}]"
        if task.task not in specs:
            return Objection(OutcomeReason.UNKNOWN_TASK, f"{field}.task: {task.task!r} is not a task of job {topology.job}")
        if task.task in wanted:
            return Objection(OutcomeReason.REPEATED_TASK, f"{field}.task: {task.task!r} is named twice")
        wanted[task.task] = task.desired
        objection = _task_objection(field, task, specs[task.task], settings, topology.engine, within)
        if objection and objection.reason is OutcomeReason.OUT_OF_BOUNDS and periods:
            return Objection(objection.reason, f"{objection.detail}; {periods}")
        if objection:
            return objection
    return _total_objection(wanted, topology, settings)


def no_longer_possible(pending: PendingAct, topology: JobTopology | None, mode: ModeInForce) -> Objection | None:
    """Return why an accepted act can no longer be carried out; None while it can."""
    if topology is None:
        return Objection(OutcomeReason.UNKNOWN_JOB, "job: its topology is gone")
    if has_ended(topology):
        return Objection(OutcomeReason.JOB_NOT_RUNNING, f"job: {topology.state}")
    if mode.mode == "observe":
        return _observed(mode)
    if pending.own and pending.own is not OwnAct.APPROVED and mode.mode == "advise":
        detail = f"mode: advise: {pending.own} is an act of the rescaler's own, and happens in mode act only"
        return Objection(OutcomeReason.ADVISE, detail)
    if pending.own is OwnAct.APPROVED and topology.state == "waiting":  # it was advised to a job that ran: first comes its start
        return Objection(OutcomeReason.JOB_NOT_RUNNING, "job: waiting")
    fixed = [spec for spec in topology.tasks if spec.fixed and _size_of(spec.task, pending) not in (None, spec.parallelism)]
    if fixed:
        return Objection(OutcomeReason.NOT_SCALABLE, f"tasks: {fixed[0].task!r}: {fixed[0].fixed}")
    gone = sorted(set(pending.wanted) - {spec.task for spec in topology.tasks})
    return Objection(OutcomeReason.TOPOLOGY_CHANGED, f"tasks: {gone[0]!r} is gone") if gone else None


def _size_of(task: str, pending: PendingAct) -> int | None:
    return pending.wanted[task].desired if task in pending.wanted else None


def _observed(mode: ModeInForce) -> Objection:
    return Objection(OutcomeReason.OBSERVE, "" if mode.source == "settings" else f"mode: {mode}")


def _task_objection(
    field: str, task: TaskDecision, spec: TaskSpec, settings: JobSettings, engine: str, within: int
) -> Objection | None:
    if task.desired == spec.parallelism:
        return None
    if spec.fixed:
        return Objection(OutcomeReason.NOT_SCALABLE, f"{field}.desired: {task.task!r}: {spec.fixed}")
    if not spec.scalable:
        return Objection(
            OutcomeReason.NOT_SCALABLE, f"{field}.desired: {task.task!r} has the fixed parallelism {spec.parallelism}"
        )
    least, most, pinned = bounds_of(settings, spec, engine, within)
    if pinned:
        return Objection(OutcomeReason.OUT_OF_BOUNDS, f"{field}.desired: {task.task!r} is pinned to {spec.parallelism}")
    if not min(least, spec.parallelism) <= task.desired <= max(most, spec.parallelism):
        return Objection(
            OutcomeReason.OUT_OF_BOUNDS, f"{field}.desired: {task.desired} for {task.task!r}, allowed {least} to {most}"
        )
    return None


def _total_objection(wanted: dict[str, int], topology: JobTopology, settings: JobSettings) -> Objection | None:
    scalable = [spec for spec in topology.tasks if spec.scalable]
    before = sum(spec.parallelism for spec in scalable)
    after = sum(wanted.get(spec.task, spec.parallelism) for spec in scalable)
    total = total_limit(settings, topology.engine)
    if total is None or after <= max(total, before):
        return None
    return Objection(OutcomeReason.ABOVE_TOTAL_LIMIT, f"tasks: {counted(after, 'subtask')} in all, allowed {total}")


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
    if not all(required_of(topology).values()):  # the last members have not left yet
        return Objection(OutcomeReason.JOB_NOT_RUNNING, "job: no subtask is asked for")
    if acts and owned.foreign:
        return _foreign(owned, topology)
    if acts and loses_state(context, topology):
        detail = "the job takes no checkpoints: a rescale would lose its state; set execution.checkpointing.interval"
        return Objection(OutcomeReason.NO_CHECKPOINTS, detail)
    if decision is None:
        return None
    minutes = minutes_known_min(context.world.allowed)  # a window does not tell them from those of the submission before
    if owned.epoch_at_ms and decision.span_end_ms < owned.epoch_at_ms + minutes * MINUTE_MS:
        detail = f"the job was submitted again; decisions wait for {counted(minutes, 'minute')} of its own figures"
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
    detail = f"{smaller[0]}: the load of the last minutes is not known (known minutes: {decision.minutes_known})"
    return Objection(OutcomeReason.UNKNOWN_LOAD, detail)


TASKS_SHOWN = 3
NEVER_PAUSED = (OwnAct.RECOVERY, OwnAct.DRAIN)
"""Acts that keep a job running which has lost its units, or is about to."""


class Sized(Protocol):
    """What is wanted for one task."""

    @property
    def desired(self) -> int:
        """The number of subtasks."""

    @property
    def overloaded(self) -> bool:
        """Whether it has no spare capacity."""


W = TypeVar("W", bound=Sized)


@dataclass(frozen=True, slots=True)
class PauseEffect:
    """What a pause, or the calendar, leaves of an act; ``words``: what it keeps back, empty if that is nothing."""

    kept: frozenset[str] = frozenset()
    words: str = ""
    is_nothing: bool = False
    """No task is left that would change."""


def effect_of(wanted: Mapping[str, Sized], topology: JobTopology, engine: Capabilities, pauses: Pauses) -> PauseEffect:
    """Return what the pauses in force leave of an act."""
    if not pauses.paused:
        return PauseEffect()
    current = parallelism_of(topology)
    changing = {task for task, want in wanted.items() if task in current and want.desired != current[task]}
    kept = {task for task in changing if pauses.stops_change(current[task], wanted[task].desired)}
    for group in tied_tasks(topology, engine):
        names = {spec.task for spec in group}
        kept |= names & wanted.keys() if names & kept else set()
    if not kept & changing:
        return PauseEffect()
    return PauseEffect(frozenset(kept), f"{_named(kept & changing)}: {pauses}", is_nothing=changing <= kept)


def effect_of_calendar(
    wanted: Mapping[str, Sized], topology: JobTopology, engine: Capabilities, periods: Iterable[ExcludedPeriod], now_ms: int
) -> PauseEffect:
    """Return what the periods that the job's owner excluded leave of an act now."""
    freeze = freeze_at(periods, now_ms)
    if freeze == "none":
        return PauseEffect()
    current = parallelism_of(topology)
    changing = {task for task, want in wanted.items() if task in current and want.desired != current[task]}
    urgent = {task for task in changing if freeze == "calm" and wanted[task].overloaded}
    for group in tied_tasks(topology, engine):
        names = {spec.task for spec in group}
        urgent |= names & changing if names & urgent else set()
    kept = {task for task in changing if task not in urgent or wanted[task].desired < current[task]}
    if not kept:
        return PauseEffect()
    return PauseEffect(frozenset(kept), f"{_named(kept)}: an excluded period has begun", is_nothing=kept == changing)


def unpaused(wanted: Mapping[str, W], left: PauseEffect) -> dict[str, W]:
    """Return what is wanted of the other tasks."""
    return {task: want for task, want in wanted.items() if task not in left.kept}


def stops_restoring(wanted: Mapping[str, int], topology: JobTopology, pauses: Pauses) -> bool:
    """Say whether asking an engine for this parallelism would change a task in a paused direction."""
    required = required_of(topology)
    return any(pauses.stops_change(required.get(task, count), count) for task, count in wanted.items())


def _named(tasks: Iterable[str]) -> str:
    names = sorted(tasks)
    more = f" and {counted(len(names) - TASKS_SHOWN, 'more task')}" if len(names) > TASKS_SHOWN else ""
    return ", ".join(names[:TASKS_SHOWN]) + more
