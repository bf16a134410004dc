"""Job settings as options and on screens, made of the table ``contracts.job_settings.SETTINGS``. Pure; imports nothing slow."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import inspect

from surescale.contracts.decisions import Decision
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_labels import FIELDS, SEPARATOR, STEP, STEPS, in_force, is_set, read_limit, source_of, unreadable
from surescale.contracts.job_limits import at_time, bounds_of, in_periods, minimum_within, total_limit
from surescale.contracts.job_settings import SETTINGS, JobSettings, LatencyBound, Setting, effective, newer
from surescale.contracts.limits_in_words import NONE, in_periods_in_words, in_words, read_task
from surescale.contracts.messages import JobTopology
from surescale.contracts.objectives import in_words as objective_in_words
from surescale.contracts.releases import why_released
from surescale.contracts.suggestions import near
from surescale.runtime import options
from surescale.runtime.instants import to_the_second
from surescale.services.job_settings.changes import DEFAULT, applied_to, change_in_words, differences, value_in_words

if TYPE_CHECKING:
    from surescale.services.job_settings.snapshot import SettingsSnapshot


class OrDefault(click.ParamType):
    """A value of another type, or the word ``default``."""

    def __init__(self, kind: click.ParamType) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word as it is, and anything else as the other type reads it."""
        return value if value == DEFAULT else self.kind.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return how help names the value."""
        if isinstance(self.kind, options.ObjectiveType):
            return f"{self.kind.get_metavar(param, ctx)}|{DEFAULT}"
        return f"{self.name.upper().removesuffix(' RANGE')}|{DEFAULT}"


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """One record of settings; ``changed`` has each field's value before and after, ``at_ms`` is the broker's time."""

    version: int
    at_ms: int
    pipeline_time_ms: int | None
    set_by: str
    changed: dict[str, tuple[object, object]]
    in_force: bool
    applied_from: str | None

    @property
    def who(self) -> str:
        """Return who made it, and from which files."""
        return f"{self.set_by} from {self.applied_from}" if self.applied_from else self.set_by

    @property
    def when(self) -> str:
        """Return when it was made, by the pipeline's clock, in UTC."""
        return _instant(self.pipeline_time_ms)


def _options() -> Iterator[Callable[[Any], Any]]:
    """Yield the option of each setting, with the type and the range of its field."""
    types = {field.name: field.type for field in inspect.type_info(JobSettings).fields}  # type: ignore[attr-defined]  # of a struct
    for field, setting in SETTINGS.items():
        kinds = [kind for kind in types[field].types if not isinstance(kind, inspect.NoneType)]
        if field == STEPS[0]:
            both = _kind(setting, kinds)
            assert isinstance(both, OrDefault)
            yield click.option(f"--{STEP}", type=both.kind, help="Sets --step-up and --step-down.")
        if setting.form:
            yield click.option(f"--{setting.option}", field, multiple=True, metavar=setting.form, help=setting.help)
        elif "yes" in (setting.words or {}):
            yield click.option(f"--{setting.option}/--no-{setting.option}", field, default=None, help=setting.help)
        else:
            yield click.option(f"--{setting.option}", field, type=_kind(setting, kinds), help=setting.help)


def _kind(setting: Setting, kinds: Sequence[inspect.Type]) -> click.ParamType:
    match kinds:
        case [inspect.BoolType()]:
            return click.Choice([*(setting.words or ()), DEFAULT])
        case [inspect.LiteralType(values)]:
            return click.Choice([*map(str, values), DEFAULT])
        case [inspect.IntType(ge=None)]:
            return OrDefault(click.INT)
        case [inspect.IntType(ge=least, le=most)]:
            return OrDefault(click.IntRange(least, most))
        case [inspect.FloatType(gt=above, ge=least, le=most)]:
            return OrDefault(options.FiniteRange(least if above is None else above, most, min_open=above is not None))
        case [inspect.StrType()]:
            return OrDefault(click.STRING)
    return OrDefault(options.OBJECTIVE)


limits = options.grouped(*_options())
"""The options of ``surescale job set``, one for each setting."""


def as_settings(given: Mapping[str, object]) -> dict[str, object]:
    """Return options as fields of ``JobSettings``; ``tasks`` become (name, limits), still to be joined to those before.

    Raises:
        SettingsError: a period or the limits of a task do not parse, or contradict one another.
    """
    wanted = {field: _read(field, value) for field, value in given.items() if field != STEP}
    return dict.fromkeys(STEPS, given[STEP]) | wanted if STEP in given else wanted


def _read(field: str, value: Any) -> object:
    setting = SETTINGS[field]
    if value in (DEFAULT, (DEFAULT,)):
        return None
    if field == "tasks":
        return tuple(read_task(text) for text in value)
    if setting.form and NONE in value and len(value) > 1:
        raise SettingsError(f"--{setting.option}: {NONE} takes all of them away; leave it or the others out")
    if setting.form:
        return read_limit(field, SEPARATOR.join(value))
    return setting.words[value] if setting.words and isinstance(value, str) else value


def with_tasks(wanted: Mapping[str, object], before: JobSettings, topology: JobTopology | None) -> dict[str, object]:
    """Return what is wanted, with limits of single tasks joined to those that other tasks have already.

    Raises:
        SettingsError: the job has no such task. Of a job that is not known yet any may be named.
    """
    if "tasks" not in wanted:
        return dict(wanted)
    named: Any = wanted["tasks"]  # (name, limits or None) for each, made by ``as_settings``
    tasks = before.tasks or {}
    known = {name for spec in (topology.tasks if topology else ()) for name in (spec.task, spec.label) if name}
    for name, limits in named if topology is not None else ():
        if name not in known and not (limits is None and name in tasks):
            like = ", ".join(near(name, sorted(known)))
            raise SettingsError(f"--task: job {before.job} has no task {name!r}; known: {like}")
    joined = {**tasks, **dict(named)}
    return {**wanted, "tasks": {name: limits for name, limits in sorted(joined.items()) if limits is not None}}


def overview(snapshot: "SettingsSnapshot", pipeline_policy: str) -> dict[str, Any]:
    """Return how a job's settings stand, as a JSON object: each setting as it holds now, who set it, and what the job is like.

    ``pipeline_policy``: the agents' own, for jobs that nothing else gives one.
    """
    own, topology = snapshot.settings, snapshot.topology
    labels, settings = topology.labels, in_force(own, topology.labels)
    scalable = [task for task in topology.tasks if task.scalable]
    policy = settings.policy or (snapshot.release.policy if snapshot.release else pipeline_policy)
    applied = applied_to(snapshot.history, snapshot.job)
    released = why_released(snapshot.release.to, snapshot.release.policy) if snapshot.release else "SURESCALE_POLICY"
    source = ("job" if own.policy else "label") if settings.policy else released
    return {
        "job": snapshot.job,
        "mode": snapshot.mode.mode,
        "mode_set_by": snapshot.mode.source,
        **{field: _plain(effective(settings, field, topology.engine)) for field in FIELDS.values()},
        "within_now": in_periods_in_words(in_periods(settings, snapshot.now_ms), snapshot.now_ms) or NONE,
        "paused": str(snapshot.pauses) or "no",
        "version": own.version,
        "set_by": own.set_by,
        "set_at": _instant(own.set_at_ms) if own.version else "never",
        "applied_from": applied.name if applied else None,
        "changed_by_hand": [change_in_words(name, *pair) for name, pair in applied.by_hand(own).items()] if applied else [],
        "policy_in_use": f"{policy} ({source})",
        "scalable_tasks": len(scalable),
        "parallelism": sum(task.parallelism for task in scalable),
        "state": topology.state,
        "sources": {field: source_of(own, labels, field) for field in FIELDS.values()},
        "labels_ignored": list(unreadable(labels)),
    }


def overview_in_lines(shown: Mapping[str, Any], snapshot: "SettingsSnapshot") -> list[str]:
    """Return an overview for people: the job, each setting that somebody set with who and when, then all others together.

    ``shown``: of ``overview``, for the same snapshot. When: by the pipeline's clock, in UTC.
    """
    own, topology, sources = snapshot.settings, snapshot.topology, shown["sources"]
    settings = in_force(own, topology.labels)
    beside = {name: value for name, value in shown.items() if name not in {*FIELDS.values(), "sources"}}
    about = [f"{name:<19} {value_in_words(name, value)}" for name, value in beside.items() if value not in (None, [])]
    last = {field: change for change in changes_of(snapshot) if change.in_force for field in change.changed}
    words = {field: f"{last[field].who}, {last[field].when}" for field in SETTINGS if is_set(own, field)}
    words |= {field: "label" for field, source in sources.items() if source == "label"}
    given = [
        f"  {setting.option:<17} {value_in_words(field, getattr(settings, field))} ({words[field]})"
        for field, setting in SETTINGS.items()
        if field in words
    ]
    # Which policy decides where none is set is said above.
    rest = {name: shown[field] for name, field in FIELDS.items() if field not in words and field != "policy"}
    defaults = [f"{name} {value_in_words(FIELDS[name], value)}" for name, value in rest.items() if value is not None]
    free = [name for name, value in rest.items() if value is None]
    return [
        *about,
        *(["set for this job:", *given] if given else ["nothing is set for this job"]),
        f"defaults of {topology.engine}: {', '.join(defaults)}",
        f"no limit, or as the policy has it: {', '.join(free)}",
    ]


def _plain(value: Any) -> object:
    if isinstance(value, dict | tuple):
        return in_words(value)
    return objective_in_words(value) if isinstance(value, LatencyBound) else value


def limits_in_force(shown: Mapping[str, Any], topology: JobTopology, settings: JobSettings, now_ms: int) -> list[str]:
    """Return lines for people: each limit in force with what decides it, and what the limits change of what runs now.

    ``shown``: of ``overview``; ``settings``: the job's, without its labels; ``now_ms``: for what its periods decide.
    """
    words = {"settings": "set for this job", "label": "label", "default": f"default of {topology.engine}"}
    lines = [
        f"  {name:<17} {value_in_words(field, shown[field], nothing=NONE)} ({words[shown['sources'][field]]})"
        for name, field in FIELDS.items()
    ]
    ignored = shown["labels_ignored"]
    return ["limits in force:", *lines, *ignored, *_effects(topology, in_force(settings, topology.labels), now_ms)]


def _effects(topology: JobTopology, settings: JobSettings, now_ms: int) -> list[str]:
    """Return what limits change of what runs, whatever the load."""
    within, settings = minimum_within(settings, now_ms), at_time(settings, topology.engine, now_ms)
    found, scalable = [], [spec for spec in topology.tasks if spec.scalable]
    for spec in scalable:
        least, most, pinned = bounds_of(settings, spec, topology.engine, within)
        name, runs = spec.label or spec.task, spec.parallelism
        if not pinned and runs > most:
            found.append(f"now: {name} runs with {runs}, above its maximum of {most}: it goes there in steps, as the load allows")
        elif not pinned and runs < least:
            found.append(f"now: {name} runs with {runs}, below its minimum of {least}: the next decision widens it")
    total, runs = total_limit(settings, topology.engine), sum(spec.parallelism for spec in scalable)
    if total is not None and runs > total:
        found.append(f"now: the job runs with {runs}, above its total of {total}: it goes there in steps, as the load allows")
    return found or ["now: what runs is within these limits"]


def sizes_in_words(decision: Decision) -> str:
    """Return what a decision made again would change."""
    wanted = [f"{task.task} {task.current} -> {task.desired}" for task in decision.tasks if task.desired != task.current]
    what = f"would change {', '.join(wanted)}" if wanted else "would change nothing"
    return f"{decision.policy.name}, asked again about the window of its newest decision, {what}"


def changes_of(snapshot: "SettingsSnapshot") -> list[SettingsChange]:
    """Return every record of a job's settings as a change of those in force before it."""
    before, found = JobSettings(job=snapshot.job), []
    for recorded in snapshot.history:
        settings = recorded.settings
        after = newer(before, settings)
        found.append(
            SettingsChange(
                version=settings.version,
                at_ms=recorded.append_ms,
                pipeline_time_ms=settings.set_at_ms,
                set_by=settings.set_by,
                changed=differences(before, settings),
                in_force=after is settings,
                applied_from=settings.applied_from,
            )
        )
        before = after
    return found


def _instant(at_ms: int | None) -> str:
    return to_the_second(at_ms) if at_ms else "before the pipeline's clock ran"
