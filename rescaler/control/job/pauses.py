"""What a pause, or a period that the job's owner excluded, leaves of an act: the tasks that it may still change. Pure.

A task that would change in a paused direction stays as it is, and so do the tasks that must keep one parallelism with it. In an
excluded period all do; unless it is strict, overloaded tasks may grow, with those that must keep one parallelism with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from contracts.capabilities import Capabilities
from contracts.excluded_periods import freeze_at
from contracts.job_settings import ExcludedPeriod
from contracts.messages import JobTopology
from contracts.own_acts import OwnAct
from contracts.pauses import Pauses
from contracts.topology import required_of
from rescaler.control.counts.plan import tied_tasks
from rescaler.control.world import parallelism_of

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
    more = f" and {len(names) - TASKS_SHOWN} more tasks" if len(names) > TASKS_SHOWN else ""
    return ", ".join(names[:TASKS_SHOWN]) + more
