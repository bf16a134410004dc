"""A simulated job's commands: their changes, checked one by one, and their progress. Changes nothing. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from surescale.contracts.commands import Rescale, RescheduleCommand, TaskChange
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import JobTopology, TaskSpec

UNKNOWN = frozenset({"UNKNOWN_JOB", "UNKNOWN_HOST"})
CONFLICTS = frozenset(
    {
        "STALE_GENERATION",  # this or a newer generation was accepted before
        "RESCALE_IN_PROGRESS",  # the previous command is still under way
        "BASE_CHANGED",  # the command starts from another parallelism than the task has
        "UNIT_OCCUPIED",  # a unit belongs to another job
        "NOT_ENOUGH_UNITS",
        "JOB_WAITING",  # the job has no units, so nothing can be prepared while it runs
        "HOST_EXISTS",
        "TOO_MANY_HOSTS",
    }
)
INVALID = frozenset(
    {
        "INVALID_COMMAND",
        "INVALID_HOST",
        "UNKNOWN_TASK",
        "NOT_SCALABLE",
        "PARALLELISM_OUT_OF_RANGE",
        "UNKNOWN_PARALLEL_UNIT",
    }
)


class EngineRefusal(SurescaleError):
    """A request that the engine refuses; ``code`` is one of the sets above."""

    def __init__(self, code: str, message: str) -> None:
        assert code in UNKNOWN | CONFLICTS | INVALID, code
        super().__init__(message)
        self.code = code
        self.message = message


Tasks = tuple[TaskSpec, ...]


def tasks_after(command: RescheduleCommand, topology: JobTopology, existing: Collection[int], available: Sequence[int]) -> Tasks:
    """Return the tasks as they will be.

    ``existing`` are all units of the cluster. ``available`` are the units that the job has or may take, in the order of use if a
    change names none.

    Raises:
        EngineRefusal: with the code of the first objection.
    """
    changes = {change.task: change for change in command.changes}
    if len(changes) != len(command.changes):
        raise EngineRefusal("INVALID_COMMAND", "changes: a task is listed twice")
    unknown = sorted(changes.keys() - {spec.task for spec in topology.tasks})
    if unknown:
        raise EngineRefusal("UNKNOWN_TASK", f"changes: {unknown[0]!r} is not a task of job {topology.job}")
    tasks = [_changed(spec, changes[spec.task], existing, available) if spec.task in changes else spec for spec in topology.tasks]
    bare = [spec.task for spec in tasks if spec.scalable and not spec.units]
    if bare:
        raise EngineRefusal("INVALID_COMMAND", f"changes: {bare[0]!r} would have no unit; start a waiting job as a whole")
    held = {unit for spec in tasks if spec.scalable for unit in spec.units}
    return tuple(spec if spec.scalable else _within(spec, held) for spec in tasks)


def moved_to(pool: Sequence[int], tasks: Tasks) -> Tasks:
    """Return the tasks on the units of a pool. Each keeps the units it has; tasks shrink if the pool is too small."""
    return tuple(_moved(spec, pool) for spec in tasks)


def replaced(tasks: Tasks, units: Mapping[int, int]) -> Tasks:
    """Return the tasks with some units replaced by others in place."""
    return tuple(msgspec.structs.replace(spec, units=tuple(units.get(unit, unit) for unit in spec.units)) for spec in tasks)


def wanted_standbys(command: RescheduleCommand, topology: JobTopology, host_of: Mapping[int, str]) -> dict[int, tuple[str, ...]]:
    """Return, per unit of the job, the hosts that a ``standby`` command wants copies on.

    Raises:
        EngineRefusal: it has no standbys, or names a unit that is not the job's, an unknown host, or the unit's own host.
    """
    if command.standbys is None or command.changes:
        raise EngineRefusal("INVALID_COMMAND", "standbys: a standby command must list them, and no changes")
    held, hosts = units_of(topology.tasks), set(host_of.values())
    for each in command.standbys:
        where = f"standbys[{each.unit}]"
        if each.unit not in held:
            raise EngineRefusal("UNKNOWN_PARALLEL_UNIT", f"{where}: job {topology.job} has no such unit")
        unknown = sorted(set(each.hosts) - hosts)
        if unknown:
            raise EngineRefusal("UNKNOWN_HOST", f"{where}: there is no host {unknown[0]!r}")
        if host_of[each.unit] in each.hosts or len(set(each.hosts)) != len(each.hosts):
            raise EngineRefusal("INVALID_COMMAND", f"{where}: one copy per host, none on the unit's own host")
    return {each.unit: each.hosts for each in command.standbys}


def units_of(tasks: Tasks) -> frozenset[int]:
    """Return the units that the tasks run on."""
    return frozenset(unit for spec in tasks for unit in spec.units)


def _changed(spec: TaskSpec, change: TaskChange, existing: Collection[int], available: Sequence[int]) -> TaskSpec:
    where = f"changes[{spec.task}]"
    if not spec.scalable:
        raise EngineRefusal("NOT_SCALABLE", f"{where}: its parallelism is fixed")
    if change.before != spec.parallelism:
        raise EngineRefusal("BASE_CHANGED", f"{where}: it has parallelism {spec.parallelism}, not {change.before}")
    if not 1 <= change.after <= spec.max_parallelism:
        raise EngineRefusal("PARALLELISM_OUT_OF_RANGE", f"{where}: {change.after} is not within 1 to {spec.max_parallelism}")
    units = change.units or _chosen(spec, change.after, available)
    if len(units) != change.after or len(set(units)) != len(units):
        raise EngineRefusal("INVALID_COMMAND", f"{where}: {len(set(units))} different units for parallelism {change.after}")
    unknown = sorted(set(units) - set(existing))
    if unknown:
        raise EngineRefusal("UNKNOWN_PARALLEL_UNIT", f"{where}: unit {unknown[0]} belongs to no host")
    occupied = sorted(set(units) - set(available) - set(spec.units))
    if occupied:
        raise EngineRefusal("UNIT_OCCUPIED", f"{where}: unit {occupied[0]} belongs to another job")
    return msgspec.structs.replace(spec, parallelism=change.after, units=tuple(units))


def _chosen(spec: TaskSpec, wanted: int, available: Sequence[int]) -> tuple[int, ...]:
    kept = spec.units[:wanted]
    added = [unit for unit in available if unit not in kept][: wanted - len(kept)]
    if len(kept) + len(added) < wanted:
        raise EngineRefusal("NOT_ENOUGH_UNITS", f"changes[{spec.task}]: {len(available)} units are available, {wanted} wanted")
    return (*kept, *added)


def _moved(spec: TaskSpec, pool: Sequence[int]) -> TaskSpec:
    kept = [unit for unit in spec.units if unit in pool]
    units = (kept + [unit for unit in pool if unit not in kept])[: spec.parallelism]
    return msgspec.structs.replace(spec, parallelism=len(units), units=tuple(units))


def _within(spec: TaskSpec, held: set[int]) -> TaskSpec:
    """Keep source or sink on a unit that the job still holds."""
    return spec if set(spec.units) <= held and spec.units else msgspec.structs.replace(spec, units=(min(held),))


HostOf = Mapping[int, str]
"""The host of every existing unit."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A commit that has not taken effect yet."""

    rescale: Rescale
    tasks: Tasks
    generation: int


@dataclass(frozen=True, slots=True)
class FailedOver:
    """How a job survived the death of a host.

    Attributes:
        is_taken_over: standbys replaced every lost unit, so nothing had to be restored or repeated.
        records_again: records served since the last checkpoint, which will be served again.
    """

    is_taken_over: bool = False
    records_again: int = 0
