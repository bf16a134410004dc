"""What a job's settings mean for its engine and for each of its tasks. Pure; used by guardrails, rescaler and tools alike."""

from typing import NamedTuple

from msgspec import UNSET

from contracts.capabilities import SIMULATED
from contracts.job_settings import JobSettings, TaskLimits
from contracts.messages import TaskSpec

STEP = 2.0
"""Factor of one decision, down on every engine and up on the simulated one: the range of SURE's actions (IJCAI 2022)."""
STEP_UP = 4.0
"""The same, up, on a real engine: there a load four times as high must not take a third rescale."""
PARALLELISM_MAX = 10
"""Of a task on the simulated engine, whose published figures it keeps."""
TOTAL_LIMIT = 200
"""Of a job on the simulated engine; a real one has no total unless its owner sets one."""
GROWTH_MAX = 200
"""Of a task on a real engine whose owner set no maximum. It bounds growth only, and is the default of Flink's
``job.autoscaler.vertex.max-parallelism``."""
SCALE_DOWN_AFTER_MINUTES = 30
"""On a real engine, however short the span: upstream's ``job.autoscaler.scale-down.interval`` is an hour."""
BACKLOG_HOLD_MINUTES = 5.0
"""On a real engine; the default of Flink's ``job.autoscaler.backlog-processing.lag-threshold``."""
NO_LIMITS = TaskLimits()


class Bounds(NamedTuple):
    """The parallelism that one task may have. The maximum wins over the minimum.

    A maximum that nobody set is never below what runs. One that the owner set may be: the guardrails go there in steps.
    """

    least: int
    most: int
    pinned: bool


def is_simulated(engine: str) -> bool:
    """Return whether the engine of this kind is the project's own, whose defaults keep the published figures."""
    return engine == SIMULATED.engine


def step_up(settings: JobSettings, engine: str) -> float:
    """Return the largest factor by which one decision may widen a task on this kind of engine."""
    return settings.step_up_max or settings.step_ratio_max or (STEP if is_simulated(engine) else STEP_UP)


def step_down(settings: JobSettings) -> float:
    """Return the largest factor by which one decision may narrow a task."""
    return settings.step_down_max or settings.step_ratio_max or STEP


def parallelism_max(settings: JobSettings, engine: str) -> int | None:
    """Return the most subtasks that the owner allows every task; None: none was set. The simulated engine always has one."""
    return settings.parallelism_max or (PARALLELISM_MAX if is_simulated(engine) else None)


def total_limit(settings: JobSettings, engine: str) -> int | None:
    """Return the most subtasks of a job's scalable tasks together; None: any number."""
    return settings.total_limit or (TOTAL_LIMIT if is_simulated(engine) else None)


def scale_down_after_minutes(settings: JobSettings, engine: str) -> int:
    """Return how long a lower need must have lasted before a task shrinks; 0: no time at all."""
    if settings.scale_down_after_minutes is not None:
        return settings.scale_down_after_minutes
    return 0 if is_simulated(engine) else SCALE_DOWN_AFTER_MINUTES


def utilisation(settings: JobSettings) -> float | None:
    """Return how busy subtasks should be, a share of their time; None: as the policy has it."""
    return settings.utilisation or None


def backlog_hold_minutes(settings: JobSettings, engine: str) -> float:
    """Return the minutes of waiting work from which on no task shrinks; 0: shrinking is never held back."""
    if settings.backlog_hold_minutes is not None:
        return settings.backlog_hold_minutes
    return 0.0 if is_simulated(engine) else BACKLOG_HOLD_MINUTES


def blocks_ineffective(settings: JobSettings, engine: str) -> bool:
    """Return whether a scale-up that brought no throughput must not be repeated."""
    return not is_simulated(engine) if settings.block_ineffective is None else settings.block_ineffective


def answers_emergencies(settings: JobSettings, engine: str) -> bool:
    """Return whether a job that is plainly overloaded grows at once, without waiting for the end of a span."""
    return not is_simulated(engine) if settings.emergency_growth is UNSET else settings.emergency_growth


def task_limits(settings: JobSettings, spec: TaskSpec) -> TaskLimits:
    """Return what the settings say about one task, by its name or else by its label."""
    return settings.tasks.get(spec.task) or settings.tasks.get(spec.label) or NO_LIMITS


def owners_maximum(settings: JobSettings, spec: TaskSpec, engine: str) -> int | None:
    """Return the most subtasks that the owner allows one task; None: no maximum was set."""
    return task_limits(settings, spec).parallelism_max or parallelism_max(settings, engine)


def most_in_words(settings: JobSettings, spec: TaskSpec, engine: str) -> str:
    """Return the most subtasks of a task and what says so: ``4, partitions``; the number alone where it is the engine's own."""
    most, owners = bounds_of(settings, spec, engine).most, owners_maximum(settings, spec, engine)
    if most == owners:
        return f"{most}, max"
    if most == spec.useful_max:
        return f"{most}, partitions"
    if most == spec.parallelism and most > min(spec.max_parallelism, spec.useful_max or GROWTH_MAX):
        return f"{most}, as it runs"
    if most == GROWTH_MAX < spec.max_parallelism and owners is None:
        return f"{most}, for growth"
    return f"{most}, key groups" if spec.stateful and most == spec.vnodes < spec.max_parallelism else str(most)


def bounds_of(settings: JobSettings, spec: TaskSpec, engine: str) -> Bounds:
    """Return the narrower of what settings and engine allow. A task's own bounds take the place of the job's.

    More subtasks than partitions of a source, or than key groups of a stateful task, would have nothing to do. ``engine``: the
    kind that runs the job.
    """
    own, owners = task_limits(settings, spec), owners_maximum(settings, spec, engine)
    useful = min(spec.max_parallelism, spec.useful_max or spec.max_parallelism)
    if spec.stateful:
        useful = min(useful, spec.vnodes)
    unset = useful if owners is not None else min(useful, GROWTH_MAX)
    most = max(unset, spec.parallelism)
    return Bounds(
        least=own.parallelism_min or settings.parallelism_min,
        most=most if owners is None else min(most, owners),
        pinned=own.pinned or bool(spec.fixed),
    )
