"""Which of a job's settings may be changed, and what contradicts itself. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from contracts.errors import SettingsError
from contracts.job_labels import FIELDS, NO_SETTINGS
from contracts.job_limits import bounds_of, owners_maximum, task_limits, total_limit
from contracts.job_settings import JobSettings
from contracts.messages import JobTopology, TaskSpec

OPTIONS = {"mode": "--mode"} | {field: f"--{name}" for name, field in FIELDS.items()}
"""The option of each field that may be changed."""
REQUESTS = {"adopted_at_ms": "adopt", "reapplied_at_ms": "reapply"}
"""The command of each field that says until when something was requested."""
STEPS = ("pause", "approval")
"""What people do now, with commands of their own: `surescale pause`, `resume` and `approve`."""
BOUNDS = frozenset({"parallelism_min", "parallelism_max", "total_limit", "tasks"})
VERSION_MAX = 2**53  # a `Count`
PAUSED = "observe"
PINNED = "hold"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One settings record and the broker's time for it."""

    settings: JobSettings
    append_ms: int


def newest(history: Iterable[Recorded], job: str) -> JobSettings:
    """Return the settings in force after these records (in the order of the topic); of equal versions the later one counts."""
    latest = JobSettings(job=job)
    for recorded in history:
        if recorded.settings.version >= latest.version:
            latest = recorded.settings
    return latest


def changed(
    before: JobSettings, wanted: Mapping[str, object], topology: JobTopology | None, *, by: str, at_ms: int, request: str = ""
) -> JobSettings:
    """Return the next version of a job's settings.

    Bounds are checked only if one of them is named: a job that has outgrown its bounds can still be paused. ``topology``: the
    job's; None: the settings are for all jobs of a cluster, and name no bounds. ``request``: what a
    repeated request is known by.

    Raises:
        SettingsError: the new settings contradict themselves or the job; the message names the option.
    """
    # Of equal versions the later record counts, so settings stay changeable even after somebody wrote the highest version.
    version = min(before.version + 1, VERSION_MAX)
    made = {"version": version, "set_by": by, "set_at_ms": at_ms, "request": request or msgspec.UNSET}
    given = _given(before, wanted) or msgspec.UNSET
    wanted = {name: getattr(NO_SETTINGS, name) if value is None else value for name, value in wanted.items()}
    settings = msgspec.structs.replace(_in_two_steps(before, wanted), **wanted, **made, given=given)
    if topology is not None and BOUNDS & wanted.keys():
        _check(settings, topology)
    return settings


def _given(before: JobSettings, wanted: Mapping[str, object]) -> tuple[str, ...]:
    """Return the fields that somebody set to what they are by themselves; None in ``wanted``: as if never set."""
    plain = {name for name, value in wanted.items() if value is not None and value == getattr(NO_SETTINGS, name, None)}
    plain &= set(FIELDS.values())
    return tuple(sorted(((set(before.given or ()) - wanted.keys()) | plain) - {"latency_bound"}))


def _in_two_steps(before: JobSettings, wanted: Mapping[str, object]) -> JobSettings:
    """Return settings with an older record's one step as two, if either of them is to be changed."""
    if before.step_ratio_max is None or not {"step_up_max", "step_down_max"} & wanted.keys():
        return before
    step = before.step_ratio_max
    return msgspec.structs.replace(before, step_ratio_max=None, step_up_max=step, step_down_max=step)


def without_effect(before: JobSettings, after: JobSettings, topology: JobTopology | None) -> str | None:
    """Return in words that a new upper bound is above what the engine allows every task, or None if it is not.

    ``topology``: None where the settings are those of all jobs of a cluster, which differ in what they allow.
    """
    if topology is None:
        return None
    most = max((spec.max_parallelism for spec in topology.tasks if spec.scalable), default=0)
    bound = after.parallelism_max
    if bound is None or bound == before.parallelism_max or bound <= most:
        return None
    return f"the engine allows at most {most} subtasks of a task, so --max {bound} has no effect"


def differences(before: JobSettings, after: JobSettings) -> dict[str, tuple[object, object]]:
    """Return what a user changed, by field: before and after. What is set to its own default was None before, or is after."""
    found: dict[str, tuple[object, object]] = {}
    for name in (*OPTIONS, *REQUESTS, *STEPS):
        (was, was_given), (now, is_given) = ((_value(each, name), name in (each.given or ())) for each in (before, after))
        if was == now and was_given != is_given:
            was, now = was if was_given else None, now if is_given else None
        if was != now:
            found[name] = (was, now)
    return found


def _value(settings: JobSettings, name: str) -> object:
    value = getattr(settings, name)
    if name == "objective" and settings.latency_bound is not msgspec.UNSET:
        value = settings.latency_bound
    return None if value is msgspec.UNSET else value


def resumed(history: Iterable[Recorded], job: str) -> dict[str, object]:
    """Return what undoes pause and pin: the last mode that was not ``observe``, the last policy that was not ``hold``."""
    mode, policy, version = JobSettings(job=job).mode, None, 0
    for settings in (recorded.settings for recorded in history):
        if settings.version < version:
            continue  # it was never in force
        version = settings.version
        if settings.mode != PAUSED:
            mode = settings.mode
        if settings.policy != PINNED:
            policy = settings.policy
    return {"mode": mode, "policy": policy}


def _check(settings: JobSettings, topology: JobTopology) -> None:
    least, most, total = settings.parallelism_min, settings.parallelism_max, total_limit(settings, topology.engine)
    if most is not None and least > most:
        raise SettingsError(f"--min: {least} is more than --max {most}; give a --min of at most {most} or a higher --max")
    scalable = [task for task in topology.tasks if task.scalable]
    bounds = [bounds_of(settings, task, topology.engine) for task in scalable]
    needed = sum(task.parallelism if each.pinned else each.least for task, each in zip(scalable, bounds, strict=True))
    if total is not None and total < needed:
        what = "--task and --min" if settings.tasks else f"--min {least} each"
        raise SettingsError(
            f"--total: {total} is less than {len(scalable)} scalable tasks with {what} need; "
            f"give at least {needed} or a lower --min"
        )
    for task in scalable:
        _check_task(settings, task, topology.engine)


def _check_task(settings: JobSettings, task: TaskSpec, engine: str) -> None:
    own, name = task_limits(settings, task), task.label or task.task
    most = owners_maximum(settings, task, engine)
    least = own.parallelism_min or settings.parallelism_min
    given = f"--task: {name}={least}.." if own.parallelism_min else f"--min: {least}"
    if own.parallelism_max and least > own.parallelism_max:
        raise SettingsError(f"{given} is more than the {own.parallelism_max} that task {name} may have; give at most that")
    if most is not None and least > most:
        raise SettingsError(f"{given} is more than --max {most}; give the task a maximum too, like {name}={least}..{least}")
    if least > task.max_parallelism and not own.pinned:
        raise SettingsError(f"{given} is more than task {name} can have ({task.max_parallelism}); give at most that")
