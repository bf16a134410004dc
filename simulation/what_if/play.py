"""Plays one variant through a recorded stretch in a closed loop: ``policies.decide`` with its guardrails, restarts paid.

A decision takes effect a minute later and stops the job as long as restarts stopped it in the recording. The rescaler's waits and
limits are played (``simulation.loops.rescaler``), but not where subtasks are placed, nor what quotas that gives. A ``Variant``
knows which settings a loop plays.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.job_limits import answers_emergencies
from surescale.contracts.job_settings import (
    LATE_SECONDS,
    SETTINGS,
    ExcludedPeriod,
    JobSettings,
    LatencyBound,
    PeriodBounds,
    TaskLimits,
    effective,
)
from surescale.contracts.messages import JobTopology
from surescale.contracts.waits import counted_waits
from surescale.contracts.windows import FIGURE, Float32, Window
from surescale.policies.answer import Float64
from surescale.policies.decide import decide_if_due
from surescale.policies.departure import waiting_records
from surescale.policies.graph import Int64
from surescale.policies.policy import Policy
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.sizing import Sizing
from surescale.simulation.loops.rescaler import Rescaler, busy_minutes
from surescale.simulation.loops.rows import LoopRows, Observed
from surescale.simulation.loops.terms import Terms
from surescale.simulation.what_if.scenario import HOUR_MINUTES, Scenario, WhatIfError

OF_HOSTS = ("cpu_limit", "memory_limit")
PLAYED = tuple(field for field, setting in SETTINGS.items() if setting.read_by != "control" and field not in OF_HOSTS)
"""Settings that policies, guardrails and the rescaler's limits read. Quotas, pauses and modes are not played."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to try.

    Attributes:
        label: as people named it.
        policy: decides at the end of every span.
        settings: of the job.
        price: dollars per subtask and hour; None: unknown.
    """

    label: str
    policy: Policy
    settings: JobSettings
    price: float | None


def with_utilisation(policy: Policy, utilisation: float) -> Policy:
    """Return a rule that aims at this share of its subtasks' time.

    Raises:
        WhatIfError: the policy has no target, or no task can be that busy.
    """
    if not 0.0 < utilisation <= 1.0:
        raise WhatIfError(f"utilisation={utilisation:g}: give a share above 0 and up to 1, e.g. 0.7")
    changed: Any = None
    if isinstance(policy, ForecastRule):
        sizing = msgspec.structs.replace(policy.base.sizing, utilisation=utilisation)
        changed = replace(policy, base=msgspec.structs.replace(policy.base, sizing=sizing))
    elif is_dataclass(policy) and not isinstance(policy, type):
        names = {field.name for field in fields(policy)}
        if isinstance(sizing := getattr(policy, "sizing", None), Sizing):
            changed = replace(policy, sizing=msgspec.structs.replace(sizing, utilisation=utilisation))
        else:
            name = next((name for name in ("utilisation", "target") if name in names), None)
            changed = replace(policy, **{name: utilisation}) if name else None
    if changed is None:
        raise WhatIfError(
            f"utilisation: {policy.name} has no target utilisation; try objective=cost or objective=latency, "
            "or a rule that has one"
        )
    found: Policy = changed
    return found


def with_settings(settings: JobSettings, changes: dict[str, object]) -> JobSettings:
    """Return settings with some fields changed.

    Raises:
        WhatIfError: a value does not suit the field, or the bounds contradict each other.
    """
    for name in changes:
        if name not in PLAYED:
            raise WhatIfError(
                f"{name}: a what-if does not play this setting; of those that the rescaler reads, it plays the limits on rescales"
            )
    try:
        found = msgspec.convert({**msgspec.to_builtins(settings), **changes}, JobSettings)
    except msgspec.ValidationError as error:
        what, _, at = " ".join(str(error).split()).replace("`", "").partition(" - at $.")
        raise WhatIfError(f"{at}: {what[0].lower()}{what[1:]}" if at else what) from None
    _check_parts("tasks", changes.get("tasks"), TaskLimits)
    _check_parts("excluded", changes.get("excluded"), ExcludedPeriod)
    _check_parts("minimum_within", changes.get("minimum_within"), PeriodBounds)
    least = effective(found, "parallelism_min")
    if found.parallelism_max is not None and least > found.parallelism_max:
        raise WhatIfError(f"parallelism_min={least}: above parallelism_max={found.parallelism_max}")
    return found


def _check_parts(field: str, given: object, kind: type[TaskLimits | ExcludedPeriod | PeriodBounds]) -> None:
    """Refuse a part with a field that its kind does not have; records may have new fields, but people mistype them."""
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    for part in parts:
        unknown = sorted(set(part) - set(kind.__struct_fields__)) if isinstance(part, dict) else []
        if unknown:
            raise WhatIfError(f"{field}: there is no field {unknown[0]!r}; known: {', '.join(kind.__struct_fields__)}")


def not_played(settings: JobSettings) -> tuple[str, ...]:
    """Return the settings of a job that somebody set and that the closed loop leaves out."""
    return tuple(field for field in (*OF_HOSTS, "pause") if getattr(settings, field) is not None)


@dataclass(frozen=True, slots=True)
class Played:
    """What happened to a job; M minutes, H hours, D decisions, T tasks that can be scaled or take time.

    Attributes:
        subtasks: float64 [M], of all tasks.
        waiting: float64 [M], records waiting at all tasks, mean over each minute.
        busy: float64 [M], busy subtask-minutes; NaN, as is ``waiting``, in minutes that nobody counted.
        waited: float64 [H], record-minutes spent in the job, source to sink.
        arrivals: float64 [H], records that came.
        rescales: int64 [H].
        late: float64 [H], minutes of those that count in which latency was above ``late_after_seconds`` of the variants.
        counted: float64 [H], minutes that count.
        sizes: int64 [D, T], wanted from each decision on.
        at_ms: int64 [D], when each was made.
        reasons: [D], the decision's sentence.
        stand_ins: how often the rule stood in for a model, with one reason.
    """

    subtasks: Float64
    waiting: Float64
    busy: Float64
    waited: Float64
    arrivals: Float64
    rescales: Int64
    late: Float64
    counted: Float64
    sizes: Int64
    at_ms: Int64
    reasons: tuple[str, ...]
    stand_ins: int = 0
    stand_in_reason: str = ""


def check_span(policy_name: str, span_minutes: int) -> None:
    """Refuse a policy whose decisions do not fall on full hours.

    Raises:
        WhatIfError: its span does not divide an hour.
    """
    if HOUR_MINUTES % span_minutes:
        raise WhatIfError(f"{policy_name} decides every {span_minutes} minutes; a divisor of 60 is needed")


def late_after_seconds(settings: JobSettings) -> float:
    """Return above which latency a minute of a job is late."""
    return settings.objective.seconds if isinstance(settings.objective, LatencyBound) else LATE_SECONDS


def play(
    scenario: Scenario,
    variant: Variant,
    *,
    draw: int,
    seed: int,
    told: Callable[[float], None],
    late_seconds: float | None = None,
) -> Played:
    """Play a variant through the whole stretch, in one draw of what varies.

    Args:
        scenario: where.
        variant: what.
        draw: of what varies.
        seed: of decisions.
        told: receives the share that is done.
        late_seconds: above which latency a minute is late; None: as the variant's own settings have it.
    """
    span_minutes = variant.policy.span_minutes
    objective = variant.settings.objective
    bound = objective if isinstance(objective, LatencyBound) else None  # under one, policies see how long records waited
    terms = replace(scenario.terms(draw, span_minutes), latency_bound=bound, late_seconds=late_seconds)
    rows = _settled(scenario, terms)
    busy = busy_minutes(terms.restart_ms, terms.delay_minutes)
    rescaler = Rescaler(variant.settings, busy)
    # An emergency is looked for every minute, as in the pipeline. Where nothing is done between spans, whole ones are quicker.
    is_minutely = answers_emergencies(variant.settings, scenario.recorded.topology.engine) or busy > span_minutes
    step_minutes = 1 if is_minutely else span_minutes
    count = scenario.hours * HOUR_MINUTES // step_minutes
    decisions: list[Decision] = []
    spans, figures = [], []
    for done in range(count):
        seen = rows.observe()
        if done:
            figures.append(seen.figures[0, -step_minutes:])
        window = _window(scenario, terms, seen)
        made = decide_if_due(window, variant.policy, variant.settings, seed=seed)
        if made is not None:
            decisions.append(made)
        wanted = rescaler.wanted(made, window.topology, window.window_end_ms)
        sizes = np.array([[wanted.get(spec.task, spec.parallelism) for spec in window.topology.tasks]], dtype=np.int64)
        spans.append(rows.step_minute(sizes if wanted else None) if is_minutely else rows.step(sizes))
        told((done + 1) / count)
    figures.append(rows.observe().figures[0, -step_minutes:])
    minutes = np.concatenate(figures)

    def hourly(name: str) -> Float64:
        values = np.array([float(getattr(span, name)[0]) for span in spans])
        summed: Float64 = values.reshape(scenario.hours, -1).sum(axis=1)
        return summed

    reasons = [made.policy.fallback_reason for made in decisions if made.policy.fallback_reason]
    return Played(
        subtasks=filled(minutes[:, 1:-1, FIGURE["parallelism"]].sum(axis=1)),
        waiting=waiting_records(minutes),
        busy=minutes[:, 1:-1, FIGURE["busy_ms"]].astype(np.float64).sum(axis=1) / MINUTE_MS,
        waited=hourly("backlog_minutes"),
        arrivals=hourly("arrivals"),
        rescales=np.rint(hourly("rescaled")).astype(np.int64),
        late=hourly("late_minutes"),
        counted=hourly("counted_minutes"),
        sizes=np.array([[task.desired for task in made.tasks[1:-1]] for made in decisions], dtype=np.int64),
        at_ms=np.array([made.span_end_ms for made in decisions], dtype=np.int64),
        reasons=tuple(made.reason for made in decisions),
        stand_ins=len(reasons),
        stand_in_reason=reasons[0] if reasons else "",
    )


def _settled(scenario: Scenario, terms: Terms) -> LoopRows:
    """Return one row at the first decision, after an hour at the sizes that the job had in it, with the queues these left."""
    begin = scenario.first_minute - HOUR_MINUTES
    first = begin - scenario.lead_minutes
    rows = LoopRows(scenario.job, scenario.workload, np.array([begin]), scenario.recorded_sizes(first)[None], terms)
    for minute in range(first, first + HOUR_MINUTES, terms.span_minutes):
        rows.step(scenario.recorded_sizes(minute + 1)[None])
    return rows


def play_recorded_sizes(scenario: Scenario, minutes: slice, *, draw: int) -> tuple[Float64, Float64]:
    """Return waiting records and busy subtask-minutes [m] over some recorded minutes, at the sizes that the job had in them.

    The hour before runs too, and does not count.
    """
    terms = replace(scenario.terms(draw, 1), window_minutes=1, effect_minutes=0)
    begin = max(1, minutes.start - HOUR_MINUTES)
    sizes = scenario.recorded_sizes(begin)
    rows = LoopRows(scenario.job, scenario.workload, np.array([scenario.lead_minutes + begin]), sizes[None], terms)
    figures = []
    for minute in range(begin, minutes.stop):
        sizes = scenario.recorded_sizes(minute)
        rows.step(sizes[None])
        figures.append(rows.observe().figures[0, -1])
    shown = np.array(figures[minutes.start - begin :])
    return waiting_records(shown), shown[:, 1:-1, FIGURE["busy_ms"]].astype(np.float64).sum(axis=1) / MINUTE_MS


def filled(values: Float32 | Float64) -> Float64:
    """Return values [m] with each unknown one replaced by the known one before it, else the first known one."""
    numbers = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    if not known.any():
        return np.zeros_like(numbers)
    at = np.maximum.accumulate(np.where(known, np.arange(len(numbers)), -1))
    found: Float64 = numbers[np.where(at >= 0, at, int(known.argmax()))]
    return found


def _window(scenario: Scenario, terms: Terms, seen: Observed) -> Window:
    """Return the window that the pipeline would send."""
    recorded, specs = scenario.recorded, scenario.job.recorded_specs
    sizes, announced_ms = seen.current[0].tolist(), recorded.topology.restart_ms
    tasks = tuple(msgspec.structs.replace(spec, parallelism=size) for spec, size in zip(specs, sizes, strict=True))
    topology = JobTopology(
        job=recorded.job,
        version=0,
        at_ms=0,
        tasks=tasks,
        engine=recorded.topology.engine,
        restart_ms=terms.told_restart_ms if announced_ms is None else announced_ms,
    )
    return Window(
        job=recorded.job,
        window_end_ms=int(seen.ends_ms[0]),
        figures=seen.figures[0],
        topology=topology,
        hourly_load=seen.hourly_load[0].astype(np.float32),
        hourly_peak=seen.hourly_peak[0].astype(np.float32),
        waits=() if seen.waits_s is None else counted_waits(seen.waits_s[0]),
        load_codes=seen.load_codes[0],
    )
