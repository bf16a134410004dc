"""Which of a job's settings may be changed, and what contradicts itself. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_limits import bounds_of, owners_maximum, task_limits, total_limit
from surescale.contracts.job_settings import SETTINGS, Approval, JobSettings, LatencyBound, Pause, effective, newer
from surescale.contracts.limits_in_words import NONE, check_bounds, in_words, period_in_words
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.objectives import in_words as objective_in_words
from surescale.contracts.plurals import counted
from surescale.runtime.instants import to_the_second

DEFAULT = "default"
"""As if it had never been set."""
REQUESTS = {"adopted_at_ms": "adopt", "reapplied_at_ms": "reapply"}
"""The command of each field that says until when something was requested."""
STEPS = ("pause", "approval")
"""What people do now, with commands of their own: `surescale job pause`, `resume` and `approve`."""
BOUNDS = frozenset({"minimum_within", "parallelism_min", "parallelism_max", "total_limit", "tasks"})
VERSION_MAX = 2**53  # a `Count`


@dataclass(frozen=True, slots=True)
class Recorded:
    """One settings record and the broker's time for it."""

    settings: JobSettings
    append_ms: int


def newest(history: Iterable[Recorded], job: str) -> JobSettings:
    """Return the settings in force after these records (in the order of the topic); of equal versions the later one counts."""
    latest = JobSettings(job=job)
    for recorded in history:
        latest = newer(latest, recorded.settings)
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
    made = {"version": version, "set_by": by, "set_at_ms": at_ms, "request": request or None, "applied_from": None}
    settings = msgspec.structs.replace(before, **{**made, **wanted})
    if topology is not None and BOUNDS & wanted.keys():
        _check(settings, topology)
    return settings


def in_force_of(history: Iterable[Recorded], job: str) -> list[Recorded]:
    """Return the records of a history that came into force, oldest first."""
    latest, found = JobSettings(job=job), []
    for recorded in history:
        if newer(latest, recorded.settings) is recorded.settings:
            latest = recorded.settings
            found.append(recorded)
    return found


@dataclass(frozen=True, slots=True)
class Applied:
    """What files say of a job: whose files, and what they last set."""

    name: str
    settings: JobSettings

    def by_hand(self, now: JobSettings) -> dict[str, tuple[object, object]]:
        """Return what was changed since, by field: as applied, and as it is now."""
        return {name: pair for name, pair in differences(self.settings, now).items() if name in SETTINGS}


def applied_to(history: Iterable[Recorded], job: str) -> Applied | None:
    """Return what files say of a job; None: nothing, or they let it go."""
    for recorded in reversed(in_force_of(history, job)):
        if recorded.settings.applied_from is not None:
            return Applied(recorded.settings.applied_from, recorded.settings) if recorded.settings.applied_from else None
    return None


def without_effect(before: JobSettings, after: JobSettings, topology: JobTopology | None) -> str | None:
    """Return in words that a new upper bound is above what the engine allows every task, that a bound within a period is weaker
    than the job's own, or that a safe size is above it; None if none is.

    ``topology``: None where the settings are those of all jobs of a cluster, which differ in what they allow.
    """
    if topology is None:
        return None
    most = max((spec.max_parallelism for spec in topology.tasks if spec.scalable), default=0)
    bound = after.parallelism_max
    if after.minimum_within != before.minimum_within and (weaker := _weaker_within(after)):
        return weaker
    names = ("safe_size", "parallelism_max", "tasks")
    if any(getattr(after, each) != getattr(before, each) for each in names) and (above := _above_max(after)):
        return above
    if bound is None or bound == before.parallelism_max or bound <= most:
        return None
    return f"the engine allows at most {counted(most, 'subtask')} of a task, so --max {bound} has no effect"


def _above_max(settings: JobSettings) -> str | None:
    """Return in words that no task may ever get the job's safe size; None where one may, or nobody set any."""
    most, safe = settings.parallelism_max, settings.safe_size
    own = [each.parallelism_max for each in (settings.tasks or {}).values() if each.parallelism_max is not None]
    if safe is None or most is None or safe <= (most := max((most, *own))):
        return None
    return f"no task may have more than {counted(most, 'subtask')}, so --safe-size {safe} counts as {most}"


def _weaker_within(settings: JobSettings) -> str | None:
    """Return in words which bound within a period the job's own makes void; None: none is."""
    least, most = effective(settings, "parallelism_min"), settings.parallelism_max
    for each in settings.minimum_within or ():
        when = period_in_words(each.period)
        if most is not None and each.most is not None and each.most > most:
            return f"--max {most} holds within {when} too, so max {each.most} has no effect"
        if 1 < each.least < least:
            return f"--min {least} holds within {when} too, so min {each.least} has no effect"
    return None


def differences(before: JobSettings, after: JobSettings) -> dict[str, tuple[object, object]]:
    """Return what a user changed, by field: before and after; None: not set."""
    found = {name: (getattr(before, name), getattr(after, name)) for name in (*SETTINGS, *REQUESTS, *STEPS)}
    return {name: (was, now) for name, (was, now) in found.items() if was != now}


def value_in_words(field: str, value: object, nothing: str = DEFAULT) -> str:
    """Return a setting as its option has it; ``nothing``: the word for one that nobody set.

    >>> value_in_words("calibrated_spread", True), value_in_words("excluded", ()), value_in_words("total_limit", None)
    ('calibrated', 'none', 'default')
    """
    if value is None:
        return nothing
    if isinstance(value, bool):
        return next(word for word, meant in (SETTINGS[field].words or {}).items() if meant is value)
    if isinstance(value, LatencyBound):
        return objective_in_words(value) or NONE
    if isinstance(value, dict | tuple | list):
        return ", ".join(in_words(value)) or NONE
    return f"{value:g}" if isinstance(value, float) else str(value)


def change_in_words(name: str, before: object, after: object) -> str:
    """Return one change of a field for people."""
    if name == "pause":
        return f"paused: {after.direction}, {after.why}" if isinstance(after, Pause) else "resumed"
    if isinstance(after, Approval):
        return f"approved {after.decision_id}"
    if name in REQUESTS and isinstance(after, int):
        return f"{REQUESTS[name]} what was there until {to_the_second(after)}"
    return f"{SETTINGS[name].option} {value_in_words(name, before)} -> {value_in_words(name, after)}"


def _check(settings: JobSettings, topology: JobTopology) -> None:
    check_bounds(settings)
    least, total = effective(settings, "parallelism_min"), total_limit(settings, topology.engine)
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
    least = own.parallelism_min or effective(settings, "parallelism_min")
    given = f"--task: {name}={least}.." if own.parallelism_min else f"--min: {least}"
    if own.parallelism_max and least > own.parallelism_max:
        raise SettingsError(f"{given} is more than the {own.parallelism_max} that task {name} may have; give at most that")
    if most is not None and least > most:
        raise SettingsError(f"{given} is more than --max {most}; give the task a maximum too, like {name}={least}..{least}")
    for each in settings.minimum_within or ():
        if each.most is not None and own.parallelism_min and own.parallelism_min > each.most:
            when = period_in_words(each.period)
            raise SettingsError(
                f"--within: {when}: max {each.most} is less than --task {name}={least}..; give at least that or a lower --task"
            )
    if least > task.max_parallelism and not own.pinned:
        raise SettingsError(f"{given} is more than task {name} can have ({task.max_parallelism}); give at most that")
