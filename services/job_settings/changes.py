"""What may be changed of a job's settings, and what contradicts itself. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from contracts.errors import SettingsError
from contracts.messages import JobSettings, JobTopology

CHANGEABLE = ("mode", "parallelism_min", "parallelism_max", "total_limit", "step_ratio_max", "priority", "policy")
OPTIONS = {
    "mode": "--mode",
    "parallelism_min": "--min",
    "parallelism_max": "--max",
    "total_limit": "--total",
    "step_ratio_max": "--step",
    "priority": "--priority",
    "policy": "--policy",
}
BOUNDS = frozenset({"parallelism_min", "parallelism_max", "total_limit"})
PAUSED = "observe"
PINNED = "hold"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One settings record with the broker's time at which it was taken in."""

    settings: JobSettings
    append_ms: int


def newest(history: Iterable[Recorded], job: str) -> JobSettings:
    """Return the settings in force after these records, in the order of the topic: of equal versions the later one."""
    latest = JobSettings(job=job)
    for recorded in history:
        if recorded.settings.version >= latest.version:
            latest = recorded.settings
    return latest


def changed(before: JobSettings, wanted: Mapping[str, object], topology: JobTopology, *, by: str, at_ms: int) -> JobSettings:
    """Return the next version of a job's settings.

    Bounds are checked when one of them is named: a job that has outgrown those it has can be paused all the same.

    Raises:
        SettingsError: the new settings contradict themselves or the job; the message names the option.
    """
    settings = msgspec.structs.replace(before, **wanted, version=before.version + 1, set_by=by, set_at_ms=at_ms)
    if BOUNDS & wanted.keys():
        _check(settings, topology)
    return settings


def differences(before: JobSettings, after: JobSettings) -> dict[str, tuple[object, object]]:
    """Return what a user changed, by field: before and after."""
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in CHANGEABLE}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


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
    scalable = [task for task in topology.tasks if task.scalable]
    least, most = settings.parallelism_min, settings.parallelism_max
    if least > most:
        raise SettingsError(f"--min: {least} is more than --max {most}; give a --min of at most {most} or a higher --max")
    needed = least * len(scalable)
    if settings.total_limit < needed:
        raise SettingsError(
            f"--total: {settings.total_limit} is less than {len(scalable)} scalable tasks with --min {least} each need; "
            f"give at least {needed} or a lower --min"
        )
    for task in scalable:
        if least > task.max_parallelism:
            raise SettingsError(
                f"--min: {least} is more than task {task.task} can have ({task.max_parallelism}); give at most that"
            )
