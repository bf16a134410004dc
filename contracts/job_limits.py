"""What a job's settings mean for its engine and for each of its tasks. Pure; used by guardrails, rescaler and tools alike."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

import msgspec

from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import (
    ExcludedPeriod,
    JobSettings,
    LatencyBound,
    Objective,
    PeriodBounds,
    TaskLimits,
    Weekday,
    effective,
)
from surescale.contracts.messages import TaskSpec
from surescale.contracts.settings import SPAN_MINUTES

GROWTH_MAX = 200
"""Of a task on a real engine whose owner set no maximum. It bounds growth only, and is the default of Flink's
``job.autoscaler.vertex.max-parallelism``."""
NO_LIMITS = TaskLimits()
RESTART_ASSUMED_S = 180.0
"""How long a restart is taken to last on a real engine where neither the job's owner nor a measurement says.

It is long, since to rescale without need costs more than never to rescale where restarts take minutes. But a plan that expects
five minutes leaves a job alone that is busy for a tenth of its time, and then nothing is ever measured; with three it shrinks.
"""
_LENIENCE = ("latency", "balanced", "cost")
"""Objectives without a bound on latency, the strictest first."""


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


def has_members(engine: str) -> bool:
    """Say whether a job's subtasks are members of consumer groups: each that comes or goes begins an attempt of the job."""
    return engine == "kafka"


def step_up(settings: JobSettings, engine: str) -> float:
    """Return the largest factor by which one decision may widen a task on this kind of engine."""
    return float(effective(settings, "step_up_max", engine))


def step_down(settings: JobSettings) -> float:
    """Return the largest factor by which one decision may narrow a task."""
    return float(effective(settings, "step_down_max"))


def parallelism_max(settings: JobSettings, engine: str) -> int | None:
    """Return the most subtasks that the owner allows every task; None: none was set. The simulated engine always has one."""
    most: int | None = effective(settings, "parallelism_max", engine)
    return most


def total_limit(settings: JobSettings, engine: str) -> int | None:
    """Return the most subtasks of a job's scalable tasks together; None: any number."""
    most: int | None = effective(settings, "total_limit", engine)
    return most


def scale_down_after_minutes(settings: JobSettings, engine: str) -> int:
    """Return how long a lower need must have lasted before a task shrinks; 0: no time at all."""
    return int(effective(settings, "scale_down_after_minutes", engine))


def backlog_hold_minutes(settings: JobSettings, engine: str) -> float:
    """Return the minutes of waiting work from which on no task shrinks; 0: shrinking is never held back."""
    return float(effective(settings, "backlog_hold_minutes", engine))


def blocks_ineffective(settings: JobSettings, engine: str) -> bool:
    """Return whether a scale-up that brought no throughput must not be repeated."""
    return bool(effective(settings, "block_ineffective", engine))


def answers_emergencies(settings: JobSettings, engine: str) -> bool:
    """Return whether a job that is plainly overloaded grows at once, without waiting for the end of a span."""
    return bool(effective(settings, "emergency_growth", engine))


def minutes_known_min(settings: JobSettings) -> int:
    """Return how many minutes of a window must be known before a policy is asked about it."""
    return int(effective(settings, "minutes_known_min"))


class InPeriods(NamedTuple):
    """The periods that decide at a time, each the strictest of those that hold; None: none has such a bound."""

    least: PeriodBounds | None = None
    most: PeriodBounds | None = None
    objective: PeriodBounds | None = None


def in_periods(settings: JobSettings, at_ms: int, ahead_ms: int = 0) -> InPeriods:
    """Return what the owner's periods decide at a time (milliseconds of the epoch).

    ``ahead_ms``: how long before its period begins a minimum already counts. The highest minimum, the lowest maximum and the
    objective that bears the least latency count.
    """
    if not settings.minimum_within:
        return InPeriods()
    now = [each for each in settings.minimum_within if covers(each.period, at_ms)]
    wide = [each for each in settings.minimum_within if each.least > 1 and _covers_within(each.period, at_ms, ahead_ms)]
    return InPeriods(
        least=max(wide, key=lambda each: each.least, default=None),
        most=min((each for each in now if each.most is not None), key=lambda each: each.most or 0, default=None),
        objective=min(
            (each for each in now if each.objective is not None), key=lambda each: _lenience(each.objective), default=None
        ),
    )


def _covers_within(period: ExcludedPeriod, at_ms: int, ahead_ms: int) -> bool:
    """Return whether a period covers a time, or begins at most so much later. Periods begin at whole minutes."""
    return any(covers(period, ms) for ms in range(at_ms, at_ms + ahead_ms + 1, MINUTE_MS))


def _lenience(objective: Objective | LatencyBound | None) -> tuple[int, float, float]:
    """Return what objectives are compared by: the lower, the less latency one bears."""
    if isinstance(objective, LatencyBound):
        return 0, objective.seconds, objective.share
    return 1 + _LENIENCE.index(objective or "cost"), 0.0, 0.0


def minimum_within(settings: JobSettings, at_ms: int, ahead_ms: int = 0) -> int:
    """Return the least subtasks of every task that the owner's periods ask for; 0: none. Arguments as of ``in_periods``."""
    period = in_periods(settings, at_ms, ahead_ms).least
    return 0 if period is None else period.least


def keeps_at_work(settings: JobSettings, at_ms: int, ahead_ms: int = 0) -> PeriodBounds | None:
    """Return the period for whose minimum, even one of 1, a job may not go to rest; arguments as of ``in_periods``."""
    found = [each for each in settings.minimum_within or () if each.has_minimum and _covers_within(each.period, at_ms, ahead_ms)]
    return max(found, key=lambda each: each.least, default=None)


def restart_ahead_ms(settings: JobSettings, restart_ms: int | None) -> int:
    """Return how long before a period a decision must be made so that its size runs when the period begins.

    That is what a restart takes, by its owner, else as measured (``restart_ms``), else ``RESTART_ASSUMED_S``; and a minute in
    which figures arrive, are decided on, and the decision is taken up.
    """
    measured_s = RESTART_ASSUMED_S if restart_ms is None else restart_ms / 1000.0
    restart_s = measured_s if settings.restart_seconds is None else settings.restart_seconds
    return (1 + math.ceil(restart_s / 60.0)) * MINUTE_MS


def span_ahead_ms(settings: JobSettings, restart_ms: int | None) -> int:
    """Return how long before a period its minimum counts: the last decision at a span's end that is in time is made for it."""
    return SPAN_MINUTES * MINUTE_MS + restart_ahead_ms(settings, restart_ms)


def at_time(settings: JobSettings, engine: str, at_ms: int) -> JobSettings:
    """Return a job's settings with the maximum and the objective that its periods give it at a time.

    A period's maximum is every task's, and lifts none. Its minimum is not among them (``minimum_within``): a decision may be made
    for it before it holds.
    """
    _, narrow, wanted = in_periods(settings, at_ms)
    changes: dict[str, object] = {}
    if narrow is not None and narrow.most is not None:
        most, owners = narrow.most, parallelism_max(settings, engine)
        changes["parallelism_max"] = most if owners is None else min(most, owners)
        changes["tasks"] = {
            name: msgspec.structs.replace(limits, parallelism_max=limits.parallelism_max and min(most, limits.parallelism_max))
            for name, limits in (settings.tasks or {}).items()
        }
    if wanted is not None:
        changes["objective"] = wanted.objective
    return msgspec.structs.replace(settings, **changes) if changes else settings


def task_limits(settings: JobSettings, spec: TaskSpec) -> TaskLimits:
    """Return what the settings say about one task, by its name or else by its label."""
    tasks = settings.tasks or {}
    return tasks.get(spec.task) or tasks.get(spec.label) or NO_LIMITS


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


def bounds_of(settings: JobSettings, spec: TaskSpec, engine: str, within: int = 0) -> Bounds:
    """Return the narrower of what settings and engine allow one task (``all_bounds``)."""
    return all_bounds(settings, (spec,), engine, within)[0]


def all_bounds(settings: JobSettings, specs: Iterable[TaskSpec], engine: str, within: int = 0) -> list[Bounds]:
    """Return the narrower of what settings and engine allow each task. A task's own bounds take the place of the job's.

    More subtasks than partitions of a source, or than key groups of a stateful task, would have nothing to do. ``engine``: the
    kind that runs the job. ``within``: of ``minimum_within``; below it lies only a task's maximum.
    """
    jobs_most, jobs_least = parallelism_max(settings, engine), effective(settings, "parallelism_min")
    found = []
    for spec in specs:
        own = task_limits(settings, spec)
        owners = own.parallelism_max or jobs_most
        useful = min(spec.max_parallelism, spec.useful_max or spec.max_parallelism)
        if spec.stateful:
            useful = min(useful, spec.vnodes)
        unset = useful if owners is not None else min(useful, GROWTH_MAX)
        most = max(unset, spec.parallelism)
        found.append(
            Bounds(
                least=max(within, own.parallelism_min or jobs_least),
                most=most if owners is None else min(most, owners),
                pinned=own.pinned or bool(spec.fixed),
            )
        )
    return found


Freeze = Literal["none", "calm", "all"]
"""Nothing is excluded; only an overloaded task may change, by growing; nothing may change."""
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


def freeze_at(periods: Iterable[ExcludedPeriod], at_ms: int) -> Freeze:
    """Return what is excluded at a time (milliseconds of the epoch): the strictest of the periods that cover it counts."""
    covering = [period for period in periods if covers(period, at_ms)]
    if not covering:
        return "none"
    return "calm" if all(period.emergencies for period in covering) else "all"


def covers(period: ExcludedPeriod, at_ms: int) -> bool:
    """Return whether a period covers a time. Its clock times are local: on days when clocks change they follow the wall clock.

    >>> covers(ExcludedPeriod(days=("thu",), starts="22:00", ends="02:00"), 3_600_000)  # Thursday 1970-01-01 01:00
    False
    >>> covers(ExcludedPeriod(days=("wed",), starts="22:00", ends="02:00"), 3_600_000)
    True
    """
    local = datetime.fromtimestamp(at_ms / 1000, zone_of(period.zone))
    time = f"{local:%H:%M}"
    if period.starts < period.ends:
        return period.starts <= time < period.ends and _is_on(period, local)
    return (time >= period.starts and _is_on(period, local)) or (time < period.ends and _is_on(period, local - timedelta(days=1)))


def is_over(period: ExcludedPeriod, at_ms: int) -> bool:
    """Return whether a period's last day has passed, so that it never comes again.

    >>> is_over(ExcludedPeriod(last_day="1970-01-01"), 86_399_999), is_over(ExcludedPeriod(last_day="1970-01-01"), 86_400_000)
    (False, True)
    """
    if period.last_day is None or covers(period, at_ms):
        return False
    return period.last_day < f"{datetime.fromtimestamp(at_ms / 1000, zone_of(period.zone)):%Y-%m-%d}"


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name; UTC for a name that this machine does not know (``surescale job`` refuses those)."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of the database
        return UTC


def is_zone(name: str) -> bool:
    """Return whether this machine knows a time zone by that name."""
    return name == "UTC" or zone_of(name) is not UTC


def _is_on(period: ExcludedPeriod, local: datetime) -> bool:
    """Return whether a period runs on a local day."""
    day = f"{local:%Y-%m-%d}"
    if period.days and WEEKDAYS[local.weekday()] not in period.days:
        return False
    return (period.first_day is None or period.first_day <= day) and (period.last_day is None or day <= period.last_day)
