"""What ``surescale job`` shows: a job's settings now, and every change of them. Pure."""

from typing import Literal

import msgspec
from msgspec import UNSET

from contracts.job_labels import FIELDS, Source, in_force, source_of, unreadable
from contracts.job_limits import (
    answers_emergencies,
    backlog_hold_minutes,
    blocks_ineffective,
    bounds_of,
    parallelism_max,
    scale_down_after_minutes,
    step_down,
    step_up,
    total_limit,
    utilisation,
)
from contracts.job_settings import JobSettings, Mode
from contracts.limits_in_words import in_words
from contracts.messages import JobTopology
from contracts.modes import Source as ModeSource
from contracts.objectives import in_words as in_words_of
from contracts.releases import why_released
from runtime.instants import to_the_second
from services.job_settings.changes import differences
from services.job_settings.snapshot import SettingsSnapshot


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What is allowed for a job, who allowed it, and what the job is like now."""

    job: str
    mode: Mode
    mode_set_by: ModeSource
    parallelism_min: int
    parallelism_max: int | None
    total_limit: int | None
    tasks: list[str]
    step_up_max: float
    step_down_max: float
    backlog_hold_minutes: float
    scale_down_after_minutes: int
    excluded: list[str]
    paused: str
    rescales_a_day_max: int | None
    block_ineffective: bool
    emergency_growth: bool
    align: bool
    cpu_limit: float | None
    memory_limit: float | None
    feature_drift_max: float | None
    calibrated_spread: bool
    catch_up_minutes: float | None
    restart_seconds: float | None
    objective: str | None
    utilisation: float | None
    minutes_known_min: int
    on_drift: Literal["adopt", "insist", "stop"]
    priority: int
    policy: str | None
    version: int
    set_by: str
    set_at: str
    policy_in_use: str
    scalable_tasks: int
    parallelism: int
    state: str
    sources: dict[str, Source]
    labels_ignored: list[str]


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """One record of settings; ``changed`` has each field's value before and after."""

    version: int
    at_ms: int
    pipeline_time_ms: int | None
    set_by: str
    changed: dict[str, tuple[object, object]]
    in_force: bool


def overview(snapshot: SettingsSnapshot, pipeline_policy: str) -> Overview:
    """Return how a job's settings stand; ``pipeline_policy`` is the agents' own, for jobs that nothing else gives one."""
    settings, scalable = snapshot.settings, [task for task in snapshot.topology.tasks if task.scalable]
    engine, labels = snapshot.topology.engine, snapshot.topology.labels
    own, settings = settings, in_force(settings, labels)
    policy = settings.policy or (snapshot.release.policy if snapshot.release else pipeline_policy)
    released = why_released(snapshot.release.to, snapshot.release.policy) if snapshot.release else "agents' own"
    source = ("job" if own.policy else "label") if settings.policy else released
    return Overview(
        job=snapshot.job,
        mode=snapshot.mode.mode,
        mode_set_by=snapshot.mode.source,
        parallelism_min=settings.parallelism_min,
        parallelism_max=parallelism_max(settings, engine),
        total_limit=total_limit(settings, engine),
        tasks=in_words(settings.tasks),
        step_up_max=step_up(settings, engine),
        step_down_max=step_down(settings),
        backlog_hold_minutes=backlog_hold_minutes(settings, engine),
        scale_down_after_minutes=scale_down_after_minutes(settings, engine),
        excluded=in_words(settings.excluded),
        paused=str(snapshot.pauses) or "no",
        rescales_a_day_max=settings.rescales_a_day_max,
        block_ineffective=blocks_ineffective(settings, engine),
        emergency_growth=answers_emergencies(settings, engine),
        align=settings.align,
        cpu_limit=settings.cpu_limit,
        memory_limit=settings.memory_limit or None,
        feature_drift_max=None if settings.feature_drift_max is UNSET else settings.feature_drift_max,
        calibrated_spread=settings.calibrated_spread is True,
        catch_up_minutes=settings.catch_up_minutes,
        restart_seconds=settings.restart_seconds,
        objective=in_words_of(settings.latency_bound or settings.objective),
        utilisation=utilisation(settings),
        minutes_known_min=settings.minutes_known_min,
        on_drift=settings.on_drift,
        priority=settings.priority,
        policy=settings.policy,
        version=settings.version,
        set_by=settings.set_by,
        set_at=_when_set(settings),
        policy_in_use=f"{policy} ({source})",
        scalable_tasks=len(scalable),
        parallelism=sum(task.parallelism for task in scalable),
        state=snapshot.topology.state,
        sources={field: source_of(own, labels, field) for field in FIELDS.values() if field in Overview.__struct_fields__},
        labels_ignored=list(unreadable(labels)),
    )


def limits_in_force(shown: Overview, topology: JobTopology, settings: JobSettings) -> list[str]:
    """Return lines for people: each limit in force with what decides it, and what the limits change of what runs now.

    ``settings``: the job's, without its labels.
    """
    words = {"settings": "set for this job", "label": "label", "default": f"default of {topology.engine}"}
    rows = [(name, getattr(shown, field), shown.sources[field]) for name, field in FIELDS.items() if field in shown.sources]
    lines = [f"  {name:<17} {_shown(value)} ({words[source]})" for name, value, source in rows]
    return ["limits in force:", *lines, *shown.labels_ignored, *_effects(topology, in_force(settings, topology.labels))]


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _effects(topology: JobTopology, settings: JobSettings) -> list[str]:
    """Return what limits change of what runs, whatever the load."""
    found, scalable = [], [spec for spec in topology.tasks if spec.scalable]
    for spec in scalable:
        least, most, pinned = bounds_of(settings, spec, topology.engine)
        name, runs = spec.label or spec.task, spec.parallelism
        if not pinned and runs > most:
            found.append(f"now: {name} runs with {runs}, above its maximum of {most}: it goes there in steps, as the load allows")
        elif not pinned and runs < least:
            found.append(f"now: {name} runs with {runs}, below its minimum of {least}: the next decision widens it")
    total, runs = total_limit(settings, topology.engine), sum(spec.parallelism for spec in scalable)
    if total is not None and runs > total:
        found.append(f"now: the job runs with {runs}, above its total of {total}: it goes there in steps, as the load allows")
    return found or ["now: what runs is within these limits"]


def changes_of(snapshot: SettingsSnapshot) -> list[SettingsChange]:
    """Return every record of a job's settings as a change of those in force before it."""
    before, found = JobSettings(job=snapshot.job), []
    for recorded in snapshot.history:
        settings = recorded.settings
        in_force = settings.version >= before.version
        found.append(
            SettingsChange(
                version=settings.version,
                at_ms=recorded.append_ms,
                pipeline_time_ms=settings.set_at_ms,
                set_by=settings.set_by,
                changed=differences(before, settings),
                in_force=in_force,
            )
        )
        before = settings if in_force else before
    return found


def _when_set(settings: JobSettings) -> str:
    if not settings.version:
        return "never"
    return to_the_second(settings.set_at_ms) if settings.set_at_ms else "before the pipeline's clock ran"
